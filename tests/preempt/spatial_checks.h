// What a program does whose kernel is to leave some SMs only (FLEP's spatial preemption), on the
// four SMs of the simulated device. Each check says what went wrong, "" = nothing; the same checks
// find planted bugs. One thread.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>

#include "tests/preempt/stopped_program.h"

namespace cupola::preempt_test {

inline constexpr uint32_t kSpatialBlocks = 6000, kSmallLaunches = 60;  ///< as preempt_app has them
inline constexpr uint32_t kOther = 5;  ///< a slot of the board

/// One program with a kernel that notes where its blocks ran, ready to launch it.
struct SpatialRun {
  BoardFile board;
  Program program;

  explicit SpatialRun(const std::string& library)
      : board(),
        program(App({"where", "non-blocking"}), board,
                {{"LD_PRELOAD", library}, {"CUPOLA_POLL_NS", "0"}, {"CUPOLA_BATCH", "1"}}) {
    if (!program.Await("ready")) ADD_FAILURE() << program.output();
  }
  void Ask(uint32_t bound) const { sched::SetRequest(board.view(), 0, sched::kDaemonBit, bound); }
  /// Another process with work, that may ask the program.
  void AskAsOther(uint32_t bound) const {
    sched::BoardSlot& other = board.view().slot(kOther);
    other.state.store(static_cast<uint32_t>(sched::SlotState::kLive));
    other.may_take.store(1);
    other.demand_until_ns.store(UINT64_MAX);
    other.demand.store(1);
    sched::SetRequest(board.view(), 0, kOther, bound);
  }
  void Launch() {
    program.GoOn();
    if (!program.Await("kernel launched")) ADD_FAILURE() << program.output();
  }
  /// What the process is to say comes true before it ends.
  template <typename Condition>
  bool AwaitOf(Condition condition, std::chrono::seconds limit = std::chrono::seconds(5)) {
    for (const auto start = Clock::now(); Clock::now() - start < limit;) {
      if (condition(board.slot())) return !program.HasEnded();
      if (program.HasEnded()) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    return false;
  }
  bool AwaitStopped() {
    return AwaitOf([](const sched::BoardSlot& slot) { return slot.stopped.load() == 1; });
  }
  bool AwaitPreemptions(uint64_t count) {
    return AwaitOf(
        [count](const sched::BoardSlot& slot) { return slot.preemptions.load() >= count; });
  }
  bool AwaitResumes(uint64_t count, std::chrono::seconds limit = std::chrono::seconds(5)) {
    return AwaitOf([count](const sched::BoardSlot& slot) { return slot.resumes.load() >= count; },
                   limit);
  }
  /// "", or what was wrong with how it ended.
  std::string End() {
    const auto start = Clock::now();
    while (!program.HasEnded() && Clock::now() - start < std::chrono::seconds(15)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (!program.HasEnded()) return "it hangs";
    return program.Wait() == 0 ? "" : "it failed: " + program.output();
  }
  /// Blocks that ran on SMs below `bound`.
  uint32_t BlocksBelow(uint32_t bound) {
    std::array<unsigned, 4> counts{};
    const size_t at = program.output().find("SMs: ");
    if (at == std::string::npos ||
        std::sscanf(program.output().c_str() + at, "SMs: %u %u %u %u", &counts[0], &counts[1],
                    &counts[2], &counts[3]) != 4) {
      return UINT32_MAX;
    }
    uint32_t below = 0;
    for (uint32_t sm = 0; sm < bound; ++sm) below += counts[sm];
    return below;
  }
};

/// What a check says of a run in which it came too late to see anything; it may be made again.
inline const std::string kLate = "late: ";

/// The request stands from before the launch until its end: other SMs do the work.
inline std::string StandingRequest(const std::string& library) {
  SpatialRun run(library);
  run.Ask(2);
  if (!run.AwaitStopped()) return "it never said that it had nothing there";
  run.Launch();
  while (!run.program.HasEnded()) {  // its workers look before they begin
    if (run.board.slot().stopped.load() == 0) return "it said that it had not left";
  }
  if (const std::string wrong = run.End(); !wrong.empty()) return wrong;
  const uint32_t below = run.BlocksBelow(2);
  if (below > kSpatialBlocks / 8) return "too many blocks below: " + std::to_string(below);
  return run.board.slot().preemptions.load() != 0 ? "" : "no preemption was counted";
}

/// Asked in the middle, then let go: the workers that left come back.
inline std::string AskedAndLetGo(const std::string& library) {
  SpatialRun run(library);
  run.Launch();
  int rounds = 0;
  for (; rounds < 3; ++rounds) {
    const uint64_t resumes = run.board.slot().resumes.load();
    run.Ask(2);
    const bool left = run.AwaitStopped();
    run.board.Release();
    if (!left || !run.AwaitResumes(resumes + 1)) break;
  }
  const std::string wrong = run.End();
  return rounds == 0 && wrong.empty() ? kLate + "nobody left and came back" : wrong;
}

/// A second requester needs more SMs: these are left too.
inline std::string WidenedRequest(const std::string& library) {
  SpatialRun run(library);
  run.Ask(1);
  run.Launch();
  if (!run.AwaitPreemptions(1)) return kLate + "nobody left";
  run.AskAsOther(3);
  if (run.board.slot().yield_sm_bound.load() != 3) return "the bound did not grow";
  if (const std::string wrong = run.End(); !wrong.empty()) return wrong;
  // Three SMs that share the blocks evenly would run two thirds of them below.
  const uint32_t below = run.BlocksBelow(3);
  if (below <= kSpatialBlocks / 2) return "";
  return kLate + "too many blocks below: " + std::to_string(below);
}

/// A second requester needs the whole GPU; when it has ended the rest goes on beside the first.
inline std::string SecondRequester(const std::string& library) {
  SpatialRun run(library);
  run.Ask(1);
  run.Launch();
  if (!run.AwaitPreemptions(1)) return kLate + "nobody left";
  run.AskAsOther(runtime::kAllSms);
  if (!run.AwaitPreemptions(2)) return kLate + "no stop";
  GiveTimeToGoWrong();
  if (run.program.HasEnded()) return "it ran on all the same";
  const uint64_t resumes = run.board.slot().resumes.load();
  // As the daemon does when the second has ended.
  run.board.slot().yield_sm_bound.store(1);
  sched::ClearRequest(run.board.view(), 0, kOther);
  if (!run.AwaitResumes(resumes + 1, std::chrono::seconds(3))) return "it did not go on";
  if (const std::string wrong = run.End(); !wrong.empty()) return wrong;
  if (run.board.slot().yield_requests.load() == 0) return "the request is gone";
  const uint32_t below = run.BlocksBelow(1);
  return below <= kSpatialBlocks / 8 ? "" : "too many blocks below: " + std::to_string(below);
}

/// Launches of one block, on the very SMs that are to be left: they go on elsewhere, at once.
inline std::string SmallLaunches(const std::string& library) {
  const BoardFile board;
  sched::SetRequest(board.view(), 0, sched::kDaemonBit, 3);
  Program program(App({"small", "non-blocking"}), board,
                  {{"LD_PRELOAD", library}, {"CUPOLA_POLL_NS", "0"}});
  if (!program.Await("ready")) return "it failed: " + program.output();
  const auto start = Clock::now();
  program.GoOn();
  if (program.Wait() != 0) return "it failed: " + program.output();
  if (board.slot().resumes.load() == 0) return "no launch came on those SMs";
  return Clock::now() - start < std::chrono::milliseconds(kSmallLaunches * 50)
             ? ""
             : kLate + "its launches took too long";
}

/// A check that has come in time, or has come too late five times.
inline std::string InTime(std::string (*check)(const std::string& library),
                          const std::string& library) {
  std::string said = check(library);
  for (int tries = 1; tries < 5 && said.rfind(kLate, 0) == 0; ++tries) said = check(library);
  return said;
}

}  // namespace cupola::preempt_test
