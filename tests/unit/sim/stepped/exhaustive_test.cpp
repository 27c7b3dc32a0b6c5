// The search of all interleavings: small programs of every kind against the search without
// reduction, and locks, barriers and signals on small grids, good and with a mistake.
#include <gtest/gtest.h>

#include "base/prng.h"
#include "tests/unit/sim/stepped/scenario.h"

namespace cupola::sim {
namespace {

/// A few random operations on two words; what is read is added up and stored at the end.
std::string RandomThread(Prng& random, size_t thread, size_t operations) {
  std::string text = "mov.u32 %r1, 0;\n";
  for (size_t i = 0; i < operations; ++i) {
    const std::string where = random.Below(2) != 0 ? "[%a0]" : "[%a0+64]";
    const std::string value = std::to_string(thread * 4 + i + 1);
    switch (random.Below(5)) {
      case 0:
        text += "st.relaxed.gpu.u32 " + where + ", " + value + ";\n";
        break;
      case 1:
        text += "st.release.gpu.u32 " + where + ", " + value + ";\n";
        break;
      case 2:
        text += "atom.acq_rel.gpu.global.add.u32 %r0, " + where + ", " + value +
                ";\nmad.lo.u32 %r1, %r1, 31, %r0;\n";
        break;
      default:
        text += std::string("ld.") + (random.Below(2) != 0 ? "relaxed" : "acquire") +
                ".gpu.u32 %r0, " + where + ";\nmad.lo.u32 %r1, %r1, 31, %r0;\n";
    }
  }
  return text + "st.relaxed.gpu.u32 [%a1+" + std::to_string(4 * thread) + "], %r1;\n";
}

TEST(ExhaustiveTest, ReductionLosesNoOutcomeOfRandomPrograms) {
  uint64_t all_runs = 0, reduced_runs = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    Prng random(seed);
    std::vector<std::string> threads;
    const size_t count = 2 + seed % 2;
    for (size_t i = 0; i < count; ++i)
      threads.push_back(RandomThread(random, i, count == 2 ? 3 : 2));
    auto buffers = std::make_shared<Buffers>();
    Scenario scenario = ScenarioOf(Blocks(threads), buffers, nullptr);
    scenario.config.memory.stale_reads = seed % 4 < 2;
    scenario.outcome = [buffers](SteppedDevice&) {
      return buffers->Text(1, 3) + " / " + buffers->Text(0, 17);
    };
    ExhaustiveOptions options;
    const SearchResult reduced = SearchAll(scenario, options);
    options.reduce = false;
    const SearchResult all = SearchAll(scenario, options);
    ASSERT_TRUE(all.complete && reduced.complete) << "seed " << seed;
    EXPECT_EQ(all.outcomes, reduced.outcomes) << "seed " << seed;
    all_runs += all.runs;
    reduced_runs += reduced.runs;
  }
  EXPECT_LT(reduced_runs * 5, all_runs);
}

KernelUnderTest TicketLock(uint32_t blocks, bool releases) {
  KernelUnderTest kernel;
  kernel.grid.x = blocks;
  kernel.body = std::string(R"(
    atom.relaxed.gpu.global.add.u32 %r0, [%a0], 1;
  WAIT:
    ld.acquire.gpu.global.u32 %r1, [%a0+4];
    setp.ne.u32 %p0, %r1, %r0;
    @%p0 bra WAIT;
    ld.global.u32 %r2, [%a0+8];
    add.u32 %r2, %r2, 1;
    st.global.u32 [%a0+8], %r2;
    add.u32 %r3, %r0, 1;
    st.)") + (releases ? "release" : "relaxed") +
                ".gpu.global.u32 [%a0+4], %r3;";
  return kernel;
}

TEST(ExhaustiveTest, ATicketLockExcludesInEveryInterleaving) {
  for (const bool stale : {false, true}) {
    auto buffers = std::make_shared<Buffers>();
    Scenario scenario =
        ScenarioOf(TicketLock(3, true), buffers, [](const Buffers& b) -> std::string {
          return b.Word(0, 2) == 3 ? "" : "counted " + b.Text(0, 3);
        });
    scenario.config.memory.stale_reads = stale;
    const SearchResult result = SearchAll(scenario);
    ASSERT_FALSE(result.failure) << result.failure->ToString();
    EXPECT_TRUE(result.complete);
    EXPECT_GE(result.runs, 6u) << "at least every order of three";
  }
}

TEST(ExhaustiveTest, ATicketLockThatDoesNotReleaseIsFound) {
  auto buffers = std::make_shared<Buffers>();
  const Scenario scenario = ScenarioOf(TicketLock(2, false), buffers, nullptr);
  const SearchResult result = SearchAll(scenario);
  ASSERT_TRUE(result.failure);
  EXPECT_NE(result.failure->what.find("data race"), std::string::npos) << result.failure->what;
}

/// Peterson's lock needs sequential consistency: fence.sc, no less [PTX ISA 9.7.13.5].
KernelUnderTest Peterson(const std::string& fence) {
  const auto thread = [&](int me) {
    const std::string mine = std::to_string(4 * me), other = std::to_string(4 * (1 - me));
    const std::string n = std::to_string(me);
    return "st.relaxed.gpu.u32 [%a0+" + mine + "], 1;\n" + fence + "st.relaxed.gpu.u32 [%a0+8], " +
           std::to_string(1 - me) + ";\n" + fence + "WAIT" + n +
           ":\nld.relaxed.gpu.u32 %r0, [%a0+" + other + "];\n" + fence +
           "ld.relaxed.gpu.u32 %r1, [%a0+8];\nsetp.eq.u32 %p1, %r0, 1;\nsetp.eq.and.u32 %p1, "
           "%r1, " +
           std::to_string(1 - me) + ", %p1;\n@%p1 bra WAIT" + n + ";\n" + fence +
           // Inside: a counter that both would get wrong, strong so that only values tell.
           "ld.relaxed.gpu.u32 %r2, [%a0+64];\nadd.u32 %r2, %r2, 1;\n"
           "st.relaxed.gpu.u32 [%a0+64], %r2;\n" +
           fence + "st.relaxed.gpu.u32 [%a0+" + mine + "], 0;\n";
  };
  return Blocks({thread(0), thread(1)});
}

SearchResult SearchPeterson(const std::string& fence, bool stale) {
  auto buffers = std::make_shared<Buffers>();
  Scenario scenario = ScenarioOf(Peterson(fence), buffers, [](const Buffers& b) -> std::string {
    return b.Word(0, 16) == 2 ? "" : "counted " + std::to_string(b.Word(0, 16));
  });
  scenario.config.memory.stale_reads = stale;
  return SearchAll(scenario);
}

TEST(ExhaustiveTest, PetersonsLockNeedsFencesOfSequentialConsistency) {
  const SearchResult ideal = SearchPeterson("", false);
  EXPECT_FALSE(ideal.failure) << ideal.failure->ToString();
  EXPECT_TRUE(ideal.complete);
  const SearchResult fenced = SearchPeterson("fence.sc.gpu;\n", true);
  EXPECT_FALSE(fenced.failure) << fenced.failure->ToString();
  EXPECT_TRUE(fenced.complete);
  for (const char* fence : {"", "fence.acq_rel.gpu;\n"}) {
    const SearchResult weak = SearchPeterson(fence, true);
    ASSERT_TRUE(weak.failure) << fence;
    EXPECT_EQ(weak.failure->what, "counted 1");
  }
}

TEST(ExhaustiveTest, ABarrierOfTwoThreadsHoldsInEveryInterleaving) {
  for (const bool barrier : {true, false}) {
    KernelUnderTest kernel;
    kernel.block.x = 2;
    kernel.shared = ".shared .align 4 .b32 tile[2];";
    kernel.body = std::string(R"(
      mov.u32 %r0, tile;
      shl.b32 %r1, %r38, 2;
      add.u32 %r2, %r0, %r1;
      st.shared.u32 [%r2], 5;)") +
                  (barrier ? "bar.sync 0;" : "") + R"(
      xor.b32 %r3, %r1, 4;
      add.u32 %r4, %r0, %r3;
      ld.shared.u32 %r5, [%r4];
      cvt.u64.u32 %rd0, %r1;
      add.s64 %rd1, %a0, %rd0;
      st.global.u32 [%rd1], %r5;)";
    auto buffers = std::make_shared<Buffers>();
    Scenario scenario = ScenarioOf(kernel, buffers, nullptr);
    scenario.config.granularity = Granularity::kThread;
    scenario.races_are_failures = false;
    scenario.outcome = [buffers](SteppedDevice&) { return buffers->Text(0, 2); };
    const SearchResult result = SearchAll(scenario);
    ASSERT_TRUE(result.complete);
    const std::set<std::string> good = {"5 5"}, bad = {"2779096485 5", "5 2779096485", "5 5"};
    EXPECT_EQ(result.outcomes, barrier ? good : bad);
  }
}

