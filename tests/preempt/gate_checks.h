// Checks of programs that wait at a gate. One has a launch behind an earlier launch while the gate
// opens and closes again: the launch has not begun, and the requester must hear that. The other waits
// at the gate in a copy, which keeps other threads out of the driver, while the requester dies. One
// thread.
#pragma once

#include <chrono>
#include <string>
#include <thread>

#include "tests/paths.h"
#include "tests/preempt/stopped_program.h"

namespace cupola::preempt_test {

/// Returns what went wrong, "" = nothing. If the requester has heard nothing after `limit`, the check
/// fails.
inline std::string BehindAGate(const std::string& library, const std::string& stream,
                               std::chrono::milliseconds limit) {
  const BoardFile board;
  Program program(App({"behind", stream}), board,
                  {{"LD_PRELOAD", library}, {"CUPOLA_GATE_EVERY", "8"}});
  if (!program.Await("kernel launched")) return program.output();
  board.Ask();
  program.GoOn();
  if (!program.Await("second launched")) return program.output();
  board.Release();
  board.Ask();
  program.GoOn();
  if (!program.Await("first ends")) return program.output();
  const auto end = Clock::now() + limit;
  while (board.slot().stopped.load() != 1) {
    if (program.HasEnded()) return "it ended while it was held: " + program.output();
    if (Clock::now() > end) return "nobody answered";
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  board.Release();
  return program.Wait() == 0 ? "" : program.output();
}

/// A copy waits in the driver behind a gate for at least `held`; then the requester that closed the
/// gate is dead. `beside`: the stream of a launch that waits at a gate too; "paced": a launch is
/// stopped meanwhile; "plain": there is no such launch. Returns what went wrong, "" = nothing.
inline std::string CopyAtAGate(const std::string& library, const std::string& beside,
                               std::chrono::milliseconds held, std::chrono::milliseconds limit) {
  constexpr uint32_t kAsker = 5;
  const BoardFile board;
  sched::BoardSlot& asker = board.view().slot(kAsker);
  asker.may_take.store(1);
  asker.demand.store(1);
  asker.demand_until_ns.store(UINT64_MAX);
  asker.state.store(static_cast<uint32_t>(sched::SlotState::kLive));
  Program program({CUPOLA_ORDER_APP, "gate", beside}, board,
                  {{"LD_PRELOAD", library}, {"CUPOLA_GATE_EVERY", "1"}, {"STRICT_LOCKS", "1"}});
  if (!program.Await("ready")) return program.output();
  sched::SetRequest(board.view(), 0, kAsker, runtime::kAllSms);
  program.GoOn();
  if (!program.Await("kernel launched")) return program.output();
  std::this_thread::sleep_for(held);  // time for a wrong agent to let it go
  if (program.output().find("done") != std::string::npos) return "it was not held";
  asker.state.store(static_cast<uint32_t>(sched::SlotState::kFree));
  const auto end = Clock::now() + limit;
  if (!program.Await("done", [&] { return Clock::now() > end; })) return "it hangs";
  return program.Wait() == 0 ? "" : program.output();
}

}  // namespace cupola::preempt_test
