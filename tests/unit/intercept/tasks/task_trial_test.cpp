#include "intercept/tasks/task_trial.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace cupola::intercept::tasks {
namespace {

using Verdict = TaskTrial::Verdict;

constexpr uint64_t kLimit = 96'000;

/// Tasks of a stream, one behind the other, at given ends.
struct Stream {
  std::vector<uint64_t> ends;
  uint32_t LeftAt(uint64_t now) const {
    return static_cast<uint32_t>(ends.end() - std::upper_bound(ends.begin(), ends.end(), now));
  }
};

Stream Tasks(const std::vector<uint64_t>& times, uint64_t begin) {
  Stream stream;
  for (const uint64_t time : times) stream.ends.push_back(begin += time);
  return stream;
}

/// What is found with a look every `every` ns, and when.
Verdict Found(const Stream& stream, uint64_t every, uint64_t* now, uint64_t limit = kLimit) {
  TaskTrial trial;
  trial.Begin(*now, stream.LeftAt(*now));
  for (uint32_t i = 0; i < 1'000'000; ++i) {
    *now += every;
    const Verdict verdict = trial.Look(*now, stream.LeftAt(*now), limit);
    if (verdict != Verdict::kNone) return verdict;
  }
  return Verdict::kNone;
}
Verdict Found(const std::vector<uint64_t>& times, uint64_t every, uint64_t limit = kLimit) {
  uint64_t now = 0;
  return Found(Tasks(times, 0), every, &now, limit);
}

TEST(TaskTrial, LongTasksAreFoundWhenTwoHaveRun) {
  EXPECT_EQ(Found({175'000, 175'000, 175'000, 175'000}, 3'000), Verdict::kLong);
  // Before the second has: it has run for longer already.
  uint64_t now = 0;
  EXPECT_EQ(Found(Tasks({10'000'000, 10'000'000, 10'000'000, 10'000'000}, 0), 3'000, &now),
            Verdict::kLong);
  EXPECT_LT(now, 20'000'000 + kLimit + 6'000);
}

TEST(TaskTrial, ShortTasksAreFoundAtOnce) {
  uint64_t now = 0;
  EXPECT_EQ(Found(Tasks({13'000, 13'000, 13'000, 13'000}, 0), 3'000, &now), Verdict::kShort);
  EXPECT_LT(now, 33'000);
  // All four between two looks.
  EXPECT_EQ(Found({1'100, 1'100, 1'100, 1'100}, 5'000, 9'000), Verdict::kShort);
}

TEST(TaskTrial, ManyLaunchesAreLookedAtBeforeTasksAreLong) {
  const Stream stream = Tasks({175'000, 175'000, 175'000, 175'000}, 0);
  TaskTrial trial;
  trial.Begin(0, 4);
  uint64_t now = 0;
  for (uint32_t i = 1; i < TaskTrial::kLaunches; ++i) {
    ASSERT_EQ(trial.Look(now += 3'000, stream.LeftAt(now), kLimit), Verdict::kNone) << i;
  }
  EXPECT_EQ(trial.Look(now += 3'000, 0, kLimit), Verdict::kLong);
}

TEST(TaskTrial, WhatATaskMayTakeGrowsWithTheStreamsThatAreSeen) {
  const Stream stream = Tasks({20'000, 20'000, 20'000, 20'000}, 0);
  TaskTrial trial;
  trial.Begin(0, 4);
  for (uint64_t now = 3'000; now < 300'000; now += 3'000) {
    ASSERT_EQ(trial.Look(now, stream.LeftAt(now), 9'000), Verdict::kNone) << now;
  }
  EXPECT_EQ(trial.Look(300'000, 0, 30'000), Verdict::kShort);
}

TEST(TaskTrial, OneWaitForTheGpuIsNoLongTask) {
  EXPECT_EQ(Found({50'000, 2'000'000, 50'000, 50'000}, 3'000), Verdict::kShort);
  EXPECT_EQ(Found({50'000, 50'000, 2'000'000, 50'000}, 3'000), Verdict::kShort);
  EXPECT_EQ(Found({2'000'000, 50'000, 50'000, 50'000}, 3'000), Verdict::kShort);
}

TEST(TaskTrial, NothingIsFoundWithTooFewLooks) {
  EXPECT_EQ(Found({175'000, 175'000, 175'000, 175'000}, 10'000'000), Verdict::kUncertain);
  EXPECT_EQ(Found({50'000, 50'000, 50'000, 50'000}, 10'000'000), Verdict::kUncertain);
}

// Whatever the looks: short only where a task is, long only where two in a row are.
TEST(TaskTrial, NothingIsSaidThatIsNot) {
  uint32_t counts[4] = {};
  for (uint32_t seed = 0; seed < 20'000; ++seed) {
    std::mt19937 random(seed);
    const uint64_t scale = kLimit / 4 + random() % (2 * kLimit);
    std::vector<uint64_t> times;
    for (uint32_t i = 0; i < TaskTrial::kTasks; ++i) times.push_back(scale / 2 + random() % scale);
    const Stream stream = Tasks(times, random() % kLimit);
    TaskTrial trial;
    uint64_t now = random() % kLimit;
    trial.Begin(now, stream.LeftAt(now));
    Verdict found = Verdict::kNone;
    while (found == Verdict::kNone) {
      now += 1 + random() % (random() % 8 == 0 ? 2 * kLimit : kLimit / 16);
      found = trial.Look(now, stream.LeftAt(now), kLimit);
    }
    uint64_t two = 0;
    for (size_t i = 1; i < times.size(); ++i) two = std::max(two, std::min(times[i - 1], times[i]));
    const uint64_t shortest = *std::min_element(times.begin(), times.end());
    ++counts[static_cast<size_t>(found)];
    ASSERT_TRUE(found != Verdict::kShort || shortest <= kLimit) << "seed " << seed;
    ASSERT_TRUE(found != Verdict::kLong || two > kLimit) << "seed " << seed;
  }
  for (const Verdict verdict : {Verdict::kShort, Verdict::kLong, Verdict::kUncertain}) {
    EXPECT_GT(counts[static_cast<size_t>(verdict)], 1'000u);
  }
}

TEST(TaskPace, LooksWhenEnoughWerePutIn) {
  TaskPace pace;
  pace.Begin(1'000, 70);
  EXPECT_FALSE(pace.IsTime(70 + TaskPace::kTasks - 1, 1));
  EXPECT_TRUE(pace.IsTime(70 + TaskPace::kTasks, 1));
  EXPECT_TRUE(pace.IsTime(70 + 32 * 16, 32));
  EXPECT_FALSE(pace.IsTime(70 + 33 * 16 - 1, 33));
  // Of 512 in 32 streams 384 have run, each stream's 12 one behind the other.
  EXPECT_EQ(pace.MostNs(1'000 + 12 * 9'000, 70 + 512, 32), 9'000u);
  EXPECT_FALSE(pace.IsTime(70 + 512 + 511, 32));
  EXPECT_EQ(pace.MostNs(1'000 + 12 * 9'000 + 12 * 5'000, 70 + 1'024, 32), 5'000u);
}

// A host that puts into each of some streams in turn where that has fewer than a trial watches, and waits
// at times: the mean of what it put in is no longer than is said.
TEST(TaskPace, NoTasksAreLongerThanIsSaid) {
  uint32_t close = 0;
  for (uint32_t seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    const uint32_t streams = 1 + random() % 48;
    const uint64_t scale = 500 + random() % 100'000, every = 100 + random() % 3'000;
    std::vector<std::vector<uint64_t>> ends(streams);
    std::vector<uint64_t> times;
    uint64_t now = random() % kLimit;
    TaskPace pace;
    const uint64_t begun = now;
    pace.Begin(begun, 0);
    for (uint32_t turn = 0; !pace.IsTime(times.size(), streams); ++turn) {
      now += random() % 1'000 == 0 ? 50 * scale : every;
      std::vector<uint64_t>& its = ends[turn % streams];
      const auto left = its.end() - std::upper_bound(its.begin(), its.end(), now);
      if (left >= TaskTrial::kTasks) continue;
      times.push_back(scale / 2 + random() % scale);
      its.push_back((left == 0 ? now : its.back()) + times.back());
    }
    uint64_t sum = 0, count = 0;
    for (const std::vector<uint64_t>& its : ends) {
      for (size_t i = 0; i < its.size() && its[i] <= now; ++i) ++count;
    }
    for (const uint64_t time : times) sum += time;
    const uint64_t mean = sum / times.size(), most = pace.MostNs(now, times.size(), streams);
    ASSERT_GE(count, times.size() - uint64_t{TaskTrial::kTasks} * streams) << "seed " << seed;
    ASSERT_GE(most + scale / 8, mean) << "seed " << seed;
    close += most < 2 * mean;
  }
  EXPECT_GT(close, 50u);
}

}  // namespace
}  // namespace cupola::intercept::tasks
