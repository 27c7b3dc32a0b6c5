// Golden kernels in free mode. Their expectations follow the PTX ISA and hold on a GPU too
// (tests/gpu/golden_kernels.py); tests/golden/sim_reference computes them. CUPOLA_REBASE=1 rewrites
// them from what the interpreter does.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "base/settings/variables.h"
#include "tests/unit/sim/golden_kernel.h"

namespace cupola::sim {
namespace {

class GoldenKernelTest : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(GoldenKernelTest, MatchesItsExpectation) {
  auto kernel = ReadGoldenKernel(GetParam());
  ASSERT_TRUE(kernel) << kernel.error().ToString();
  auto device = Device::Create({});
  std::string output;
  const Status status = RunGoldenKernel(*device, &*kernel, &output);
  ASSERT_TRUE(status) << status.error().ToString();
  if (settings::Flag("CUPOLA_REBASE")) {
    std::ofstream(GetParam()) << kernel->input << kGoldenMarker << "\n" << output;
    return;
  }
  ASSERT_FALSE(kernel->expected.empty()) << "no expectation in " << GetParam();
  EXPECT_EQ(output, kernel->expected);
}

INSTANTIATE_TEST_SUITE_P(Kernels, GoldenKernelTest, testing::ValuesIn(GoldenKernelFiles()),
                         [](const testing::TestParamInfo<std::filesystem::path>& file) {
                           return file.param.stem().string();
                         });

}  // namespace
}  // namespace cupola::sim
