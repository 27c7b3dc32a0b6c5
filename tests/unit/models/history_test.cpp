#include "models/history.h"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "base/prng.h"

namespace cupola::models {
namespace {

class Fixed final : public DurationModel {
 public:
  const char* name() const noexcept override { return "fixed"; }
  Prediction Predict(const LaunchFeatures&) const noexcept override { return {1000, 10, true}; }
};

LaunchFeatures Launch(uint32_t blocks) {
  LaunchFeatures launch;
  launch.grid[0] = blocks;
  return launch;
}

TEST(History, AnswersForWhatItSawAndAsksElse) {
  const Fixed fixed;
  HistoryModel history(&fixed);
  EXPECT_EQ(history.Predict(Launch(1)).ns, 1000u);
  EXPECT_TRUE(history.Predict(Launch(1)).extrapolated);
  history.Observe(Launch(1), 500);
  history.Observe(Launch(1), 700);
  EXPECT_EQ(history.Predict(Launch(1)).ns, 600u);
  EXPECT_GT(history.Predict(Launch(1)).spread_ns, 50u);
  EXPECT_FALSE(history.Predict(Launch(1)).extrapolated);
  EXPECT_EQ(history.Predict(Launch(2)).ns, 1000u);
  EXPECT_EQ(HistoryModel(nullptr).Predict(Launch(1)).ns, 0u);
}

TEST(History, FollowsAChangeAndSmoothsNoise) {
  HistoryModel history(nullptr);
  Prng random(3);
  for (int i = 0; i < 100; ++i) {
    history.Observe(Launch(1), 1000 + random.Below(101) - 50);
  }
  EXPECT_NEAR(static_cast<double>(history.Predict(Launch(1)).ns), 1000, 30);
  for (int i = 0; i < 40; ++i) history.Observe(Launch(1), 2000);
  EXPECT_NEAR(static_cast<double>(history.Predict(Launch(1)).ns), 2000, 20);
}

TEST(History, ForgetsSomeWhenThereAreTooManyAndIsNeverWrong) {
  HistoryModel history(nullptr);
  for (uint32_t i = 1; i <= 1000; ++i) history.Observe(Launch(i), i * 100);
  uint32_t known = 0;
  for (uint32_t i = 1; i <= 1000; ++i) {
    const uint64_t ns = history.Predict(Launch(i)).ns;
    if (ns == 0) continue;
    EXPECT_EQ(ns, i * 100u);
    ++known;
  }
  EXPECT_GT(known, HistoryModel::kConfigurations / 2);
  EXPECT_LE(known, HistoryModel::kConfigurations);
}

TEST(History, IsSharedByThreads) {
  HistoryModel history(nullptr);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (uint32_t i = 0; i < 200'000; ++i) {
      history.Observe(Launch(1 + i % 200), 1000 * (1 + i % 200));
    }
    stop = true;
  });
  uint64_t wrong = 0;
  while (!stop) {
    for (uint32_t i = 1; i <= 200; ++i) {
      const uint64_t ns = history.Predict(Launch(i)).ns;
      if (ns != 0 && ns != 1000 * i) ++wrong;
    }
  }
  writer.join();
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace cupola::models
