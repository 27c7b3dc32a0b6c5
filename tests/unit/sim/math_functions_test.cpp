// The math library that nvcc compiles into kernels (kernels/math_functions.cu), run on the
// simulated device: within the errors that CUDA states for a GPU, against the host's library in
// more bits.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "base/prng.h"
#include "device/sim/exec/device.h"
#include "device/sim/exec/submit_and_wait.h"
#include "tests/paths.h"

namespace cupola::sim {
namespace {

using Exact = long double (*)(long double, long double);

struct Function {
  const char* name;
  int float_ulp, double_ulp;
  double low, high;
  Exact exact;
};

#define UNARY(name) [](long double x, long double) -> long double { return std::name(x); }
#define BINARY(name) [](long double x, long double y) -> long double { return std::name(x, y); }
#define MATH_FUNCTION(name, operands, float_ulp, double_ulp, low, high) \
  Function{#name, float_ulp, double_ulp, low, high, operands(name)},
const Function kFunctions[] = {
#include "tests/unit/sim/kernels/math_functions.def"
};

constexpr uint32_t kCount = 2048;

class MathFunctionsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(CUPOLA_TEST_NVCC))
      GTEST_SKIP() << "no nvcc at " << CUPOLA_TEST_NVCC;
    const std::string out =
        testing::TempDir() + "/math_functions_" + std::to_string(getpid()) + ".ptx";
    const std::string command = std::string(CUPOLA_TEST_NVCC) +
                                " -std=c++17 -arch=sm_90 -ptx -I" + CUPOLA_SOURCE_DIR + " " + CUPOLA_SOURCE_DIR +
                                "/tests/unit/sim/kernels/math_functions.cu -o " +
                                out;
    ASSERT_EQ(std::system(command.c_str()), 0);
    std::ifstream file(out);
    const std::string ptx((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    std::filesystem::remove(out);
    device_ = Device::Create({});
    auto module = device_->LoadPtx(ptx, "math_functions.ptx");
    ASSERT_TRUE(module) << module.error().ToString();
    module_ = *module;
  }

  void Launch(const std::string& name, uint64_t x, uint64_t y, uint64_t r) {
    GridLaunch launch;
    launch.module = module_;
    const auto& kernels = module_->kernels();
    const auto it = std::find_if(kernels.begin(), kernels.end(),
                                 [&](const KernelInfo& k) { return k.name == name; });
    ASSERT_NE(it, kernels.end()) << name;
    launch.kernel_index = static_cast<uint32_t>(it - kernels.begin());
    launch.grid = {kCount / 256, 1, 1};
    launch.block = {256, 1, 1};
    const uint64_t values[3] = {x, y, r};
    launch.params.resize(it->param_bytes);
    std::memcpy(launch.params.data(), values, sizeof(values));
    const std::optional<Fault> fault = SubmitAndWait(*device_, std::move(launch));
    ASSERT_FALSE(fault) << fault->message;
  }

  template <typename T>
  void Check(const Function& function, int bound) {
    T* x = reinterpret_cast<T*>(device_->Allocate(3 * kCount * sizeof(T)));
    T *y = x + kCount, *r = y + kCount;
    Prng random(20250917);
    for (uint32_t i = 0; i < 2 * kCount; ++i) {
      // Half of the arguments are spread over the range, half over its magnitudes.
      double value = random.Uniform(function.low, function.high);
      if (i % 2 == 0) value = std::ldexp(value, -static_cast<int>(random.Next() % 20));
      x[i] = static_cast<T>(std::clamp(value, function.low, function.high));
    }
    Launch(std::string(function.name) + (sizeof(T) == 4 ? "_float" : "_double"),
           reinterpret_cast<uint64_t>(x), reinterpret_cast<uint64_t>(y),
           reinterpret_cast<uint64_t>(r));
    int reported = 0;
    for (uint32_t i = 0; i < kCount && reported < 2; ++i) {
      const long double want = function.exact(x[i], y[i]);
      if (std::isinf(static_cast<T>(want)) && std::isinf(r[i])) continue;
      // The distance in units of the exact value's last place, half of one for the rounding.
      const T near = static_cast<T>(want);
      const long double unit = std::fabs(
          static_cast<long double>(std::nextafter(near, std::numeric_limits<T>::infinity())) -
          near);
      const long double error = std::fabs(r[i] - want) / unit;
      // Of functions that round correctly too: `want` is rounded itself and may lie on the tie, from
      // which `near` is only one of two answers. Exactly, sqrt and division are checked in oracle/.
      if (error <= static_cast<long double>(bound) + 0.5L) continue;
      ADD_FAILURE() << function.name << " of " << x[i] << ", " << y[i] << " in " << sizeof(T)
                    << " bytes: " << r[i] << ", expected " << near << ", error "
                    << static_cast<double>(error) << " units";
      ++reported;
    }
    device_->Free(reinterpret_cast<uint64_t>(x));
  }

  std::unique_ptr<Device> device_;
  std::shared_ptr<LoadedModule> module_;
};

TEST_F(MathFunctionsTest, StayWithinTheirStatedErrors) {
  for (const Function& function : kFunctions) {
    Check<float>(function, function.float_ulp);
    Check<double>(function, function.double_ulp);
  }
}

}  // namespace
}  // namespace cupola::sim
