// How much is in the streams where several threads wait for room and say that there is.
#include "intercept/launch/launch_context.h"

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace cupola::intercept {
namespace {

TEST(QueuedWork, ForgetsWhatIsGone) {
  QueuedWork work;
  EXPECT_EQ(work.left(), 0u);
  work.Add(2);
  work.Add(1);
  EXPECT_EQ(work.left(), 3u);
  work.MarkGone(work.total());
  EXPECT_EQ(work.left(), 0u);
}

TEST(QueuedWork, KeepsWhatCameMeanwhile) {
  QueuedWork work;
  work.Add(700);
  const uint64_t seen = work.total();
  work.Add(5);
  work.MarkGone(seen);
  EXPECT_EQ(work.left(), 5u);
}

// Two wait for the same; the first one goes on before the second says so.
TEST(QueuedWork, TheLaterOfTwoForgetsNothingNewer) {
  QueuedWork work;
  work.Add(700);
  const uint64_t first = work.total(), second = work.total();
  work.MarkGone(first);
  work.Add(690);
  work.MarkGone(second);
  EXPECT_EQ(work.left(), 690u);
}

TEST(QueuedWork, AnOlderWordChangesNothing) {
  QueuedWork work;
  work.Add(10);
  const uint64_t old = work.total();
  work.Add(10);
  work.MarkGone(work.total());
  work.MarkGone(old);
  EXPECT_EQ(work.left(), 0u);
}

// Nothing that this thread has put since its own word may be missing, whatever others say.
TEST(QueuedWork, NothingIsMissingAmongThreads) {
  constexpr int kThreads = 4, kRounds = 20'000, kEntries = 7;
  QueuedWork work;
  std::atomic<int> missing{0};
  std::vector<std::thread> threads;
  std::atomic<uint64_t> held{0};  // the word that all have seen pass
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < kRounds; ++round) {
        if (t != 0) {
          work.MarkGone(held.load());
          continue;
        }
        held.store(work.total());
        for (int i = 0; i < kEntries; ++i) work.Add(1);
        if (work.left() < kEntries) ++missing;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(missing.load(), 0);
}

}  // namespace
}  // namespace cupola::intercept
