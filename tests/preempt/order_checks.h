// Checks of programs whose work records the order in which it ran (order_app.cu), while the programs
// are asked to yield and let go. One thread.
#pragma once

#include <chrono>
#include <map>
#include <random>
#include <string>
#include <thread>

#include "tests/paths.h"
#include "tests/preempt/stopped_program.h"

namespace cupola::preempt_test {

/// Asks the program to yield and lets it go, at moments of `seed`, until it has ended. Returns what
/// went wrong, "" = nothing.
inline std::string AskBySeed(Program* program, const BoardFile& board, uint64_t seed,
                             std::chrono::milliseconds limit) {
  std::mt19937_64 random(seed);
  const auto pause = [&] {
    std::this_thread::sleep_for(std::chrono::microseconds(50 + random() % 1500));
  };
  for (const auto start = Clock::now(); !program->HasEnded();) {
    if (Clock::now() - start > limit) return "it does not end: " + program->output();
    board.Ask();
    pause();
    board.Release();
    pause();
  }
  return program->Wait() == 0 ? "" : program->output();
}

/// A program of random operations, without gates for even seeds and with gates for odd ones. Returns what went
/// wrong, "" = nothing. Adds the number of its preemptions to `*stops`.
inline std::string RandomOrder(const std::string& library, uint64_t seed,
                               std::chrono::milliseconds limit = kLimit,
                               uint64_t* stops = nullptr) {
  const BoardFile board;
  Program program({CUPOLA_ORDER_APP, "random", std::to_string(seed)}, board,
                  {{"LD_PRELOAD", library},
                   {"CUPOLA_POLL_NS", "0"},
                   {"CUPOLA_GATE_EVERY", seed % 2 == 0 ? "0" : "4"}});
  const std::string wrong = AskBySeed(&program, board, seed, limit);
  if (stops != nullptr) *stops += board.slot().preemptions.load();
  return wrong.empty() ? "" : "seed " + std::to_string(seed) + ": " + wrong;
}

/// A program that is held at its first launch, for which it must wait before it says "done"; then
/// AskBySeed. Scenario "many": more launches behind each other than there are control slots.
inline std::string HeldAtFirst(const std::string& library, const std::string& scenario,
                               const std::string& stream, uint64_t seed,
                               std::chrono::milliseconds limit = kLimit) {
  const BoardFile board;
  board.Ask();
  Program program({CUPOLA_ORDER_APP, scenario, stream}, board, {{"LD_PRELOAD", library}});
  if (!program.Await("kernel launched")) return program.output();
  (void)AwaitTrue([&] { return board.slot().stopped.load() == 1 || program.HasEnded(); });
  GiveTimeToGoWrong();
  if (program.output().find("done") != std::string::npos) return "it was not held";
  board.Release();
  return AskBySeed(&program, board, seed, limit);
}

/// A launch while another thread has waited for `held` for a stopped launch: it must be preemptible
/// too, and must not wait. Returns what the program said if it is not so, "" = nothing.
inline std::string LaunchBesideAWait(const std::string& library, std::chrono::milliseconds held,
                                     std::chrono::milliseconds limit = kLimit) {
  const BoardFile board;
  board.Ask();
  Program program({CUPOLA_ORDER_APP, "waits", "non-blocking"}, board, {{"LD_PRELOAD", library}});
  if (!program.Await("kernel launched")) return program.output();
  std::this_thread::sleep_for(held);
  program.GoOn();
  const auto end = Clock::now() + limit;
  if (!program.Await("second launched", [&] { return Clock::now() > end; })) return "it waits too";
  board.Release();
  const bool good = program.Wait() == 0 &&
                    program.output().find("2 launches preemptible") != std::string::npos;
  return good ? "" : program.output();
}

/// A thread puts work on a stream in which another thread's launch has no guard yet; STRICT_GUARD_MS
/// makes that time long. Returns what went wrong, "" = nothing.
inline std::string BetweenLaunchAndGuard(const std::string& library, const std::string& stream,
                                         uint64_t seed) {
  const BoardFile board;
  Program program({CUPOLA_ORDER_APP, "between", stream}, board,
                  {{"LD_PRELOAD", library}, {"CUPOLA_POLL_NS", "0"}, {"STRICT_GUARD_MS", "30"}});
  return AskBySeed(&program, board, seed, kLimit);
}

/// What the strict driver says about its hardware queues.
inline std::string Queues(const std::string& library,
                          std::map<std::string, std::string> environment = {}) {
  environment.insert({{"LD_PRELOAD", library}, {"STRICT_TELLS_QUEUES", "1"}});
  const BoardFile board;
  Program program({CUPOLA_ORDER_APP, "joins", "legacy"}, board, environment);
  (void)program.Wait();
  const size_t found = program.output().find("STRICT: ");
  return program.output().substr(0, program.output().find('\n', found)).substr(
      found == std::string::npos ? 0 : found);
}

/// Streams are put behind others while a thread copies. Returns what went wrong, "" = nothing.
inline std::string JoinsBySeed(const std::string& library, const std::string& stream, uint64_t seed,
                               std::chrono::milliseconds limit = kLimit) {
  const BoardFile board;
  Program program({CUPOLA_ORDER_APP, "joins", stream}, board, {{"LD_PRELOAD", library}});
  return AskBySeed(&program, board, seed, limit);
}

}  // namespace cupola::preempt_test
