// What a program does whose kernel is to leave some SMs only (FLEP's spatial preemption), on the
// four SMs of the simulated device. Each check says what went wrong, "" = nothing; the same checks
// find planted bugs. Blocks hold their SMs until they are let go, so that nothing depends on how
// fast anybody is: what is awaited comes, or the agent has looked often enough. One thread.
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
inline constexpr uint32_t kWorkers = 8 * kSms;  ///< as many blocks hold their SMs where all do
/// After a change it takes the agent one look to see it, and one more until all have left.
inline constexpr uint32_t kLooks = 4;
inline constexpr uint32_t kOther = 5;  ///< a slot of the board

/// Its policy may ask for some SMs only.
struct SpatialBoardFile : BoardFile {
  SpatialBoardFile() { view().header().spatial.store(1); }
};

/// One program with a kernel that notes where its blocks ran, ready to launch it.
struct SpatialRun {
  SpatialBoardFile board;
  Program program;
  uint32_t commands = 0;  ///< that the program is to answer

  /// "alone": an SM has room for one of its blocks. `queues`: of the hardware's, for its stream, the
  /// legacy stream, what the driver does by itself, and resumes.
  explicit SpatialRun(const std::string& library, const std::string& blocks = "",
                      const std::string& queues = "32")
      : board(),
        program(App({"paced", "non-blocking", blocks}), board,
                {{"LD_PRELOAD", library}, {"CUPOLA_POLL_NS", "0"}, {"CUPOLA_BATCH", "1"},
                 {"CUPOLA_SIM_MPS", "1"}, {"CUDA_DEVICE_MAX_CONNECTIONS", queues}}) {
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
  /// On SMs of this mask blocks run to their end; on others they hold until these are open too.
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
  /// A kernel of which a worker for every place of every SM holds it, `workers` in all.
  void LaunchHeld(uint32_t workers = kWorkers) {
    Launch(0);
    AwaitBlocks("held", workers);
  }
  /// It is stopped as a whole, let go, and as many hold it again. False: it does not stop.
  bool StopAndResume(uint32_t workers) {
    Ask(runtime::kAllSms);
    Open(0b1111);
    if (!AwaitStopped()) return false;
    Open(0);
    board.Release();
    AwaitBlocks("held", workers);
    return true;
  }
  /// What is to come comes before the process ends.
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
  /// The agent looks as often as that, of its own accord, or until the condition holds: whether it
  /// does then. A look publishes the number of launches, the last of all that it does; the first
  /// may have begun before the call.
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
  /// Lets all blocks run. "", or what was wrong with how the program ended.
  std::string End() {
    program.Tell("end 0\n");
    if (const int code = program.Wait(); code != -1) {
      return code == 0 ? "" : "it failed: " + program.output();
    }
    return "it hangs";
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
  const auto has_not_left = [](const sched::BoardSlot& slot) { return slot.stopped.load() == 0; };
  run.Ask(2);
  if (!run.AwaitStopped()) return "it never said that it had nothing there";
  run.Launch(0b0011);
  run.AwaitBlocks("held", 1);  // on the others: it cannot end
  if (!run.AwaitPreemptions(1)) return "no preemption was counted";
  // Its workers looked before they began.
  if (run.HoldsWithin(kLooks, has_not_left)) return "it said that it had not left";
  if (const std::string wrong = run.End(); !wrong.empty()) return wrong;
  if (has_not_left(run.board.slot())) return "it said that it had not left";
  const uint32_t below = run.BlocksBelow(2);
  return below <= kSpatialBlocks / 8 ? "" : "too many blocks below: " + std::to_string(below);
}

/// Asked in the middle, then let go: the workers that left come back.
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
    // The agent waits until two of its looks find as many away.
    if (!run.ResumesWithin(kWorkers + kLooks, resumes + 1)) return "nobody came back";
    if (!run.AwaitStopped(0)) return "it never said that it was back";
  }
  return run.End();
}

/// Stopped as a whole and resumed, then asked for some SMs: who leaves these comes back beside the
/// others.
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

/// Stopped as a whole and resumed, then asked for one SM after the other: who leaves one comes back
/// beside all that were resumed before, as often as there are streams for `resumes`; others when
/// those end. One worker an SM: nobody leaves later than others.
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

/// A second requester needs more SMs: these are left too.
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

/// A second requester needs the whole GPU; when it has ended the rest goes on beside the first.
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
  // As the daemon does when the second has ended.
  run.board.slot().yield_sm_bound.store(1);
  sched::ClearRequest(run.board.view(), 0, kOther);
  if (!run.ResumesWithin(kLooks, resumes + 1)) return "it did not go on";
  if (const std::string wrong = run.End(); !wrong.empty()) return wrong;
  if (run.board.slot().yield_requests.load() == 0) return "the request is gone";
  const uint32_t below = run.BlocksBelow(1);
  return below <= kSpatialBlocks / 8 ? "" : "too many blocks below: " + std::to_string(below);
}

/// Without a request the SMs below run their part: here all that the others do not hold.
inline std::string NothingAsked(const std::string& library) {
  SpatialRun run(library);
  run.LaunchHeld();
  run.Open(0b0011);
  run.AwaitBlocks("begun", kSpatialBlocks);
  if (const std::string wrong = run.End(); !wrong.empty()) return wrong;
  const uint32_t below = run.BlocksBelow(2);
  return below == kSpatialBlocks - kWorkers / 2 ? "" : "blocks below: " + std::to_string(below);
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
  if (board.slot().resumes.load() == 0) return kLate + "no launch came on those SMs";
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
