// A preloaded library that writes launch records by the protocol of profiles/launch_record.h
// without any CUDA, when it is loaded. FAKE_LAUNCHES=N: that many kernels, waiting for room where
// the ring is full; FAKE_HOLE: a slot claimed and never completed in the middle of them;
// FAKE_DAMAGED: a file that is no ring.
#include <cstdio>
#include <cstdlib>
#include <string>

#include <sched.h>
#include <time.h>

#include "base/settings/variables.h"
#include "tests/unit/profiles/ring_writer.h"

namespace {

uint64_t NowNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

void WriteLaunches(cupola::RingWriter& ring, uint64_t count, bool with_hole) {
  const uint32_t name = ring.AddName("_Z4fakePfi");
  const uint64_t deadline_ns = NowNs() + 20'000'000'000;
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t ticket = 0;
    if (with_hole && i == count / 2) (void)ring.Claim(ticket);
    while (!ring.Claim(ticket) && NowNs() < deadline_ns) sched_yield();
    ring.Complete(ticket, [&](cupola::LaunchRecord& record) {
      record.call_start_ns = NowNs();
      record.call_end_ns = record.call_start_ns + 1000;
      record.device_start_ns = record.call_end_ns;
      record.device_end_ns = record.device_start_ns + 500;
      record.flags = cupola::kFlagDeviceTimed;
      record.stream = i % 2;
      record.name_offset = name;
      record.thread_id = static_cast<uint32_t>(getpid());
      record.grid[0] = 4;
      record.block[0] = 128;
      record.grid[1] = record.grid[2] = record.block[1] = record.block[2] = 1;
    });
    ring.header().launches.fetch_add(1);
  }
}

__attribute__((constructor)) void WriteRecords() {
  const char* folder = cupola::settings::Text("CUPOLA_RECORDS");
  const char* launches = std::getenv("FAKE_LAUNCHES");
  if (folder == nullptr) return;
  const std::string path = std::string(folder) + "/" + std::to_string(getpid()) + "-" +
                           std::to_string(NowNs());
  if (std::getenv("FAKE_DAMAGED") != nullptr) {
    if (std::FILE* file = std::fopen(path.c_str(), "w")) {
      std::fputs("this is no ring", file);
      std::fclose(file);
    }
    return;
  }
  if (launches == nullptr) return;
  // Lives on until the process ends, as the real one does.
  auto* ring = new cupola::RingWriter(path);
  const ssize_t length = readlink("/proc/self/exe", ring->header().executable, 255);
  if (length > 0) ring->header().executable[length] = '\0';
  WriteLaunches(*ring, std::strtoull(launches, nullptr, 10), std::getenv("FAKE_HOLE") != nullptr);
  ring->header().dropped = 0;  // the waits above
}

}  // namespace
