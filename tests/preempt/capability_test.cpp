// What a process tells the board that it can do, and when it says that it has stopped: a program
// without variants, without gates, whose driver refuses what either needs, or beside a tool; and
// what launch priorities it gives.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>

#include "tests/paths.h"
#include "tests/preempt/stopped_program.h"

namespace cupola::preempt_test {
namespace {

using Environment = std::map<std::string, std::string>;

uint32_t Abilities(const BoardFile& board) {
  return board.slot().capabilities.load() & (sched::kCanPreempt | sched::kCanGate);
}

bool Says(const Program& program, const std::string& text) {
  return program.output().find(text) != std::string::npos;
}

/// Its agent has looked at all there was when this was called.
void AwaitLooks(const BoardFile& board) {
  for (int look = 0; look < 2; ++look) {
    board.slot().launches.store(UINT64_MAX);
    EXPECT_TRUE(AwaitTrue([&] { return board.slot().launches.load() != UINT64_MAX; }));
  }
}

/// A program whose kernel, which has no variant, runs until it is told to end, and is asked to
/// yield then. `gates`: CUPOLA_GATE_EVERY.
void AskWhileAPlainKernelRuns(const Environment& environment, uint32_t abilities) {
  SCOPED_TRACE(testing::PrintToString(environment));
  const BoardFile board;
  board.view().header().attention.store(1);  // somebody heeds its demand
  Program program({CUPOLA_DEMAND_APP, "non-blocking"}, board, environment);
  ASSERT_TRUE(program.Await("ready")) << program.output();
  program.GoOn();
  ASSERT_TRUE(program.Await("kernel launched")) << program.output();
  EXPECT_EQ(Abilities(board), abilities);
  board.Ask();
  AwaitLooks(board);
  EXPECT_EQ(board.slot().stopped.load(), 0u) << "its kernel runs";
  program.GoOn();
  ASSERT_TRUE(program.Await("told")) << program.output();
  EXPECT_TRUE(AwaitTrue([&] { return board.slot().stopped.load() == 1; })) << "nothing is left";
  board.Release();
  program.GoOn();
  EXPECT_EQ(program.Wait(), 0) << program.output();
}

// Gates that were put behind what runs hold nothing of it: nobody might ask when it was launched.
TEST(Capability, WhoCannotBeStoppedDoesNotSaySo) {
  AskWhileAPlainKernelRuns({{"CUPOLA_BUNDLE", ""}, {"CUPOLA_GATE_EVERY", "0"}}, 0);
  AskWhileAPlainKernelRuns({{"CUPOLA_BUNDLE", ""}, {"CUPOLA_GATE_EVERY", "4"}}, sched::kCanGate);
  AskWhileAPlainKernelRuns({{"CUPOLA_GATE_EVERY", "0"}}, 0);
}

// Known from the board before the first launch, not when the agent has looked there.
TEST(Capability, NobodyMayAskTheFirstLaunchEither) {
  const BoardFile board;
  Program program({CUPOLA_SLICED_APP}, board,
                  {{"CUPOLA_GATE_EVERY", "4"}, {"CUPOLA_PREEMPT", "never"}});
  program.Tell("sum 0\nend 0\n");
  EXPECT_EQ(program.Wait(), 0) << program.output();
  EXPECT_TRUE(Says(program, " 0 gates")) << program.output();
}

TEST(Capability, GatesStopAProgramWithoutVariants) {
  const BoardFile board;
  board.slot().may_be_held.store(sched::HeldFor::kAnyone);
  Program program(App({"gated", "non-blocking"}), board,
                  {{"CUPOLA_GATE_EVERY", "4"}, {"CUPOLA_BUNDLE", ""}});
  ASSERT_TRUE(program.Await("ready")) << program.output();
  EXPECT_EQ(Abilities(board), sched::kCanGate);
  board.Ask();
  program.GoOn();
  ASSERT_TRUE(program.Await("kernel launched")) << program.output();
  EXPECT_TRUE(AwaitTrue([&] { return board.slot().stopped.load() == 1 || program.HasEnded(); }));
  GiveTimeToGoWrong();
  EXPECT_FALSE(Says(program, "done")) << program.output();
  EXPECT_EQ(board.slot().stopped.load(), 1u);
  board.Release();
  EXPECT_EQ(program.Wait(), 0) << program.output();
}

// Launches that went out before it was asked pass the gates that are before them; how long that
// takes is known from those before.
TEST(Capability, WhatWasLaunchedBeforeIsGivenTime) {
  const BoardFile board;
  board.slot().may_be_held.store(sched::HeldFor::kAnyone);
  Program program({CUPOLA_DEMAND_APP, "non-blocking"}, board, {{"CUPOLA_GATE_EVERY", "4"}});
  ASSERT_TRUE(program.Await("ready")) << program.output();
  AwaitLooks(board);
  program.GoOn();
  ASSERT_TRUE(program.Await("kernel launched")) << program.output();
  board.Ask();
  EXPECT_TRUE(AwaitTrue([&] { return board.slot().stopped.load() == 1 || program.HasEnded(); }));
  board.Release();
  program.Tell("\n\n");
  EXPECT_EQ(program.Wait(), 0) << program.output();
}

// Who is held launches nothing past the gates, however few launches ago its stream had one.
TEST(Capability, TheFirstLaunchOfWhoIsHeldWaits) {
  const BoardFile board;
  board.slot().may_be_held.store(sched::HeldFor::kAnyone);
  Program program({CUPOLA_DEMAND_APP, "behind-many"}, board, {{"CUPOLA_GATE_EVERY", "2"}});
  ASSERT_TRUE(program.Await("ready")) << program.output();
  board.Ask();
  const uint32_t before = board.slot().demand.load();
  program.GoOn();
  ASSERT_TRUE(AwaitTrue([&] { return board.slot().demand.load() != before; }));
  GiveTimeToGoWrong();
  EXPECT_FALSE(program.Await("first 0.", [&] { return board.slot().stopped.load() == 1; }))
      << program.output();
  GiveTimeToGoWrong();
  EXPECT_EQ(board.slot().stopped.load(), 1u);
  board.Release();
  EXPECT_TRUE(program.Await("synced 0.")) << program.output();
}

TEST(Capability, KernelsThatHaveVariantsCanBePreempted) {
  for (const char* gates : {"0", "8"}) {
    const BoardFile board;
    Program program(App({"hold", "non-blocking"}), board, {{"CUPOLA_GATE_EVERY", gates}});
    ASSERT_TRUE(program.Await("ready")) << program.output();
    EXPECT_EQ(Abilities(board), sched::kCanPreempt | (*gates == '0' ? 0u : sched::kCanGate));
    program.Tell("\n\n");
    EXPECT_EQ(program.Wait(), 0) << program.output();
  }
}

std::string KernelOn(const BoardFile& board) {
  const auto& text = board.slot().kernel;
  return std::string(text, strnlen(text, sizeof(text)));
}

// Short launches too, which go out as they are; of a kernel without variants the driver knows it.
TEST(KernelName, IsOnTheBoard) {
  const BoardFile board;
  Program program({CUPOLA_SLICED_APP}, board, {{"CUPOLA_PREEMPT", "auto"}});
  ASSERT_TRUE(program.Await("ready")) << program.output();
  EXPECT_TRUE(AwaitTrue([&] { return KernelOn(board) == "First"; })) << KernelOn(board);
  program.Tell("sum 0\n");
  EXPECT_TRUE(AwaitTrue([&] { return KernelOn(board) == "Sum"; })) << KernelOn(board);
  program.Tell("end 0\n");
  EXPECT_EQ(program.Wait(), 0) << program.output();
}

// Where rules go by it the daemon is to find it when it hears of the burst.
TEST(KernelName, IsThereWhenABurstBegins) {
  const BoardFile board;
  board.slot().has_kernel_rules.store(1);
  Program program({CUPOLA_SLICED_APP}, board);
  ASSERT_TRUE(program.Await("ready")) << program.output();
  const auto wants = [&] { return board.slot().demand.load() % 2 == 1; };
  ASSERT_TRUE(AwaitTrue([&] { return KernelOn(board) == "First" && !wants(); }));
  program.Tell("go 0\n");
  const auto end = Clock::now() + kLimit;
  while (!wants() && Clock::now() < end) {
  }
  EXPECT_EQ(KernelOn(board), "Step");
  program.Tell("open 0\nend 0\n");
  EXPECT_EQ(program.Wait(), 0) << program.output();
}

// The driver maps no memory of the process, or has no stream waits: all goes out plain, nothing
// holds it, and the results are right.
TEST(Refused, RunsAsWithoutCupola) {
  const std::map<std::string, std::string> all = {
      {"cuMemHostRegister_v2", "the driver does not map the board"},
      {"cuStreamWaitValue32_v2", "the driver has no stream memory operations"}};
  for (const auto& [call, says] : all) {
    for (const std::string scenario : {"order", "gated"}) {
      SCOPED_TRACE(call + " " + scenario);
      const BoardFile board;
      board.slot().may_be_held.store(sched::HeldFor::kAnyone);
      Program program(App({scenario, "legacy"}), board,
                      {{"STRICT_REFUSES", call}, {"CUPOLA_GATE_EVERY", "4"}});
      if (scenario == "gated") {
        ASSERT_TRUE(program.Await("ready")) << program.output();
        board.Ask();
        program.GoOn();
      }
      EXPECT_EQ(program.Wait(), 0) << program.output();
      EXPECT_EQ(Abilities(board), 0u);
      EXPECT_TRUE(Says(program, says)) << program.output();
      EXPECT_TRUE(Says(program, "preemption: 0 launches preemptible")) << program.output();
      EXPECT_TRUE(Says(program, " 0 gates")) << program.output();
      const std::string plain =
          scenario == "gated" ? "21 launches plain: no variant" : "3 launches plain: no context";
      EXPECT_TRUE(Says(program, plain)) << program.output();
    }
  }
}

constexpr const char* kAside = "kernels are not preempted: ";

TEST(Stop, StepsAsideForATool) {
  const Environment tools = {{"CUDA_INJECTION64_PATH", ""},
                             {"NV_COMPUTE_PROFILER_PERFWORKS_DIR", "/x"},
                             {"NV_NSIGHT_INJECTION_TRANSPORT_TYPE", "1"},
                             {"NSYS_PROFILING_SESSION_ID", "1"},
                             {"NV_SANITIZER_INJECTION_PORT_BASE", "1"},
                             {"CUDBG_USE_LEGACY_DEBUGGER", "1"},
                             {"CUDA_LAUNCH_BLOCKING", "1"}};
  for (const auto& [name, value] : tools) {
    SCOPED_TRACE(name);
    const BoardFile board;
    Program program({CUPOLA_TOOL_APP}, board, {{name, value}});
    EXPECT_EQ(program.Wait(), 0) << program.output();
    EXPECT_TRUE(Says(program, kAside)) << program.output();
    EXPECT_TRUE(Says(program, "in the environment, a tool is at work")) << program.output();
    EXPECT_FALSE(Says(program, "launches preemptible")) << program.output();
    EXPECT_EQ(board.slot().pid.load(), 0u) << "it has joined the board";
  }
  const BoardFile board;
  Program program({CUPOLA_TOOL_APP}, board, {{"CUDA_LAUNCH_BLOCKING", "0"}});
  EXPECT_EQ(program.Wait(), 0) << program.output();
  EXPECT_TRUE(Says(program, "4 launches preemptible")) << program.output();
}

// Programs load libcupti without using it: each that imports PyTorch does.
TEST(Stop, StepsAsideForCuptiThatIsUsed) {
  const struct {
    const char* what;
    const char* preemptible;
    uint32_t abilities;
  } all[] = {{"loaded", "4 launches preemptible", sched::kCanPreempt | sched::kCanGate},
             {"used", "preemption: 0 launches preemptible", 0},
             {"late", "preemption: 1 launches preemptible", 0}};
  for (const auto& one : all) {
    SCOPED_TRACE(one.what);
    const BoardFile board;
    Program program({CUPOLA_TOOL_APP, one.what, CUPOLA_FAKE_CUPTI}, board,
                    {{"CUPOLA_GATE_EVERY", "8"}});
    EXPECT_EQ(program.Wait(), 0) << program.output();
    EXPECT_TRUE(Says(program, one.preemptible)) << program.output();
    EXPECT_EQ(Says(program, kAside), one.abilities == 0) << program.output();
    EXPECT_EQ(Says(program, "launches plain: a tool is at work"), one.abilities == 0)
        << program.output();
    EXPECT_EQ(Abilities(board), one.abilities);
  }
}

int CountOf(const std::string& output, const std::string& text) {
  int count = 0;
  for (size_t at = 0; (at = output.find(text, at)) != output.npos; at += text.size()) ++count;
  return count;
}

// Where processes share a context whoever may ask others launches with the highest priority, save
// what has one already and what is captured.
TEST(Priority, OfLaunchesOfWhoMayAskOthers) {
  for (const bool is_high : {true, false}) {
    for (const bool shares : {true, false}) {
      SCOPED_TRACE(std::to_string(is_high) + std::to_string(shares));
      const BoardFile board;
      board.slot().may_take.store(is_high ? 2 : 0);
      Program program({CUPOLA_PRIORITY_APP}, board,
                      {{"CUPOLA_SIM_MPS", shares ? "1" : "0"}, {"STRICT_TELLS_PRIORITY", "1"}});
      EXPECT_EQ(program.Wait(), 0) << program.output();
      const int given = is_high && shares ? 5 : 0;
      EXPECT_TRUE(Says(program, " " + std::to_string(given) + " with priority"))
          << program.output();
      EXPECT_EQ(CountOf(program.output(), "STRICT: priority -5\n"), given) << program.output();
      EXPECT_EQ(CountOf(program.output(), "STRICT: priority -2\n"), 3) << program.output();
      EXPECT_EQ(CountOf(program.output(), "STRICT: priority"), given + 3) << program.output();
    }
  }
}

}  // namespace
}  // namespace cupola::preempt_test
