// HPF among equals whose predictions fail, case by case.
#include <array>
#include <string>

#include <gtest/gtest.h>

#include "policy_bench.h"
#include "sched/hpf_policy.h"

namespace cupola::sched {
namespace {

// Each of many equal launches outlives its prediction on a busy machine: none is a reason to stop another.
TEST(Hpf, ALaunchThatOutlivesItsPredictionIsNotStoppedForAnEqual) {
  Bench bench("hpf");
  const ClientId first = bench.Add(0), second = bench.Add(0), third = bench.Add(0);
  bench.Want(second, 100);
  bench.End(second);  // what it takes is known from now on
  bench.Want(first, 1000);
  bench.Review(20'000);
  EXPECT_FALSE(bench.core_.MayTake(second, first));
  bench.Want(second, 100);
  bench.Want(third, 0);  // nothing is predicted of it
  bench.Review(1000);
  EXPECT_EQ(bench.Running(), "0");
  EXPECT_EQ(bench.core_.OrderFor(first).hold, false);
}

// A burst without an end is no reason for equals to wait for ever: they take turns, each twice as long as
// the launch's last.
TEST(Hpf, EqualsThatOutliveTheirPredictionsTakeTurnsThatDouble) {
  Bench bench("hpf");
  const ClientId first = bench.Add(0), second = bench.Add(0);
  bench.Want(first, 1000);
  bench.Review(1000);
  bench.Want(second, 0);
  std::string order;
  for (int look = 0; look < 32; ++look) {
    order += bench.Running();
    bench.Review(50'000);
  }
  EXPECT_EQ(order, "00" "11" "0000" "1111" "00000000" "11111111" "0000");
  bench.End(first);
  EXPECT_EQ(bench.Running(), "1");
  bench.Want(first, 1000);  // a new launch: before one that has had its turns, once that turn is over
  EXPECT_EQ(bench.Running(), "1");
}

TEST(Hpf, TurnsOfEqualsAreNeverLongerThanTheLongest) {
  Bench bench("hpf");
  const ClientId first = bench.Add(0), second = bench.Add(0);
  bench.Want(first, 0);
  bench.Want(second, 0);
  std::array<uint64_t, 2> ran{};
  uint64_t changes = 0, turn = 0, longest = 0;
  std::string before = bench.Running();
  for (int look = 0; look < 4000; ++look) {
    bench.Review(10'000);
    const std::string now = bench.Running();
    ran[static_cast<size_t>(std::stoi(now))] += 10;
    turn = now == before ? turn + 10 : 0;
    longest = std::max(longest, turn);
    changes += now != before;
    before = now;
  }
  EXPECT_LE(longest, (HpfPolicy::kFirstTurnNs << HpfPolicy::kMostDoublings) / 1'000'000 + 10);
  EXPECT_LE(changes, 2 * HpfPolicy::kMostDoublings + 40'000 / 1600 + 1);
  EXPECT_NEAR(static_cast<double>(ran[0]), static_cast<double>(ran[1]), 1700);
}

}  // namespace
}  // namespace cupola::sched
