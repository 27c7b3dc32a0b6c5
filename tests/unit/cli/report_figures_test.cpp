#include "cli/report/figures.h"

#include <gtest/gtest.h>

namespace cupola::report {
namespace {

constexpr size_t kBins = 10;

/// Two programs, of 100 ns.
Report TwoPrograms() {
  Report report;
  report.processes = {{.pid = 1, .name = "a", .in_launches = true}, {.pid = 2, .name = "b", .in_launches = true}};
  report.rows = {{.process = 0, .label = "stream 1"}, {.process = 1, .label = "stream 1"}};
  report.names = {"k"};
  report.gpus = {"GPU"};
  report.begin_ns = 1000;
  report.end_ns = 1100;
  return report;
}

ReportPhase PhaseFrom(uint32_t process, Phase phase, int64_t start_ns, int64_t end_ns) {
  return {.start_ns = 1000 + start_ns, .end_ns = 1000 + end_ns, .process = process, .gpu = 0, .phase = phase};
}

ReportLaunch LaunchFrom(uint32_t row, int64_t call_ns, int64_t start_ns, int64_t end_ns, Way way = Way::kPlain) {
  return {.start_ns = 1000 + start_ns, .end_ns = 1000 + end_ns, .call_ns = 1000 + call_ns, .row = row, .way = way,
          .timed = true};
}

TEST(ReportFigures, SharesAndWaitsOfTheArbiter) {
  Report report = TwoPrograms();
  for (ReportProcess& process : report.processes) process.in_arbiter = true;
  // a runs until it is asked to leave at 40, leaves until 50, waits while b runs, and runs again from 80.
  report.phases = {PhaseFrom(0, Phase::kRuns, 0, 40),  PhaseFrom(0, Phase::kLeaves, 40, 50),
                   PhaseFrom(1, Phase::kRuns, 40, 80), PhaseFrom(0, Phase::kWaits, 50, 80),
                   PhaseFrom(0, Phase::kRuns, 80, 100)};
  const Figures figures = MakeFigures(report, kBins);
  ASSERT_EQ(figures.shares.size(), 1u);
  EXPECT_EQ(figures.shares[0].bin_ns, 10);
  for (size_t bin = 0; bin < kBins; ++bin) {
    EXPECT_DOUBLE_EQ(figures.shares[0].parts[bin][0], bin < 5 || bin >= 8 ? 1 : 0) << bin;
    EXPECT_DOUBLE_EQ(figures.shares[0].parts[bin][1], bin < 5 || bin >= 8 ? 0 : 1) << bin;
  }
  ASSERT_EQ(figures.waits.size(), 2u);
  EXPECT_EQ(figures.waits[0].waiter, 0u);
  EXPECT_EQ(figures.waits[0].holder, 1u);
  EXPECT_EQ(figures.waits[0].total_ns, 30u);
  EXPECT_EQ(figures.waits[1].waiter, 1u);
  EXPECT_EQ(figures.waits[1].holder, 0u);
  EXPECT_EQ(figures.waits[1].total_ns, 10u);
  EXPECT_EQ(figures.waits[1].times, 1u);
  EXPECT_EQ(figures.waits[1].longest_ns, 10u);
}

TEST(ReportFigures, AKernelThatRunsWhileAnotherProgramLeavesDoesNotWait) {
  Report report = TwoPrograms();
  for (ReportProcess& process : report.processes) process.in_arbiter = true;
  report.phases = {PhaseFrom(0, Phase::kLeaves, 0, 100), PhaseFrom(1, Phase::kRuns, 0, 100)};
  report.launches = {LaunchFrom(1, 0, 60, 100)};
  const Figures figures = MakeFigures(report, kBins);
  ASSERT_EQ(figures.waits.size(), 1u);
  EXPECT_EQ(figures.waits[0].total_ns, 60u);
  EXPECT_DOUBLE_EQ(figures.shares[0].parts[5][0], 1);
  EXPECT_DOUBLE_EQ(figures.shares[0].parts[6][0], 0.5);
  EXPECT_DOUBLE_EQ(figures.shares[0].parts[6][1], 0.5);
}

TEST(ReportFigures, WaitsForNobodyWhileTheGpuChangesOver) {
  Report report = TwoPrograms();
  report.phases = {PhaseFrom(0, Phase::kWaits, 0, 10), PhaseFrom(0, Phase::kWaits, 20, 50)};
  const Figures figures = MakeFigures(report, kBins);
  ASSERT_EQ(figures.waits.size(), 1u);
  EXPECT_EQ(figures.waits[0].holder, kNobody);
  EXPECT_EQ(figures.waits[0].total_ns, 40u);
  EXPECT_EQ(figures.waits[0].times, 2u);
  EXPECT_EQ(figures.waits[0].longest_ns, 30u);
}

TEST(ReportFigures, WithoutTheArbiterLaunchesTellWhoWaits) {
  Report report = TwoPrograms();
  // b calls at 10 while a runs, and begins at 50; from 50 to 60 both run.
  report.launches = {LaunchFrom(0, 0, 5, 60), LaunchFrom(1, 10, 50, 70)};
  AddPhasesOfLaunches(&report);
  const Figures figures = MakeFigures(report, kBins);
  ASSERT_EQ(figures.waits.size(), 1u) << "nothing ran while a was called, so a waited for nobody";
  EXPECT_EQ(figures.waits[0].waiter, 1u);
  EXPECT_EQ(figures.waits[0].holder, 0u);
  EXPECT_EQ(figures.waits[0].total_ns, 40u);
  EXPECT_DOUBLE_EQ(figures.shares[0].parts[0][0], 0.5);
  EXPECT_DOUBLE_EQ(figures.shares[0].parts[5][0], 0.5);
  EXPECT_DOUBLE_EQ(figures.shares[0].parts[5][1], 0.5);
  EXPECT_DOUBLE_EQ(figures.shares[0].parts[6][1], 1);
}

TEST(ReportFigures, AProgramDoesNotWaitForItself) {
  Report report = TwoPrograms();
  report.launches = {LaunchFrom(0, 0, 5, 60), LaunchFrom(0, 10, 60, 70)};
  AddPhasesOfLaunches(&report);
  EXPECT_TRUE(MakeFigures(report, kBins).waits.empty());
}

TEST(ReportFigures, SharesAreAtMostTheWhole) {
  Report report = TwoPrograms();
  for (int i = 0; i < 50; ++i) {
    report.launches.push_back(LaunchFrom(0, 2 * i, 2 * i, 2 * i + 3));
    report.launches.push_back(LaunchFrom(1, 2 * i, 2 * i + 1, 2 * i + 4));
  }
  report.end_ns = 1103;  // the bins do not divide it
  AddPhasesOfLaunches(&report);
  const Figures figures = MakeFigures(report, kBins);
  for (const auto& bin : figures.shares[0].parts) EXPECT_LE(bin[0] + bin[1], 1 + 1e-9);
}

TEST(ReportFigures, CoverageLeavesOutTheTimeInWhichAProgramWaited) {
  Report report = TwoPrograms();
  report.processes[0].in_arbiter = true;
  report.phases = {PhaseFrom(0, Phase::kRuns, 0, 20), PhaseFrom(0, Phase::kWaits, 20, 50), PhaseFrom(0, Phase::kRuns, 50, 60)};
  report.launches = {LaunchFrom(0, 0, 10, 60, Way::kPreemptible), LaunchFrom(0, 0, 0, 5, Way::kPlain),
                     LaunchFrom(0, 0, 0, 0, Way::kFailed)};
  const Figures figures = MakeFigures(report, kBins);
  ASSERT_EQ(figures.coverage.size(), 1u);
  EXPECT_EQ(figures.coverage[0].gpu_ns[static_cast<size_t>(Way::kPreemptible)], 20u);
  EXPECT_EQ(figures.coverage[0].gpu_ns[static_cast<size_t>(Way::kPlain)], 5u);
  EXPECT_EQ(figures.coverage[0].launches[static_cast<size_t>(Way::kFailed)], 1u);
  ASSERT_EQ(figures.kernels.size(), 3u);
  EXPECT_EQ(figures.kernels[0].total_ns, 50u) << "from start to end, the wait included";
}

}  // namespace
}  // namespace cupola::report
