#include "soak_daemon.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include <unistd.h>

#include "heap_count.h"
#include "sched/daemon/control.h"

namespace cupola::sched {
namespace {

ProcessIdentity IdentityOf(uint32_t pid, const std::string& label) {
  ProcessIdentity process;
  process.pid = pid;
  process.uid = geteuid();
  process.start = pid;
  process.user = "soak";
  process.executable = "/opt/soak/bin/client-of-the-soak";
  process.label = label;
  return process;
}

[[noreturn]] void Fail(const std::string& why) {
  std::fprintf(stderr, "arbiter_soak: %s\n", why.c_str());
  std::exit(2);
}

}  // namespace

std::optional<uint64_t> SimSurroundings::StartOf(uint32_t pid) const {
  return living_.contains(pid) ? std::optional<uint64_t>(pid) : std::nullopt;
}

std::optional<uint32_t> SimSurroundings::UserOf(uint32_t pid) const {
  return living_.contains(pid) ? std::optional<uint32_t>(geteuid()) : std::nullopt;
}

SoakDaemon::SoakDaemon(const uint64_t* now_ns) : surroundings_(now_ns) {
  std::string pattern = (std::filesystem::temp_directory_path() / "cupola-soak-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) Fail("no folder for the daemon: " + pattern);
  folder_ = pattern;
}

SoakDaemon::~SoakDaemon() {
  server_.reset();
  std::filesystem::remove_all(folder_);
}

void SoakDaemon::WriteConfig(const std::string& text) const {
  std::ofstream file(folder_ + "/config.toml");
  file << text;
}

void SoakDaemon::Start() {
  const HeapScope scope;
  const std::string path = folder_ + "/config.toml";
  Result<Config> config = ReadConfig(path);
  if (!config) Fail(config.error().ToString());
  auto server = Server::Start(NamedPlace((folder_ + "/arbiter.sock").c_str()), std::move(config).value(), path,
                              surroundings_);
  if (!server) Fail(server.error().ToString());
  server_ = std::move(server).value();
}

void SoakDaemon::Die(BoardView board) {
  const char* memory = static_cast<const char*>(board.memory());
  std::vector<char> was;
  if (board) was.assign(memory, memory + kBoardBytes);
  server_.reset();
  if (board) std::memcpy(board.memory(), was.data(), was.size());
}

Admission SoakDaemon::Join(uint32_t pid, const std::string& label, uint32_t capabilities, BoardMemory brought,
                           uint32_t slot) {
  const HeapScope scope;
  JoinMessage message;
  message.capabilities = capabilities;
  message.sm_count = 132;
  message.slot = slot;
  return server_->Join(IdentityOf(pid, label), kGpu, message, std::move(brought));
}

nlohmann::json SoakDaemon::Control(const nlohmann::json& request) {
  std::string answer;
  {
    const HeapScope scope;
    answer = ControlRequests(*server_).Handle(IdentityOf(1, ""), request.dump());
  }
  return nlohmann::json::parse(answer);
}

uint64_t SoakDaemon::Review() {
  const HeapScope scope;
  ++reviews_;
  return server_->Review();
}

void SoakDaemon::KeepHouse() {
  const HeapScope scope;
  server_->KeepHouse();
}

}  // namespace cupola::sched
