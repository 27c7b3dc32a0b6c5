// The classic litmus tests of memory models, searched exhaustively: which outcomes can be, which
// cannot, and that the reduction of the search loses none.
#include <gtest/gtest.h>

#include "tests/unit/sim/stepped/scenario.h"

namespace cupola::sim {
namespace {

using Outcomes = std::set<std::string>;

/// One thread per block; block i runs threads[i]. Words 0, 16 and 32 of buffer 0 are shared; buffer
/// 1 takes the results, `results` words of them.
SearchResult Litmus(const std::vector<std::string>& threads, size_t results, bool stale_reads,
                    bool reduce = true) {
  const KernelUnderTest kernel = Blocks(threads);
  auto buffers = std::make_shared<Buffers>();
  Scenario scenario = ScenarioOf(kernel, buffers, nullptr);
  scenario.config.memory.stale_reads = stale_reads;
  scenario.outcome = [buffers, results](SteppedDevice&) { return buffers->Text(1, results); };
  ExhaustiveOptions options;
  options.reduce = reduce;
  return SearchAll(scenario, options);
}

struct Case {
  const char* name;
  std::vector<std::string> threads;
  size_t results;
  Outcomes sequential;  ///< what sequential consistency allows
  Outcomes weak;        ///< what the PTX model allows besides
};

const std::string kX = "[%a0]", kY = "[%a0+64]";

std::string Store(const std::string& where, int value, const std::string& order = "relaxed.gpu") {
  return "st." + order + ".u32 " + where + ", " + std::to_string(value) + ";\n";
}
/// Loads into register `r`.
std::string Load(int r, const std::string& where, const std::string& order = "relaxed.gpu") {
  return "ld." + order + ".u32 %r" + std::to_string(r) + ", " + where + ";\n";
}
/// Leaves register `r` in word `n` of the results.
std::string Keep(int r, int n) {
  return "st.relaxed.gpu.u32 [%a1+" + std::to_string(4 * n) + "], %r" + std::to_string(r) + ";\n";
}

std::vector<Case> LitmusCases() {
  const std::string fence = "fence.acq_rel.gpu;\n", sc = "fence.sc.gpu;\n";
  const auto store_buffering = [&](const std::string& middle) -> std::vector<std::string> {
    return {Store(kX, 1) + middle + Load(0, kY) + Keep(0, 0),
            Store(kY, 1) + middle + Load(0, kX) + Keep(0, 1)};
  };
  const auto message_passing = [&](const std::string& first,
                                   const std::string& second) -> std::vector<std::string> {
    return {Store(kX, 1) + first + Store(kY, 1),
            Load(0, kY) + second + Load(1, kX) + Keep(0, 0) + Keep(1, 1)};
  };
  const Outcomes no_zero = {"0 1", "1 0", "1 1"}, mp = {"0 0", "0 1", "1 1"};
  const std::vector<std::string> independent_reads = {
      Store(kX, 1), Store(kY, 1), Load(0, kX) + fence + Load(1, kY) + Keep(0, 0) + Keep(1, 1),
      Load(0, kY) + fence + Load(1, kX) + Keep(0, 2) + Keep(1, 3)};
  Outcomes all16;
  for (int i = 0; i < 16; ++i) {
    std::string text;
    for (int b = 3; b >= 0; --b) text += std::string(i >> b & 1 ? "1" : "0") + (b ? " " : "");
    all16.insert(text);
  }
  Outcomes without_disagreement = all16;
  without_disagreement.erase("1 0 1 0");
  return {
      {"StoreBuffering", store_buffering(""), 2, no_zero, {"0 0"}},
      {"StoreBufferingWithReleaseFences", store_buffering(fence), 2, no_zero, {"0 0"}},
      {"StoreBufferingWithScFences", store_buffering(sc), 2, no_zero, {}},
      {"MessagePassing", message_passing("", ""), 2, mp, {"1 0"}},
      {"MessagePassingOneFence", message_passing(fence, ""), 2, mp, {"1 0"}},
      {"MessagePassingOtherFence", message_passing("", fence), 2, mp, {"1 0"}},
      {"MessagePassingBothFences", message_passing(fence, fence), 2, mp, {}},
      {"MessagePassingFencesOfTheBlock",
       message_passing("fence.acq_rel.cta;\n", fence),
       2,
       mp,
       {"1 0"}},
      {"MessagePassingReleaseAcquire",
       {Store(kX, 1) + Store(kY, 1, "release.gpu"),
        Load(0, kY, "acquire.gpu") + Load(1, kX) + Keep(0, 0) + Keep(1, 1)},
       2,
       mp,
       {}},
      {"CoherenceOfReads",
       {Store(kX, 1) + Store(kX, 2), Load(0, kX) + Load(1, kX) + Keep(0, 0) + Keep(1, 1)},
       2,
       {"0 0", "0 1", "0 2", "1 1", "1 2", "2 2"},
       {}},
      {"IndependentReadsOfIndependentWrites",
       independent_reads,
       4,
       without_disagreement,
       {"1 0 1 0"}},
      {"AtomicsAreAtomic",
       {"atom.global.add.u32 %r0, [%a0], 1;\n" + Keep(0, 0),
        "atom.global.add.u32 %r0, [%a0], 1;\n" + Keep(0, 1),
        "atom.global.add.u32 %r0, [%a0], 1;\n" + Keep(0, 2)},
       3,
       {"0 1 2", "0 2 1", "1 0 2", "1 2 0", "2 0 1", "2 1 0"},
       {}},
      {"ReleaseSequenceThroughAnAtomic",
       {Store(kX, 1) + Store(kY, 1, "release.gpu"),
        "atom.relaxed.gpu.global.add.u32 %r0, [%a0+64], "
        "1;\n",
        Load(0, kY, "acquire.gpu") + Load(1, kX) + Keep(0, 0) + Keep(1, 1)},
       2,
       {"0 0", "0 1", "1 0", "1 1", "2 1"},
       {}},
  };
}

class LitmusTest : public testing::TestWithParam<Case> {};

TEST_P(LitmusTest, HasItsOutcomesAndNoOthers) {
  const Case& c = GetParam();
  const SearchResult strong = Litmus(c.threads, c.results, false);
  ASSERT_FALSE(strong.failure) << strong.failure->ToString();
  EXPECT_TRUE(strong.complete);
  EXPECT_EQ(strong.outcomes, c.sequential);
  const SearchResult weak = Litmus(c.threads, c.results, true);
  ASSERT_FALSE(weak.failure) << weak.failure->ToString();
  EXPECT_TRUE(weak.complete);
  Outcomes both = c.sequential;
  both.insert(c.weak.begin(), c.weak.end());
  EXPECT_EQ(weak.outcomes, both);
}

TEST_P(LitmusTest, ReductionLosesNoOutcome) {
  const Case& c = GetParam();
  for (const bool stale : {false, true}) {
    const SearchResult reduced = Litmus(c.threads, c.results, stale, true);
    ASSERT_TRUE(reduced.complete);
    if (c.threads.size() > 3) continue;  // too many interleavings: exhaustive_test.cpp
    const SearchResult all = Litmus(c.threads, c.results, stale, false);
    ASSERT_TRUE(all.complete);
    EXPECT_EQ(all.outcomes, reduced.outcomes);
    EXPECT_LE(reduced.runs, all.runs);
  }
}

/// Both readers' two loads in one word each: the reduction needs one run per outcome and no more.
TEST(LitmusReductionTest, IsOptimalWhereFourThreadsMeet) {
  const std::string both = "shl.b32 %r0, %r0, 1;\nor.b32 %r0, %r0, %r1;\n";
  const std::vector<std::string> threads = {Store(kX, 1), Store(kY, 1),
                                            Load(0, kX) + Load(1, kY) + both + Keep(0, 0),
                                            Load(0, kY) + Load(1, kX) + both + Keep(0, 1)};
  const SearchResult reduced = Litmus(threads, 2, false, true);
  const SearchResult all = Litmus(threads, 2, false, false);
  ASSERT_TRUE(all.complete && reduced.complete);
  EXPECT_EQ(reduced.outcomes, all.outcomes);
  EXPECT_EQ(reduced.runs, 15u);
  EXPECT_GT(all.runs, 1000u);
}

INSTANTIATE_TEST_SUITE_P(Models, LitmusTest, testing::ValuesIn(LitmusCases()),
                         [](const testing::TestParamInfo<Case>& info) {
                           return std::string(info.param.name);
                         });

}  // namespace
}  // namespace cupola::sim
