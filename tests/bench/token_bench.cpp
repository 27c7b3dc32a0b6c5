// What sharing the simulated device by time slices costs: a lone process with and without its
// token, the hand over from one process to another, and the time until a killed holder's device is
// free. Prints one JSON object; times in microseconds. Numbers mean something only on a quiet
// machine.
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tests/unit/sim/token/child.h"
#include "tests/unit/sim/token/shared_device.h"

namespace cupola::sim {
namespace {

constexpr uint32_t kSamples = 2000, kKills = 200;

/// In memory that the processes share.
struct Arena {
  uint64_t left_ns;             ///< when the last holder began to leave
  uint32_t samples;
  uint64_t handover_ns[kSamples];
  uint32_t stop, counters[2];
};

double Quantile(std::vector<uint64_t> ns, double part) {
  std::sort(ns.begin(), ns.end());
  const auto at = static_cast<size_t>(part * static_cast<double>(ns.size() - 1));
  return static_cast<double>(ns[at]) / 1e3;
}

/// Kernels of many instructions and of few, by turns on three devices: two without a token, whose
/// difference is that of any two devices, and one with. The quickest tenth is what they cost; the
/// rest shows what else the machine did.
void PrintLone(const std::string& path) {
  Child child([&](const Say& say) {
    // One SM each: two would be as fast as the host's scheduler happens to place them.
    const auto plain = [] { return Device::Create({.sm_count = 1, .memory_bytes = 64 << 20}); };
    SharedDevice alone(plain()), again(plain()), shared(path, 2'000'000, 1);
    SharedDevice* const devices[] = {&alone, &again, &shared};
    std::vector<uint64_t> long_ns[3], short_ns[3];
    for (int round = 0; round < 2000; ++round) {
      for (int turn = 0; turn < 3; ++turn) {
        const int which = (round + turn) % 3;
        const bool is_long = round % 20 < 2;
        const uint64_t start = MonotonicNs();
        devices[which]->RunChurn(is_long ? 20'000 : 1);
        (is_long ? long_ns : short_ns)[which].push_back(MonotonicNs() - start);
      }
    }
    std::string line;
    const char* const names[] = {"alone", "alone_again", "with_token"};
    for (int which = 0; which < 3; ++which) {
      char text[120];
      std::snprintf(text, sizeof(text), "\"long_kernel_%s\": %.1f, \"short_kernel_%s\": %.2f, ",
                    names[which], Quantile(long_ns[which], 0.1), names[which],
                    Quantile(short_ns[which], 0.1));
      line += text;
    }
    say(line);
    return 0;
  });
  std::printf("%s", child.Line().c_str());
}

/// From a holder's Leave to the return of the next one's Wait.
void PrintHandover(const std::string& path, Arena* arena) {
  const auto body = [&](const Say&) {
    auto mapping = TokenMapping::Open(path);
    std::atomic<bool> stop{false};
    TokenQueue queue(mapping.value().get(), &stop);
    bool has_waiters = false;
    while (arena->samples < kSamples) {
      if (queue.Join() != TokenQueue::Outcome::kDone) return 1;
      if (queue.Wait() != TokenQueue::Outcome::kDone) return 2;
      const uint64_t now = MonotonicNs();
      if (arena->left_ns != 0 && arena->samples < kSamples) {
        arena->handover_ns[arena->samples++] = now - arena->left_ns;
      }
      do {
        if (queue.CheckWaiters(&has_waiters) != TokenQueue::Outcome::kDone) return 3;
        poll(nullptr, 0, 1);  // so that the other sleeps, as it does after a slice
      } while (!has_waiters && arena->samples < kSamples);
      arena->left_ns = MonotonicNs();
      if (queue.Leave() != TokenQueue::Outcome::kDone) return 4;
    }
    return 0;
  };
  Child first(body), second(body);
  if (first.End() != 0 || second.End() != 0) std::exit(1);
  const std::vector<uint64_t> all(arena->handover_ns, arena->handover_ns + kSamples);
  std::printf("\"handover_p50\": %.1f, \"handover_p99\": %.1f, ", Quantile(all, 0.5),
              Quantile(all, 0.99));
}

/// Two kernels for two seconds: how long a slice is and how much of the time nobody has the device.
void PrintSlices(const std::string& path, Arena* arena) {
  const auto body = [&](int index) {
    return [&, index](const Say&) {
      SharedDevice device(path, 2'000'000);
      device.device().MapHost(reinterpret_cast<uint64_t>(arena), sizeof(Arena));
      return device.Run(kCount, {1}, {32}, reinterpret_cast<uint64_t>(&arena->stop),
                        reinterpret_cast<uint64_t>(&arena->counters[index])) ? 0 : 1;
    };
  };
  Child first(body(0)), second(body(1));
  while (ReadTokenTotals(path).value().handovers < 50) poll(nullptr, 0, 1);
  const TokenCounters before = ReadTokenTotals(path).value();
  const uint64_t start = MonotonicNs();
  poll(nullptr, 0, 2000);
  const TokenCounters after = ReadTokenTotals(path).value();
  const double wall = static_cast<double>(MonotonicNs() - start);
  __atomic_store_n(&arena->stop, 1, __ATOMIC_RELEASE);
  if (first.End() != 0 || second.End() != 0) std::exit(1);
  const double held = static_cast<double>(after.held_ns - before.held_ns);
  const double slices = static_cast<double>(after.handovers - before.handovers);
  std::printf("\"slice_mean\": %.1f, \"idle_per_slice_mean\": %.1f, ", held / slices / 1e3,
              (wall - held) / slices / 1e3);
}

/// From kill() to another process having the device.
void PrintKills(const std::string& path) {
  std::vector<uint64_t> freed_ns;
  for (uint32_t i = 0; i < kKills; ++i) {
    const auto body = [&](const Say& say) {
      auto mapping = TokenMapping::Open(path);
      std::atomic<bool> stop{false};
      TokenQueue queue(mapping.value().get(), &stop);
      if (queue.Join() != TokenQueue::Outcome::kDone) return 1;
      say("in");
      if (queue.Wait() != TokenQueue::Outcome::kDone) return 2;
      say(std::to_string(MonotonicNs()));
      pause();
      return 3;
    };
    Child holder(body);
    holder.Line();
    holder.Line();
    Child next(body);
    next.Line();
    poll(nullptr, 0, 2);  // let it fall asleep
    const uint64_t killed_ns = MonotonicNs();
    holder.Signal(SIGKILL);
    freed_ns.push_back(std::strtoull(next.Line().c_str(), nullptr, 10) - killed_ns);
  }
  std::printf("\"killed_holder_freed_p50\": %.1f, \"killed_holder_freed_p99\": %.1f",
              Quantile(freed_ns, 0.5), Quantile(freed_ns, 0.99));
}

int Main() {
  const std::string path = "/dev/shm/cupola-token-bench-" + std::to_string(getpid());
  auto* arena = static_cast<Arena*>(mmap(nullptr, sizeof(Arena), PROT_READ | PROT_WRITE,
                                         MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  std::printf("{");
  std::fflush(stdout);
  PrintLone(path);
  PrintHandover(path, arena);
  PrintSlices(path, arena);
  PrintKills(path);
  std::printf("}\n");
  unlink(path.c_str());
  return 0;
}

}  // namespace
}  // namespace cupola::sim

int main() { return cupola::sim::Main(); }
