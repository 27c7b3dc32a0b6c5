// Checks of programs whose launched work waits for the program itself (waiting_app.cu): the call must return, each
// block must run once, and no call may enter the driver that must not. Each check returns what was wrong, "" =
// nothing. One thread.
#pragma once

#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/paths.h"
#include "tests/preempt/stopped_program.h"

namespace cupola::preempt_test {

inline std::string HowItEnded(Program* program, std::chrono::seconds limit) {
  for (const auto start = Clock::now(); !program->HasEnded();) {
    if (Clock::now() - start > limit) return "it does not end: " + program->output();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const int code = program->Wait();
  return code == 0 ? "" : "it ends with " + std::to_string(code) + ": " + program->output();
}

/// The program goes on while nobody asks it to yield. `limit_ms`: CUPOLA_WAIT_LIMIT_MS.
inline std::string GoesOn(const std::string& library, const std::vector<std::string>& arguments,
                          const std::string& limit_ms, std::chrono::seconds limit,
                          std::map<std::string, std::string> environment = {}) {
  const BoardFile board;
  std::vector<std::string> words = arguments;
  words.insert(words.begin(), CUPOLA_WAITING_APP);
  environment["LD_PRELOAD"] = library;
  environment["CUPOLA_WAIT_LIMIT_MS"] = limit_ms;
  Program program(words, board, environment);
  return HowItEnded(&program, limit);
}

/// The program is asked to yield and let go at moments of `seed`, mostly for shorter than a wait of Cupola's may be
/// stuck, while its kernels' blocks wait for it. One worker of each kernel watches for a request all the time.
inline std::string PollsBySeed(const std::string& library, const std::string& stream,
                               const std::string& call, uint64_t seed, std::chrono::seconds limit) {
  const BoardFile board;
  std::mt19937_64 random(seed);
  const auto pause = [&](uint64_t most_us) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % most_us));
  };
  Program program({CUPOLA_WAITING_APP, "polls", stream, call, "4"}, board,
                  {{"LD_PRELOAD", library},
                   {"CUPOLA_WAIT_LIMIT_MS", "20"},
                   {"CUPOLA_WATCH_FROM", "2"},
                   {"STRICT_BESIDE", "1"},
                   {"CUPOLA_POLL_NS", "0"}});
  if (!program.Await("kernel launched")) return "it did not begin: " + program.output();
  const auto start = Clock::now();
  while (!program.HasEnded() && Clock::now() - start < limit) {
    board.Ask();
    pause(3000);
    board.Release();
    pause(seed % 2 == 0 ? 5000 : 60000);
  }
  board.Release();
  return HowItEnded(&program, limit);
}

}  // namespace cupola::preempt_test