TEST(ExhaustiveTest, ALostSignalIsADeadlockInSomeInterleaving) {
  // Waits for a word to be 1 that the other sets and clears again.
  auto buffers = std::make_shared<Buffers>();
  const Scenario scenario = ScenarioOf(
      Blocks({"st.relaxed.gpu.u32 [%a0], 1;\nst.relaxed.gpu.u32 [%a0], 0;",
              "WAIT:\nld.relaxed.gpu.u32 %r0, [%a0];\nsetp.ne.u32 %p1, %r0, 1;\n@%p1 bra WAIT;"}),
      buffers, nullptr);
  const SearchResult result = SearchAll(scenario);
  ASSERT_TRUE(result.failure);
  EXPECT_NE(result.failure->what.find("nothing can go on"), std::string::npos);
  ReplayChooser replay(result.failure->choices);
  const auto again = RunOnce(scenario, &replay);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->what, result.failure->what);
}

TEST(ExhaustiveTest, AScenarioThatIsNotTheSameEveryTimeIsRefused) {
  auto buffers = std::make_shared<Buffers>();
  auto runs = std::make_shared<int>(0);
  Scenario scenario = ScenarioOf(
      Blocks({"st.relaxed.gpu.u32 [%a0], 1;", "ld.relaxed.gpu.u32 %r0, [%a0];"}), buffers, nullptr);
  const auto start = scenario.start;
  scenario.start = [start, runs](SteppedDevice& device) {
    start(device);
    if (++*runs > 1) device.AddHostThread("late").Then("nothing", [](HostThread&) {});
  };
  const SearchResult result = SearchAll(scenario);
  ASSERT_TRUE(result.failure);
  EXPECT_EQ(result.failure->what, "the scenario is not the same in every run");
}

}  // namespace
}  // namespace cupola::sim
