// Tests device times by events, over the null driver, whose events take the host's time.
#include <csignal>

#include <gtest/gtest.h>

#include "tests/paths.h"
#include "tests/preload/preload_run.h"

namespace cupola::preload_test {
namespace {

// Error of the clock fit, the base event and the float of cuEventElapsedTime; generous, for a busy machine.
constexpr uint64_t kToleranceNs = 500'000;

RunOptions Timed() { return {.environment = {{"CUPOLA_TIMING", "events"}}}; }

size_t CountTimed(const Records& records) {
  size_t timed = 0;
  for (const Launch& launch : records.list) timed += (launch.flags & kFlagDeviceTimed) != 0;
  return timed;
}

TEST(Timing, EventsEncloseTheLaunch) {
  const Outcome outcome = RunProbe({"launches", "200"}, Timed());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  ASSERT_EQ(outcome.records.size(), 1u);
  ASSERT_EQ(outcome.records[0].list.size(), 200u);
  EXPECT_EQ(CountTimed(outcome.records[0]), 200u);
  for (const Launch& launch : outcome.records[0].list) {
    EXPECT_LE(launch.device_start_ns, launch.call_start_ns + kToleranceNs);
    EXPECT_GE(launch.device_end_ns + kToleranceNs, launch.call_end_ns);
    EXPECT_LE(launch.device_start_ns, launch.device_end_ns);
    EXPECT_GE(launch.device_start_ns + 10'000'000'000u, launch.call_start_ns);  // same clock
  }
}

TEST(Timing, OffByDefault) {
  const Outcome outcome = RunProbe({"launches", "3"});
  ASSERT_EQ(outcome.records.size(), 1u);
  EXPECT_EQ(CountTimed(outcome.records[0]), 0u);
}

TEST(Timing, StepsAsideForAProfiler) {
  RunOptions options = Timed();
  options.environment["CUDA_INJECTION64_PATH"] = "/opt/tool/libinjection.so";
  const Outcome outcome = RunProbe({"launches", "3"}, options);
  ASSERT_EQ(outcome.records.size(), 1u);
  EXPECT_EQ(outcome.records[0].list.size(), 3u);
  EXPECT_EQ(CountTimed(outcome.records[0]), 0u);
  EXPECT_NE(outcome.err.find("CUDA_INJECTION64_PATH"), std::string::npos);
}

TEST(Timing, SaysThatAWordIsUnknown) {
  const Outcome outcome = RunProbe({"launches", "3"}, {.environment = {{"CUPOLA_TIMING", "yes"}}});
  EXPECT_NE(outcome.err.find("CUPOLA_TIMING=yes"), std::string::npos);
}

// With 2,001 launches whose events never complete the pool of events runs dry, and the program ends all the same.
TEST(Timing, AHangingDeviceHoldsNobody) {
  for (const char* when : {"before", "after", "reset"}) {
    const Outcome outcome = RunProbe({"hang", when}, Timed());
    ASSERT_EQ(outcome.exit_code, 0) << when << outcome.err;
    ASSERT_EQ(outcome.records.size(), 1u);
    EXPECT_EQ(outcome.records[0].list.size(), 2001u) << when;
    EXPECT_LE(CountTimed(outcome.records[0]), 1u) << when;
  }
}

// All launches are timed even if the device runs the first ones late, because other processes have it; and if it ends
// launches but is late with the event by which the clock is fitted.
TEST(Timing, ALateDeviceTimesAll) {
  for (const char* what : {"all", "streams"}) {
    const Outcome outcome = RunProbe({"late", what}, Timed());
    ASSERT_EQ(outcome.exit_code, 0) << what << outcome.err;
    ASSERT_EQ(outcome.records.size(), 1u) << what;
    EXPECT_EQ(outcome.records[0].list.size(), 10u) << what;
    EXPECT_EQ(CountTimed(outcome.records[0]), 10u) << what << outcome.err;
  }
}

TEST(Timing, WithoutAClockThereAreNoTimes) {
  const Outcome outcome = RunProbe({"late", "never"}, Timed());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  ASSERT_EQ(outcome.records.size(), 1u);
  EXPECT_EQ(outcome.records[0].list.size(), 10u);
  EXPECT_EQ(CountTimed(outcome.records[0]), 0u);
}

// Launches are in the ring before their times are known, so a killed program loses none.
TEST(Timing, AKilledProgramKeepsItsLaunches) {
  const Outcome outcome = RunProbe({"hang", "killed"}, Timed());
  ASSERT_EQ(outcome.exit_code, 128 + SIGKILL) << outcome.err;
  ASSERT_EQ(outcome.records.size(), 1u);
  EXPECT_EQ(outcome.records[0].list.size(), 2001u);
  EXPECT_EQ(outcome.records[0].launches, 2001u);
  EXPECT_EQ(outcome.records[0].dropped, 0u);
  EXPECT_LE(CountTimed(outcome.records[0]), 1u);
}

TEST(Timing, ContextsComeAndGo) {
  const Outcome outcome = RunProbe({"resets"}, Timed());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  ASSERT_EQ(outcome.records.size(), 1u);
  EXPECT_EQ(outcome.records[0].list.size(), 15u);
  EXPECT_EQ(CountTimed(outcome.records[0]), 15u);
}

TEST(Timing, ThreadsAndExit) {
  const Outcome stress = RunProbe({"stress", "4", "5000"}, Timed());
  ASSERT_EQ(stress.exit_code, 0) << stress.err;
  ASSERT_EQ(stress.records.size(), 1u);
  EXPECT_EQ(stress.records[0].list.size(), 20000u);
  EXPECT_GT(CountTimed(stress.records[0]), 0u);
  EXPECT_EQ(RunProbe({"exit-while-launching"}, Timed()).exit_code, 0);
  EXPECT_EQ(RunProbe({"fork-exec", CUPOLA_PROBE}, Timed()).exit_code, 0);
}

}  // namespace
}  // namespace cupola::preload_test
