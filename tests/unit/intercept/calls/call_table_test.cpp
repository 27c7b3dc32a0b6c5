// The table of driver calls as the code reads it: defaults by class, and rows of every kind. That rows and hooks agree
// is checked when the table is built (tests/preload/call_table_test.py).
#include "intercept/calls/call_table.h"

#include <gtest/gtest.h>

namespace cupola::intercept {
namespace {

using batches::BatchRule;
using tasks::TaskRule;

constexpr const CallRow& RowOf(Call call) { return kCallTable[static_cast<size_t>(call)]; }

bool HasOnlyDefaults(const CallRow& row) {
  return row.hook == HookKind::kNone && row.holds == HoldRule::kNone && row.ends == BatchRule::kRow &&
         !row.makes_memory && !row.may_join;
}

// As a call that the driver exports and that has no row.
TEST(CallTable, ACallThatMayWaitWaitsForAllByDefault) {
  constexpr CallRow kRow = {};
  EXPECT_EQ(kRow.call_class, CallClass::kMayWait);
  EXPECT_EQ(kRow.waits, WaitRule::kContext);
  EXPECT_EQ(kRow.tasks, TaskRule::kWaitAndLeave);
  EXPECT_TRUE(HasOnlyDefaults(kRow));
}

TEST(CallTable, AStreamOrderedCallComesBehindTasksByDefault) {
  constexpr CallRow kRow = RowOf(Call::k_cuStreamWriteValue32_v2);
  EXPECT_EQ(kRow.call_class, CallClass::kStreamOrdered);
  EXPECT_EQ(kRow.waits, WaitRule::kNone);
  EXPECT_EQ(kRow.tasks, TaskRule::kFlush);
  EXPECT_TRUE(HasOnlyDefaults(kRow));
}

TEST(CallTable, NothingIsDoneAboutAPureCall) {
  constexpr CallRow kRow = RowOf(Call::k_cuDeviceGet);
  EXPECT_EQ(kRow.call_class, CallClass::kPure);
  EXPECT_EQ(kRow.waits, WaitRule::kNone);
  EXPECT_EQ(kRow.tasks, TaskRule::kNone);
  EXPECT_TRUE(HasOnlyDefaults(kRow));
}

TEST(CallTable, ColumnsDifferFromTheDefaults) {
  constexpr CallRow kCopy = RowOf(Call::k_cuMemcpyHtoD_v2);
  EXPECT_EQ(kCopy.hook, HookKind::kHook);
  EXPECT_EQ(kCopy.waits, WaitRule::kCopyHost);
  EXPECT_EQ(kCopy.tasks, TaskRule::kHook);
  constexpr CallRow kAllocation = RowOf(Call::k_cuMemAlloc_v2);
  EXPECT_EQ(kAllocation.waits, WaitRule::kNone);
  EXPECT_EQ(kAllocation.tasks, TaskRule::kNone);
  EXPECT_TRUE(kAllocation.makes_memory);
  constexpr CallRow kEvent = RowOf(Call::k_cuStreamWaitEvent);
  EXPECT_EQ(kEvent.holds, HoldRule::kWaitsForEvent);
  EXPECT_TRUE(kEvent.may_join);
  EXPECT_EQ(RowOf(Call::k_cuModuleUnload).ends, BatchRule::kKernels);
  EXPECT_EQ(RowOf(Call::k_cuLaunchKernel).hook, HookKind::kLaunchHook);
}

}  // namespace
}  // namespace cupola::intercept
