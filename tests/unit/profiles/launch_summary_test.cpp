#include "profiles/launch_summary.h"

#include <gtest/gtest.h>

namespace cupola {
namespace {

Launch Kernel(std::string_view name, uint32_t grid, uint64_t device_ns) {
  Launch launch;
  launch.name = name;
  launch.grid[0] = grid;
  launch.grid[1] = launch.grid[2] = 1;
  launch.block[0] = 64;
  launch.block[1] = 2;
  launch.block[2] = 1;
  if (device_ns != 0) {
    launch.flags = kFlagDeviceTimed;
    launch.device_start_ns = 100;
    launch.device_end_ns = 100 + device_ns;
  }
  return launch;
}

TEST(LaunchSummaryTest, AddsUpByKernelMostTimeFirst) {
  LaunchSummary summary;
  summary.Add(Kernel("_Z4fastv", 1, 1000));
  summary.Add(Kernel("slow", 10, 2'000'000));
  summary.Add(Kernel("slow", 10, 4'000'000));
  summary.Add(Kernel("slow", 11, 6'000'000));
  Launch failed = Kernel("slow", 1, 0);
  failed.flags = kFlagFailed;
  summary.Add(failed);
  Launch captured = Kernel("never", 1, 0);
  captured.kind = RecordKind::kCapturedKernel;
  summary.Add(captured);
  LaunchTotals totals;
  totals.launches = 4;
  totals.captured = 1;
  totals.graph_launches = 2;
  totals.graph_kernel_nodes = 6;
  totals.dropped = 3;
  EXPECT_EQ(summary.ToString(totals),
            "  launches     total ms      mean us             grid        block  kernel\n"
            "         3       12.000      4000.00              10*         64x2  slow\n"
            "         1        0.001         1.00                1         64x2  fast()\n"
            "* the most common of several shapes\n"
            "4 kernel launches\n"
            "2 graph launches with 6 kernel nodes\n"
            "1 launches captured into graphs\n"
            "1 launches refused by the driver\n"
            "3 records dropped because the program was faster than the reader: the lines above "
            "miss them\n");
}

TEST(LaunchSummaryTest, UntimedShowsADashAndSortsByLaunches) {
  LaunchSummary summary;
  summary.Add(Kernel("a", 1, 0));
  summary.Add(Kernel("b", 1, 0));
  summary.Add(Kernel("b", 1, 0));
  const std::string text = summary.ToString({});
  EXPECT_LT(text.find("  b\n"), text.find("  a\n")) << text;
  EXPECT_NE(text.find("         2            -            -"), std::string::npos) << text;
}

}  // namespace
}  // namespace cupola
