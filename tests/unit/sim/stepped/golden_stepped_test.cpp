// The golden kernels in stepped mode: the same expectations hold, warp by warp and thread by
// thread, in whatever order, with weak reads; and there is no race in them but the ones named here.
#include <gtest/gtest.h>

#include "device/sim/stepped/stepped_device.h"
#include "tests/unit/sim/golden_kernel.h"

namespace cupola::sim {
namespace {

using Param = std::tuple<std::filesystem::path, Granularity>;

class GoldenSteppedTest : public testing::TestWithParam<Param> {};

TEST_P(GoldenSteppedTest, MatchesInAnyOrder) {
  const auto& [path, granularity] = GetParam();
  SteppedConfig config;
  config.granularity = granularity;
  config.choose_blocks = true;
  config.memory.stale_reads = true;
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    auto kernel = ReadGoldenKernel(path);
    ASSERT_TRUE(kernel) << kernel.error().ToString();
    RandomChooser chooser(seed);
    auto device = SteppedDevice::Create(config, &chooser);
    std::string output;
    const Status status = RunGoldenKernel(*device, &*kernel, &output);
    ASSERT_TRUE(status) << status.error().ToString();
    EXPECT_EQ(output, kernel->expected);
    for (const Race& race : device->races()) {
      if (!race.same_value) ADD_FAILURE() << device->Describe(race);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, GoldenSteppedTest,
                         testing::Combine(testing::ValuesIn(GoldenKernelFiles()),
                                          testing::Values(Granularity::kWarp,
                                                          Granularity::kThread)),
                         [](const testing::TestParamInfo<Param>& info) {
                           return std::get<0>(info.param).stem().string() +
                                  (std::get<1>(info.param) == Granularity::kWarp ? "_by_warp"
                                                                                 : "_by_thread");
                         });

}  // namespace
}  // namespace cupola::sim
