// The clock that is read from the time stamp counter, on a machine that sleeps: the counter may go on while
// CLOCK_MONOTONIC stands, or begin anew.
#include "intercept/process/fast_clock.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace cupola::intercept {
namespace {

constexpr int64_t kNearNs = 20'000'000;  // a thread may be interrupted between two readings

int64_t ErrorNs() {
  const uint64_t shown_ns = NowNs();
  return static_cast<int64_t>(shown_ns - MonotonicNs());
}

/// As if the counter had stood at `ticks` more, or less, when the last fit was made.
void MoveCounter(int64_t ticks) {
  static ClockFit moved;
  moved = *clock_fit.load();
  moved.base_ticks += static_cast<uint64_t>(ticks);
  clock_fit.store(&moved);
}

class FastClock : public ::testing::Test {
 protected:
  void SetUp() override {
    StartFastClock();
    if (clock_fit.load() == nullptr) GTEST_SKIP() << "the counter is not invariant here";
  }

  static void ExpectRight() {
    for (int i = 0; i < 3; ++i) {
      const int64_t error_ns = ErrorNs();
      EXPECT_LT(error_ns, kNearNs);
      EXPECT_GT(error_ns, -kNearNs);
      const uint64_t until_ns = MonotonicNs() + 15'000'000;  // a fit is made anew after 10 ms
      while (MonotonicNs() < until_ns) (void)NowNs();
    }
  }
};

TEST_F(FastClock, GoesWithTheClock) { ExpectRight(); }

TEST_F(FastClock, TheCounterWentOnWhileTheClockStood) {
  MoveCounter(-(int64_t{1} << 44));  // more than an hour
  ExpectRight();
}

TEST_F(FastClock, TheCounterBeganAnew) {
  MoveCounter(int64_t{1} << 44);
  ExpectRight();
}

TEST_F(FastClock, AReadingFromBeforeARefreshIsNoJump) {
  const ClockFit* const fit = clock_fit.load();
  MoveCounter(static_cast<int64_t>(fit->refresh_ticks / 4));
  ExpectRight();
}

}  // namespace
}  // namespace cupola::intercept
