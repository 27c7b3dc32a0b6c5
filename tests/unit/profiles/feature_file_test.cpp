#include "profiles/feature_file.h"

#include <gtest/gtest.h>

#include "base/prng.h"

namespace cupola::profiles {
namespace {

constexpr char kText[] =
    "cupola-features 1\n"
    "G 90 132 2048 32 65536 233472 13.0 NVIDIA H200\n"
    "K 1 16 0 3 0:8 8:4 16:96 _Z3addPfi4Many\n"
    "L 5 1 391 1 1 256 1 1 64 1200000 p 100000 -\n"
    "K 2 32 1024 0 nothing here\n"
    "L 6 2 1 2 3 4 5 6 0 0\n"
    "L 7 1 782 1 1 256 1 1 64 2400000 0 200000 -\n"
    "T 6 777 1\n";

std::optional<LaunchTime> TimeOf(uint64_t ticket) {
  if (ticket == 5) return LaunchTime{1000, 11};
  if (ticket == 7) return LaunchTime{2000, 12};
  return {};
}

TEST(FeatureFile, BecomesAProfile) {
  Profile profile;
  const FeatureSummary summary = AddFeatures(kText, 99, TimeOf, &profile);
  EXPECT_EQ(summary.launches, 3u);
  EXPECT_EQ(summary.timed, 3u);
  EXPECT_EQ(summary.bad_lines, 0u);
  EXPECT_EQ(profile.gpu.name, "NVIDIA H200");
  EXPECT_EQ(profile.gpu.shared_per_sm, 233472u);
  ASSERT_EQ(profile.kernels.size(), 2u);
  const KernelProfile& add = profile.kernels.at({"_Z3addPfi4Many", ""});
  ASSERT_EQ(add.launches.size(), 2u);
  EXPECT_EQ(add.registers, 16u);
  EXPECT_TRUE(add.parameters[0].pointer);
  EXPECT_EQ(add.launches[0].ns, 1000u);
  EXPECT_EQ(add.launches[0].when, 11u);
  EXPECT_EQ(add.launches[0].input_bytes, 1200000u);
  EXPECT_EQ(add.launches[0].dynamic_shared, 64u);
  EXPECT_EQ(add.launches[0].arguments,
            (std::vector<std::optional<uint64_t>>{std::nullopt, 100000, std::nullopt}));
  // A null pointer once: it is one all the same.
  EXPECT_EQ(add.launches[1].arguments[0], std::nullopt);
  const KernelProfile& nothing = profile.kernels.at({"nothing here", ""});
  EXPECT_EQ(nothing.static_shared, 1024u);
  EXPECT_EQ(nothing.launches[0].ns, 777u);
  EXPECT_EQ(nothing.launches[0].when, 99u);
  EXPECT_EQ(nothing.launches[0].block[2], 6u);
}

TEST(FeatureFile, LaunchesWithoutADurationAreCountedOnly) {
  Profile profile;
  const FeatureSummary summary = AddFeatures(
      std::string(kText) + "X the program uses CUPTI itself\n", 1,
      [](uint64_t) { return std::nullopt; }, &profile);
  EXPECT_EQ(summary.launches, 3u);
  EXPECT_EQ(summary.timed, 1u);
  EXPECT_EQ(summary.why_untimed, "the program uses CUPTI itself");
  EXPECT_EQ(profile.kernels.size(), 1u);
}

TEST(FeatureFile, BadLinesAreSkippedAndCounted) {
  const std::string text = std::string(kText) +
                           "L 8 9 1 1 1 1 1 1 0 0\n"            // no such kernel
                           "L 9 1 1 1 1 1 1 1 0 0 p 1\n"        // an argument short
                           "L 10 1 1 1 1 1 1 1 0 0 p 1 - 4\n"   // one too many
                           "L 11 1 1 1 x 1 1 1 0 0 p 1 -\n"
                           "Q what\n"
                           "L 12 1 1 1 1 1 1 1 0 0 p 1 -";      // killed in the middle
  Profile profile;
  const FeatureSummary summary = AddFeatures(text, 1, TimeOf, &profile);
  EXPECT_EQ(summary.bad_lines, 6u);
  EXPECT_EQ(summary.launches, 3u);
}

TEST(FeatureFile, NoDamageCrashes) {
  Prng random(4);
  for (int i = 0; i < 3000; ++i) {
    std::string text = kText;
    for (int j = 0; j < 4; ++j) {
      text[random.Below(text.size())] = static_cast<char>(random.Below(128));
    }
    Profile profile;
    AddFeatures(text.substr(0, random.Below(text.size() + 1)), 1,
                [](uint64_t) { return LaunchTime{5, 5}; }, &profile);
  }
}

}  // namespace
}  // namespace cupola::profiles
