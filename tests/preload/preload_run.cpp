#include "tests/paths.h"
#include "tests/preload/preload_run.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include <sys/wait.h>
#include <unistd.h>

namespace cupola::preload_test {
namespace {

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

uint64_t PageUp(uint64_t bytes) { return (bytes + 4095) & ~uint64_t{4095}; }

Records ReadRecords(const std::filesystem::path& path) {
  const std::string bytes = ReadFile(path);
  Records records;
  const uint64_t names_at = PageUp(sizeof(RecordsHeader));
  const uint64_t slots_at = names_at + PageUp(kNameBytes);
  const uint64_t lanes_at = slots_at + PageUp(kSlots * sizeof(LaunchRecord));
  if (bytes.size() < lanes_at + kLanes * kLaneSlots * sizeof(LaneRecord)) return records;
  const auto* header = reinterpret_cast<const RecordsHeader*>(bytes.data());
  if (header->magic != kRecordsMagic || header->version != kRecordsVersion) return records;
  records.executable = header->executable;
  records.pid = header->pid;
  records.tail = header->tail;
  records.dropped = header->dropped;
  records.launches = header->launches;
  records.graph_launches = header->graph_launches;
  records.graph_kernel_nodes = header->graph_kernel_nodes;
  records.captured = header->captured;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const auto* slots =
        reinterpret_cast<const LaneRecord*>(bytes.data() + lanes_at) + lane * kLaneSlots;
    const uint64_t tail = header->lanes[lane].tail;
    records.launches += tail;
    records.in_lanes += tail;
    for (uint64_t at = header->lanes[lane].head; at < tail; ++at) {
      const LaneRecord& slot = slots[at % kLaneSlots];
      records.list.push_back(Launch{bytes.data() + names_at + slot.name_offset, slot.call_start_ns,
                                    slot.call_start_ns + slot.call_ns, 0, 0, slot.stream,
                                    slot.context, slot.thread_id,
                                    {slot.grid[0], slot.grid[1], slot.grid[2]},
                                    {slot.block[0], slot.block[1], slot.block[2]},
                                    slot.shared_bytes, 0, 0, slot.flags, RecordKind::kKernel,
                                    slot.door});
    }
  }
  std::map<uint64_t, size_t> places;  // in the list, by ticket
  for (uint64_t ticket = header->head; ticket < header->tail; ++ticket) {
    const auto* slot =
        reinterpret_cast<const LaunchRecord*>(bytes.data() + slots_at) + ticket % kSlots;
    if (slot->sequence != ticket + 1) continue;
    if (slot->kind == RecordKind::kDeviceTimes) {
      const auto place = places.find(slot->launch_ticket);
      if (place == places.end() || (slot->flags & kFlagDeviceTimed) == 0) continue;
      Launch& launch = records.list[place->second];
      launch.device_start_ns = slot->device_start_ns;
      launch.device_end_ns = slot->device_end_ns;
      launch.flags |= kFlagDeviceTimed;
      continue;
    }
    places[ticket] = records.list.size();
    Launch launch{bytes.data() + names_at + slot->name_offset, slot->call_start_ns,
                  slot->call_end_ns, slot->device_start_ns, slot->device_end_ns, slot->stream,
                  slot->context, slot->thread_id, {}, {}, slot->shared_bytes, slot->kernel_nodes,
                  slot->result, slot->flags, slot->kind, slot->door};
    memcpy(launch.grid, slot->grid, sizeof(launch.grid));
    memcpy(launch.block, slot->block, sizeof(launch.block));
    records.list.push_back(launch);
  }
  std::stable_sort(records.list.begin(), records.list.end(), [](const Launch& a, const Launch& b) {
    return a.call_start_ns < b.call_start_ns;
  });
  return records;
}

[[noreturn]] void BecomeProgram(const RunOptions& options, const std::filesystem::path& folder) {
  std::vector<std::string> environment;
  environment.push_back("PATH=/usr/bin:/bin");
  if (options.preload) environment.push_back(std::string("LD_PRELOAD=") + CUPOLA_PRELOAD);
  if (options.record) environment.push_back("CUPOLA_RECORDS=" + (folder / "records").string());
  if (!options.driver.empty()) environment.push_back("CUPOLA_DRIVER=" + options.driver);
  for (const auto& [name, value] : options.environment) environment.push_back(name + "=" + value);
  std::vector<char*> envp, argv;
  for (auto& one : environment) envp.push_back(one.data());
  envp.push_back(nullptr);
  auto command = options.command;
  for (auto& one : command) argv.push_back(one.data());
  argv.push_back(nullptr);
  if (freopen((folder / "out").c_str(), "w", stdout) == nullptr) _exit(125);
  if (freopen((folder / "err").c_str(), "w", stderr) == nullptr) _exit(125);
  alarm(100);
  execve(argv[0], argv.data(), envp.data());
  _exit(126);
}

}  // namespace

Outcome RunProgram(const RunOptions& options) {
  char pattern[] = "/tmp/cupola-preload-test-XXXXXX";
  const std::filesystem::path folder = mkdtemp(pattern);
  std::filesystem::create_directory(folder / "records");
  const pid_t child = fork();
  if (child == 0) BecomeProgram(options, folder);
  int status = 0;
  waitpid(child, &status, 0);
  Outcome outcome;
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.out = ReadFile(folder / "out");
  outcome.err = ReadFile(folder / "err");
  std::vector<std::filesystem::path> files;
  if (std::filesystem::exists(folder / "records")) {
    for (const auto& file : std::filesystem::directory_iterator(folder / "records")) {
      files.push_back(file.path());
    }
  }
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) {
    return a.stem().string() < b.stem().string();
  });
  for (const auto& file : files) outcome.records.push_back(ReadRecords(file));
  std::filesystem::remove_all(folder);
  return outcome;
}

Outcome RunProbe(std::vector<std::string> arguments, RunOptions options) {
  arguments.insert(arguments.begin(), CUPOLA_PROBE);
  options.command = std::move(arguments);
  return RunProgram(options);
}

}  // namespace cupola::preload_test
