// Checks of a program whose kernel is to leave only some SMs (FLEP's spatial preemption), on the four
// SMs of the simulated device. Each check returns what went wrong, "" = nothing; tests with planted
// bugs use the same checks. Blocks hold their SMs until they are let go, so that nothing depends on
// how fast anything runs: a check waits until something comes, or until the agent has looked often
// enough. One thread.
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
inline constexpr uint32_t kSms = 4;
inline constexpr uint32_t kWorkers = 8 * kSms;  ///< blocks that hold SMs when all SMs are held
/// More looks of the agent than it needs after a change: one to see it, and one until all have left.
inline constexpr uint32_t kLooks = 4;
inline constexpr uint32_t kOther = 5;  ///< board slot of another requester

/// A board whose policy may ask for some SMs only.
struct SpatialBoardFile : BoardFile {
  SpatialBoardFile() { view().header().spatial.store(1); }
};

/// A program that is ready to launch a kernel which records on which SMs its blocks ran.
struct SpatialRun {
  SpatialBoardFile board;
  Program program;
  uint32_t commands = 0;  ///< commands so far to which the program answers

  /// `blocks` "alone": an SM has room for one of its blocks only. `queues`: number of hardware queues,
  /// for its stream, the legacy stream, what the driver does by itself, and resumes.
  explicit SpatialRun(const std::string& library, const std::string& blocks = "",
                      const std::string& queues = "32")
      : board(),
        program(App({"paced", "non-blocking", blocks}), board,
                {{"LD_PRELOAD", library}, {"CUPOLA_POLL_NS", "0"}, {"CUPOLA_BATCH", "1"},
                 {"CUPOLA_SIM_MPS", "1"}, {"CUDA_DEVICE_MAX_CONNECTIONS", queues}}) {
    if (!program.Await("ready")) ADD_FAILURE() << program.output();
  }
  void Ask(uint32_t bound) const { sched::SetRequest(board.view(), 0, sched::kDaemonBit, bound); }
  /// Asks as another process that has work and may ask the program to yield.
  void AskAsOther(uint32_t bound) const {
    sched::BoardSlot& other = board.view().slot(kOther);
    other.state.store(static_cast<uint32_t>(sched::SlotState::kLive));
    other.may_take.store(1);
    other.demand_until_ns.store(UINT64_MAX);
    other.demand.store(1);
    sched::SetRequest(board.view(), 0, kOther, bound);
  }
  /// Opens the SMs of this mask: blocks on them run to their end. On others they hold their SM.
  void Open(uint32_t mask) { program.Tell("open " + std::to_string(mask) + "\n"); }
  void Launch(uint32_t open) {
    Open(open);
    if (!program.Await("kernel launched")) ADD_FAILURE() << program.output();
  }
  /// Waits until so many blocks hold their SMs ("held") or began ("begun").
  void AwaitBlocks(const char* which, uint32_t count) {
    program.Tell(which + (" " + std::to_string(count)) + "\n");
    if (!program.Await("reached " + std::to_string(++commands))) ADD_FAILURE() << program.output();
  }
  /// Launches the kernel and waits until `workers` workers, one for each place of each SM, hold theirs.
  void LaunchHeld(uint32_t workers = kWorkers) {
    Launch(0);
    AwaitBlocks("held", workers);
  }
  /// Stops the launch as a whole, lets it go, and waits until `workers` workers hold SMs again. False:
  /// it does not stop.
  bool StopAndResume(uint32_t workers) {
    Ask(runtime::kAllSms);
    Open(0b1111);
    if (!AwaitStopped()) return false;
    Open(0);
    board.Release();
    AwaitBlocks("held", workers);
    return true;
  }
  /// Waits until the condition holds for the program's board slot. False: the program ended first.
  template <typename Condition>
  bool AwaitOf(Condition condition) {
    (void)AwaitTrue([&] { return condition(board.slot()) || program.HasEnded(); });
    return condition(board.slot()) && !program.HasEnded();
  }
  bool AwaitStopped(uint32_t stopped = 1) {
    return AwaitOf([=](const sched::BoardSlot& slot) { return slot.stopped.load() == stopped; });
  }
  bool AwaitPreemptions(uint64_t count) {
    return AwaitOf(
        [count](const sched::BoardSlot& slot) { return slot.preemptions.load() >= count; });
  }
  /// Waits until the agent has looked `looks` times of its own accord, or until the condition holds.
  /// Returns whether it holds then. A look is noticed because the last thing that the agent does in
  /// one is to publish the number of launches; one more look is awaited since the first one may have
  /// begun before the call.
  template <typename Condition>
  bool HoldsWithin(uint32_t looks, Condition condition) {
    constexpr uint64_t kNoLook = UINT64_MAX;
    for (uint32_t i = 0; i <= looks && !condition(board.slot()); ++i) {
      board.slot().launches.store(kNoLook);
      if (!AwaitOf([](const sched::BoardSlot& slot) { return slot.launches.load() != kNoLook; })) {
        ADD_FAILURE() << "the agent does not look: " << program.output();
      }
    }
    return condition(board.slot());
  }
  bool ResumesWithin(uint32_t looks, uint64_t count) {
    return HoldsWithin(
        looks, [count](const sched::BoardSlot& slot) { return slot.resumes.load() >= count; });
  }
  /// Lets all blocks run. Returns what was wrong with how the program ended, "" = nothing.
  std::string End() {
    program.Tell("end 0\n");
    if (const int code = program.Wait(); code != -1) {
      return code == 0 ? "" : "it failed: " + program.output();
    }
    return "it hangs";
  }
  /// Number of blocks that ran on SMs below `bound`, after End; UINT32_MAX: the program did not say.
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

/// How a check's result begins if the check came too late to see anything; it may be made again.
inline const std::string kLate = "late: ";

/// The request stands from before the launch until its end: only other SMs do the work.
inline std::string StandingRequest(const std::string& library) {
  SpatialRun run(library);
  const auto has_not_left = [](const sched::BoardSlot& slot) { return slot.stopped.load() == 0; };
  run.Ask(2);
  if (!run.AwaitStopped()) return "it never said that it had nothing there";
  run.Launch(0b0011);
  run.AwaitBlocks("held", 1);  // on SMs that are not open, so the launch cannot end
  if (!run.AwaitPreemptions(1)) return "no preemption was counted";
  // No worker is on the SMs to be left, since workers look for a request before they begin.
  if (run.HoldsWithin(kLooks, has_not_left)) return "it said that it had not left";
  if (const std::string wrong = run.End(); !wrong.empty()) return wrong;
  if (has_not_left(run.board.slot())) return "it said that it had not left";
  const uint32_t below = run.BlocksBelow(2);
  return below <= kSpatialBlocks / 8 ? "" : "too many blocks below: " + std::to_string(below);
}

/// The program is asked in the middle and then let go: the workers that left come back.
inline std::string AskedAndLetGo(const std::string& library) {
  SpatialRun run(library);
  run.LaunchHeld();
  for (int rounds = 0; rounds < 3; ++rounds) {
    const uint64_t resumes = run.board.slot().resumes.load();
    run.Ask(2);
    run.Open(0b0011);
    if (!run.AwaitStopped()) return "nobody left";
    run.Open(0);
    run.board.Release();
    // The agent waits until two of its looks in a row find equally many workers away.
    if (!run.ResumesWithin(kWorkers + kLooks, resumes + 1)) return "nobody came back";
    if (!run.AwaitStopped(0)) return "it never said that it was back";
  }
  return run.End();
}

/// The launch is stopped as a whole and resumed, and then asked for some SMs: the workers that leave
/// these come back beside the others.
inline std::string AskedAfterAStop(const std::string& library) {
  SpatialRun run(library);
  run.LaunchHeld();
  if (!run.StopAndResume(kWorkers)) return "no stop";
  run.Ask(2);
  run.Open(0b0011);
  if (!run.AwaitStopped()) return "nobody left";
  run.Open(0);
  run.board.Release();
  run.AwaitBlocks("held", kWorkers);
  return run.End();
}

/// The launch is stopped as a whole and resumed, and then asked for one SM after the other. A worker
/// that leaves comes back beside all that were resumed before, as long as there are hardware queues
/// for `resumes` resumes; after that only when an earlier one ends. There is one worker for each SM,
/// so that no worker of an SM leaves later than another.
inline std::string LeftOneAfterTheOther(const std::string& library, uint32_t resumes) {
  SpatialRun run(library, "alone", std::to_string(3 + resumes));
  run.LaunchHeld(kSms);
  if (!run.StopAndResume(kSms)) return "no stop";
  for (uint32_t sm = 0; sm + 1 < kSms; ++sm) {
    const uint64_t before = run.board.slot().resumes.load();
    run.Ask(sm + 1);
    run.Open(1u << sm);
    if (!run.AwaitPreemptions(sm + 2)) return "nobody left";
    run.Open(0);
    run.board.Release();
    if (sm + 2 > resumes) {
      if (run.ResumesWithin(kLooks, before + 1)) return "resumed behind another";
      break;
    }
    run.AwaitBlocks("held", kSms);
  }
  return run.End();
}

/// The same where no hardware queue is free for a second stream.
inline std::string LeftOneWithoutAQueue(const std::string& library) {
  return LeftOneAfterTheOther(library, 1);
}

/// A second requester needs more SMs: the launch leaves these too.
inline std::string WidenedRequest(const std::string& library) {
  SpatialRun run(library);
  run.LaunchHeld();
  run.Ask(1);
  run.Open(0b0001);
  if (!run.AwaitPreemptions(1)) return "nobody left";
  run.AskAsOther(3);
  if (run.board.slot().yield_sm_bound.load() != 3) return "the bound did not grow";
  if (const std::string wrong = run.End(); !wrong.empty()) return wrong;
  const uint32_t below = run.BlocksBelow(3);
  return below <= kSpatialBlocks / 8 ? "" : "too many blocks below: " + std::to_string(below);
}

/// A second requester needs the whole GPU; when it has ended, the launch goes on beside the first one.
inline std::string SecondRequester(const std::string& library) {
  SpatialRun run(library);
  run.LaunchHeld();
  run.Ask(1);
  run.Open(0b0001);
  if (!run.AwaitPreemptions(1)) return "nobody left";
  run.AskAsOther(runtime::kAllSms);
  run.Open(0b1111);
  if (!run.AwaitPreemptions(2)) return "no stop";
  const uint64_t resumes = run.board.slot().resumes.load();
  if (run.ResumesWithin(kLooks, resumes + 1)) return "it ran on all the same";
  // What the daemon does when the second requester has ended.
  run.board.slot().yield_sm_bound.store(1);
  sched::ClearRequest(run.board.view(), 0, kOther);
  if (!run.ResumesWithin(kLooks, resumes + 1)) return "it did not go on";
  if (const std::string wrong = run.End(); !wrong.empty()) return wrong;
  if (run.board.slot().yield_requests.load() == 0) return "the request is gone";
  const uint32_t below = run.BlocksBelow(1);
  return below <= kSpatialBlocks / 8 ? "" : "too many blocks below: " + std::to_string(below);
}

/// Without a request the SMs below the bound run their part: here all blocks that do not hold the
/// other SMs.
inline std::string NothingAsked(const std::string& library) {
  SpatialRun run(library);
  run.LaunchHeld();
  run.Open(0b0011);
  run.AwaitBlocks("begun", kSpatialBlocks);
  if (const std::string wrong = run.End(); !wrong.empty()) return wrong;
  const uint32_t below = run.BlocksBelow(2);
  return below == kSpatialBlocks - kWorkers / 2 ? "" : "blocks below: " + std::to_string(below);
}

/// Launches of one block come on the very SMs that are to be left: they go on elsewhere, at once.
inline std::string SmallLaunches(const std::string& library) {
  const BoardFile board;
  sched::SetRequest(board.view(), 0, sched::kDaemonBit, 3);
  Program program(App({"small", "non-blocking"}), board,
                  {{"LD_PRELOAD", library}, {"CUPOLA_POLL_NS", "0"}});
  if (!program.Await("ready")) return "it failed: " + program.output();
  const auto start = Clock::now();
  program.GoOn();
  if (program.Wait() != 0) return "it failed: " + program.output();
  if (board.slot().resumes.load() == 0) return kLate + "no launch came on those SMs";
  return Clock::now() - start < std::chrono::milliseconds(kSmallLaunches * 50)
             ? ""
             : kLate + "its launches took too long";
}

/// Makes the check again, up to five times in all, as long as it comes too late.
inline std::string InTime(std::string (*check)(const std::string& library),
                          const std::string& library) {
  std::string said = check(library);
  for (int tries = 1; tries < 5 && said.rfind(kLate, 0) == 0; ++tries) said = check(library);
  return said;
}

}  // namespace cupola::preempt_test
