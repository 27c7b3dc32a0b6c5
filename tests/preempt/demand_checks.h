// Checks of a program (demand_app.cu) that launches plain kernels and waits for none of them: its
// demand must be renewed for lease after lease while they run, and must end when they have ended.
// Used by tests that expect the checks to pass and by tests with planted bugs. One thread.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "tests/paths.h"
#include "tests/preempt/stopped_program.h"

namespace cupola::preempt_test {

inline constexpr uint32_t kVictim = 1;  ///< board slot of the process that it may ask to yield
inline constexpr const char* kNoLimit = "3600000";
inline constexpr uint64_t kLeases = 5, kLeaseNs = 20'000'000;

/// A program that may ask the process of slot kVictim to yield; the constructor returns when it has
/// launched its kernel.
struct DemandRun {
  std::chrono::milliseconds limit;  ///< of each wait
  BoardFile board;
  Program program;
  uint32_t demand = 0;    ///< the slot's demand word after the launch
  uint64_t until_ns = 0;  ///< end of its lease then
  std::string wrong;      ///< the first thing that was wrong so far; "" = nothing

  DemandRun(const std::string& kind, const std::string& limit_ms, bool is_held = false,
            const std::string& library = CUPOLA_PRELOAD,
            std::chrono::milliseconds longest_wait = kLimit,
            const std::string& gate_every = "0")
      : limit(longest_wait),
        board(),
        program(Prepare(kind), board,
                {{"CUPOLA_DEMAND_LIMIT_MS", limit_ms},
                 {"LD_PRELOAD", library},
                 {"CUPOLA_GATE_EVERY", gate_every},
                 {"STRICT_LOCKS", "1"}}) {
    Expect(program.Await("ready"), "it is not ready");
    Expect(Comes([&] { return !Wants(); }), "its demand did not end, though it has waited");
    if (is_held) board.Ask();
    program.GoOn();
    Expect(Comes([&] { return Wants(); }), "its launch is no demand");
    demand = slot().demand.load();
    until_ns = slot().demand_until_ns.load();
    Expect(program.Await("kernel launched"), "it has launched nothing");
  }
  sched::BoardSlot& slot() const { return board.slot(); }
  bool Wants() const { return (slot().demand.load() & 1) != 0; }
  bool Asks() const { return (board.view().slot(kVictim).yield_requests.load() & 1) != 0; }
  /// Waits until its demand was renewed for kLeases leases or has changed. False: neither came.
  bool HasLasted() {
    return Comes([&] {
      return slot().demand.load() != demand ||
             slot().demand_until_ns.load() >= until_ns + kLeases * kLeaseNs;
    });
  }
  template <typename Condition>
  bool Comes(Condition condition) {
    for (const auto start = Clock::now(); !condition() && Clock::now() - start < limit;) {
      if (!wrong.empty() || program.HasEnded()) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    return condition() && !program.HasEnded();
  }
  void Expect(bool is_so, const char* what) {
    if (wrong.empty() && !is_so) wrong = what;
  }

 private:
  std::vector<std::string> Prepare(const std::string& kind) const {
    board.slot().may_take.store(1 << kVictim);
    board.view().slot(kVictim).state.store(static_cast<uint32_t>(sched::SlotState::kLive));
    return {CUPOLA_DEMAND_APP, kind};
  }
};

/// Checks that the demand lasts as long as the kernel. Returns what went wrong, "" = nothing.
inline std::string LastsAsLongAsTheKernel(const std::string& library, const std::string& kind,
                                          std::chrono::milliseconds limit = kLimit) {
  DemandRun run(kind, kNoLimit, /*is_held=*/false, library, limit);
  run.Expect(run.HasLasted(), "its lease was not renewed");
  run.Expect(run.slot().demand.load() == run.demand, "it lost its demand");
  run.Expect(run.Asks(), "it no longer asks");
  run.program.GoOn();
  run.Expect(run.Comes([&] { return !run.Wants() && !run.Asks(); }), "its demand did not end");
  run.program.GoOn();
  run.Expect(run.wrong.empty() && run.program.Wait() == 0, "it failed");
  return run.wrong;
}

}  // namespace cupola::preempt_test
