// Tests what the CUPTI object (intercept/cupti) records of launches, over a fake libcupti and the
// simulated driver. Each case is a process of its own, because the object starts only once.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <cuda.h>
#include <cupti.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "profiles/feature_file.h"
#include "tests/paths.h"

namespace cupola::preload_test {
namespace {

namespace fs = std::filesystem;

class Cupti : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/cupti-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    setenv("CUPOLA_CUPTI_RECORDS", folder_.c_str(), 1);
    setenv("CUPOLA_CUPTI", CUPOLA_FAKE_CUPTI, 1);
    void* driver = dlopen(CUPOLA_SIM_DRIVER, RTLD_NOW | RTLD_GLOBAL);
    ASSERT_NE(driver, nullptr) << dlerror();
    ASSERT_EQ(reinterpret_cast<CUresult (*)(unsigned)>(dlsym(driver, "cuInit"))(0), CUDA_SUCCESS);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void Inject() {
    void* object = dlopen(CUPOLA_CUPTI_OBJECT, RTLD_NOW);
    ASSERT_NE(object, nullptr) << dlerror();
    const auto initialize = reinterpret_cast<int (*)()>(dlsym(object, "InitializeInjection"));
    ASSERT_NE(initialize, nullptr);
    EXPECT_EQ(initialize(), 1);
    EXPECT_EQ(initialize(), 1);  // a second time: nothing
  }

  template <typename Function>
  Function Fake(const char* name) {
    return reinterpret_cast<Function>(dlsym(dlopen(CUPOLA_FAKE_CUPTI, RTLD_NOW), name));
  }
  bool Call(uint32_t id, const void* params, uint32_t correlation) {
    return Fake<bool (*)(uint32_t, const void*, const char*, uint32_t)>("FakeCall")(
        id, params, "_Z1kPfi", correlation);
  }
  bool Kernel(uint32_t correlation, uint64_t start, uint64_t end) {
    return Fake<bool (*)(uint32_t, uint64_t, uint64_t)>("FakeKernel")(correlation, start, end);
  }

  profiles::FeatureSummary Read(profiles::Profile* profile) {
    std::stringstream text;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      text << std::ifstream(entry.path()).rdbuf();
    }
    return profiles::AddFeatures(text.str(), 1, [](uint64_t) { return std::nullopt; }, profile);
  }

  std::string folder_;
};

TEST_F(Cupti, LaunchesAndTheirDurationsMeet) {
  Inject();
  cuLaunchKernel_params plain{};
  plain.f = reinterpret_cast<CUfunction>(0x1234560);  // unknown to the driver: no parameters
  plain.gridDimX = 7, plain.gridDimY = 2, plain.gridDimZ = 1;
  plain.blockDimX = 64, plain.blockDimY = 1, plain.blockDimZ = 1;
  plain.sharedMemBytes = 48;
  EXPECT_TRUE(Call(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, &plain, 11));
  EXPECT_TRUE(Call(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz, &plain, 12));
  CUlaunchConfig config{};
  config.gridDimX = 9, config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = 32, config.blockDimY = config.blockDimZ = 1;
  cuLaunchKernelEx_params with_config{};
  with_config.config = &config;
  with_config.f = plain.f;
  EXPECT_TRUE(Call(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx, &with_config, 13));
  cuLaunchCooperativeKernel_params cooperative{};
  cooperative.f = plain.f;
  cooperative.gridDimX = cooperative.gridDimY = cooperative.gridDimZ = 1;
  cooperative.blockDimX = cooperative.blockDimY = cooperative.blockDimZ = 1;
  EXPECT_TRUE(Call(CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel, &cooperative, 14));
  EXPECT_TRUE(Kernel(11, 1000, 6000));
  EXPECT_TRUE(Kernel(13, 7000, 7500));
  EXPECT_TRUE(Kernel(14, 0, 0));  // CUPTI could not tell

  profiles::Profile profile;
  const profiles::FeatureSummary summary = Read(&profile);
  EXPECT_EQ(summary.launches, 4u);
  EXPECT_EQ(summary.timed, 2u);
  EXPECT_EQ(summary.bad_lines, 0u);
  EXPECT_EQ(summary.why_untimed, "");
  const auto& launches = profile.kernels.at({"_Z1kPfi", ""}).launches;
  ASSERT_EQ(launches.size(), 2u);
  EXPECT_EQ(launches[0].ns, 500u);
  EXPECT_EQ(launches[0].grid[0], 9u);
  EXPECT_EQ(launches[1].ns, 5000u);
  EXPECT_EQ(launches[1].grid[1], 2u);
  EXPECT_EQ(launches[1].dynamic_shared, 48u);
}

TEST_F(Cupti, SaysThatItIsInUse) {
  setenv("FAKE_CUPTI_BUSY", "1", 1);
  Inject();
  profiles::Profile profile;
  EXPECT_EQ(Read(&profile).why_untimed, "CUPTI is in use: a fake reason");
  unsetenv("FAKE_CUPTI_BUSY");
}

TEST_F(Cupti, StepsAsideForAProgramThatHasItLoaded) {
  ASSERT_NE(dlopen(CUPOLA_FAKE_CUPTI, RTLD_NOW), nullptr);
  Inject();
  profiles::Profile profile;
  EXPECT_EQ(Read(&profile).why_untimed, "the program uses CUPTI itself");
  EXPECT_FALSE(Kernel(1, 1, 2));
}

}  // namespace
}  // namespace cupola::preload_test
