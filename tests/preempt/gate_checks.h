// A launch that waits at a gate behind an earlier launch, while the gate opens and closes again: it
// has not begun, and whoever asks is to hear so. One thread.
#pragma once

#include <chrono>
#include <string>
#include <thread>

#include "tests/preempt/stopped_program.h"

namespace cupola::preempt_test {

/// What went wrong, "" = nothing. Whoever asks hears nothing for `limit`: so it counts as unheard.
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

}  // namespace cupola::preempt_test
