// Tests what is recorded of graphs and captures.
#include <gtest/gtest.h>

#include "tests/preload/preload_run.h"

namespace cupola::preload_test {
namespace {

TEST(Graph, KernelNodesAreCountedAtEveryDepth) {
  const Outcome outcome = RunProbe({"graphs"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  ASSERT_EQ(outcome.records.size(), 1u);
  const Records& records = outcome.records[0];
  ASSERT_EQ(records.list.size(), 7u);
  EXPECT_EQ(records.launches, 0u);
  EXPECT_EQ(records.graph_launches, 7u);
  EXPECT_EQ(records.graph_kernel_nodes, 6u * 28u);
  for (int i = 0; i < 7; ++i) {
    EXPECT_EQ(records.list[i].kind, RecordKind::kGraph);
    EXPECT_EQ(records.list[i].door, LaunchDoor::kLaunchGraph);
    // 3 + 2 + 5 + 7 + 11; the last one was destroyed.
    EXPECT_EQ(records.list[i].kernel_nodes, i == 6 ? 0u : 28u) << i;
  }
  EXPECT_EQ(records.list[5].flags, kFlagPerThreadStream);
}

void ExpectCaptures(const Outcome& outcome) {
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  ASSERT_EQ(outcome.records.size(), 1u);
  const Records& records = outcome.records[0];
  EXPECT_EQ(records.captured, 4u);
  EXPECT_EQ(records.launches, 5u);
  ASSERT_EQ(records.list.size(), 9u);
  size_t captured = 0;
  for (const Launch& launch : records.list) {
    captured += launch.kind == RecordKind::kCapturedKernel;
    if (launch.kind == RecordKind::kCapturedKernel) {
      EXPECT_EQ(launch.flags & kFlagDeviceTimed, 0);
    }
  }
  EXPECT_EQ(captured, 4u);
}

TEST(Graph, CapturedLaunchesAreToldApart) { ExpectCaptures(RunProbe({"captures"})); }

// The probe itself checks that nothing forbidden was called while a capture was open.
TEST(Graph, CapturesWithTimingOn) {
  ExpectCaptures(RunProbe({"captures"}, {.environment = {{"CUPOLA_TIMING", "events"}}}));
}

}  // namespace
}  // namespace cupola::preload_test
