#include "device/sim/stepped/chooser.h"

#include <gtest/gtest.h>

#include <numeric>

namespace cupola::sim {
namespace {

std::vector<uint64_t> Actors(uint64_t count) {
  std::vector<uint64_t> keys(count);
  std::iota(keys.begin(), keys.end(), 100u);
  return keys;
}

TEST(ChooserTest, RandomIsTheSameEverywhere) {
  RandomChooser chooser(42);
  std::vector<uint32_t> answers;
  for (int i = 0; i < 8; ++i) answers.push_back(chooser.Choose(ChoiceKind::kActor, Actors(10)));
  Prng random(42);
  for (const uint32_t answer : answers) EXPECT_EQ(answer, random.Below(10));
}

TEST(ChooserTest, PctRunsOneActorUntilAChange) {
  PctChooser chooser(7, 1, 100);  // depth 1: no change
  const uint32_t first = chooser.Choose(ChoiceKind::kActor, Actors(6));
  for (int i = 0; i < 50; ++i) EXPECT_EQ(chooser.Choose(ChoiceKind::kActor, Actors(6)), first);
}

TEST(ChooserTest, PctChangesDepthMinusOneTimes) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    PctChooser chooser(seed, 3, 100);
    int changes = 0;
    uint32_t last = chooser.Choose(ChoiceKind::kActor, Actors(6));
    for (int i = 0; i < 200; ++i) {
      const uint32_t now = chooser.Choose(ChoiceKind::kActor, Actors(6));
      changes += now != last;
      last = now;
    }
    // Two falls; the one at step 0 is seen before the first answer.
    EXPECT_LE(changes, 2) << "seed " << seed;
    EXPECT_GE(changes, 1) << "seed " << seed;
  }
}

TEST(ChooserTest, ReplayGivesTheRecordedAnswers) {
  RandomChooser random(3);
  RecordingChooser recorder(&random);
  for (int i = 0; i < 20; ++i) recorder.Choose(ChoiceKind::kActor, Actors(2 + i % 5));
  ReplayChooser replay(recorder.answers());
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(replay.Choose(ChoiceKind::kActor, Actors(2 + i % 5)), recorder.answers()[i]);
  EXPECT_TRUE(replay.faithful());
  ReplayChooser wrong({9});
  EXPECT_EQ(wrong.Choose(ChoiceKind::kActor, Actors(3)), 0u);
  EXPECT_FALSE(wrong.faithful());
}

}  // namespace
}  // namespace cupola::sim
