// Kernels compiled by nvcc at test time (kernels/real_kernels.cu), run on the simulated device and
// compared with the same computation on the CPU.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <optional>

#include "base/prng.h"
#include "device/sim/exec/device.h"
#include "device/sim/exec/submit_and_wait.h"
#include "tests/paths.h"

namespace cupola::sim {
namespace {

/// The PTX of real_kernels.cu; empty where there is no nvcc.
const std::string& Ptx() {
  static const std::string text = [] {
    const std::string out =
        testing::TempDir() + "/real_kernels_" + std::to_string(getpid()) + ".ptx";
    const std::string command = std::string(CUPOLA_TEST_NVCC) +
                                " -std=c++17 -arch=sm_90 -ptx " + CUPOLA_SOURCE_DIR +
                                "/tests/unit/sim/kernels/real_kernels.cu -o " +
                                out;
    if (std::system(command.c_str()) != 0) return std::string();
    std::ifstream file(out);
    std::string ptx((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    std::filesystem::remove(out);
    return ptx;
  }();
  return text;
}

class RealKernelTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(CUPOLA_TEST_NVCC))
      GTEST_SKIP() << "no nvcc at " << CUPOLA_TEST_NVCC;
    ASSERT_FALSE(Ptx().empty()) << "nvcc failed";
    device_ = Device::Create({});
    auto module = device_->LoadPtx(Ptx(), "real_kernels.ptx");
    ASSERT_TRUE(module) << module.error().ToString();
    module_ = *module;
  }

  template <typename T>
  T* New(size_t count) {
    T* data = reinterpret_cast<T*>(device_->Allocate(count * sizeof(T)));
    std::memset(static_cast<void*>(data), 0, count * sizeof(T));
    return data;
  }

  template <typename... Args>
  void Launch(const char* name, Dim3 grid, Dim3 block, uint32_t shared, bool cooperative,
              Args... args) {
    GridLaunch launch;
    launch.module = module_;
    const auto& kernels = module_->kernels();
    const auto it = std::find_if(kernels.begin(), kernels.end(),
                                 [&](const KernelInfo& k) { return k.name == name; });
    ASSERT_NE(it, kernels.end()) << name;
    launch.kernel_index = static_cast<uint32_t>(it - kernels.begin());
    launch.grid = grid;
    launch.block = block;
    launch.dynamic_shared_bytes = shared;
    launch.cooperative = cooperative;
    launch.params.resize(it->param_bytes);
    size_t i = 0;
    (std::memcpy(launch.params.data() + it->params[i++].offset, &args, sizeof(args)), ...);
    const std::optional<Fault> fault = SubmitAndWait(*device_, std::move(launch));
    ASSERT_FALSE(fault) << fault->message;
  }

  std::unique_ptr<Device> device_;
  std::shared_ptr<LoadedModule> module_;
};

TEST_F(RealKernelTest, CubBlockScan) {
  int *in = New<int>(1024), *out = New<int>(1024);
  for (int i = 0; i < 1024; ++i) in[i] = i % 17 - 5;
  Launch("block_scan", {2}, {128}, 0, false, in, out);
  for (int b = 0; b < 2; ++b) {
    int sum = 0;
    for (int i = 0; i < 512; ++i)
      ASSERT_EQ(out[b * 512 + i], sum += in[b * 512 + i]) << b << " " << i;
  }
}

TEST_F(RealKernelTest, CubBlockRadixSort) {
  unsigned* data = New<unsigned>(1024);
  Prng prng(7);
  for (int i = 0; i < 1024; ++i) data[i] = static_cast<unsigned>(prng.Next());
  std::vector<unsigned> expected(data, data + 1024);
  Launch("block_sort", {2}, {128}, 0, false, data);
  std::sort(expected.begin(), expected.begin() + 512);
  std::sort(expected.begin() + 512, expected.end());
  for (int i = 0; i < 1024; ++i) ASSERT_EQ(data[i], expected[static_cast<size_t>(i)]) << i;
}

TEST_F(RealKernelTest, CubDecoupledLookback) {
  constexpr int kTiles = 60;
  int *in = New<int>(kTiles * 128), *out = New<int>(kTiles * 128);
  void* status = New<char>(1 << 20);
  for (int i = 0; i < kTiles * 128; ++i) in[i] = i * 7 % 11;
  Launch("lookback_init", {1}, {128}, 0, false, status, kTiles);
  Launch("lookback_scan", {kTiles}, {128}, 0, false, in, out, status, kTiles);
  int sum = 0;
  for (int i = 0; i < kTiles * 128; ++i) {
    ASSERT_EQ(out[i], sum) << i;
    sum += in[i];
  }
}

TEST_F(RealKernelTest, CooperativeTiles) {
  int* out = New<int>(192);
  Launch("tiles", {1}, {96}, 0, false, out);
  for (int i = 0; i < 96; ++i) {
    int sum = 0;
    for (int j = i / 8 * 8; j < i / 8 * 8 + 8; ++j) sum += j;
    EXPECT_EQ(out[i * 2], sum * 1000 + i / 8) << i;
    int most = 0, count = 0;
    for (int j = i / 32 * 32; j < i / 32 * 32 + 32; ++j) {
      if (j % 3 != 0) continue;
      most = j;
      ++count;
    }
    EXPECT_EQ(out[i * 2 + 1], i % 3 == 0 ? most * 100 + count : 0) << i;
  }
}

TEST_F(RealKernelTest, GridSync) {
  int *counter = New<int>(1), *out = New<int>(64);
  Launch("whole_grid", {12}, {64}, 0, true, counter, out);
  for (int b = 0; b < 12; ++b) {
    for (int r = 0; r < 3; ++r) ASSERT_EQ(out[b * 3 + r], 12 * 64 * (r + 1)) << b << " " << r;
  }
}

TEST_F(RealKernelTest, Halves) {
  float *in = New<float>(32), *out = New<float>(128);
  for (int i = 0; i < 32; ++i) in[i] = static_cast<float>(i) * 0.37f;
  Launch("halves", {1}, {32}, 0, false, in, out);
  for (int i = 0; i < 32; ++i) {
    const float x = in[i];
    EXPECT_NEAR(out[i * 4], x * x + 0.25f, 2e-3f * (x * x + 1)) << i;
    EXPECT_NEAR(out[i * 4 + 1], std::sqrt(x), 2e-3f) << i;
    EXPECT_NEAR(out[i * 4 + 2], x * 1.5f, 1e-2f * (x + 1)) << i;
    const float larger = std::max(x, x * x + 0.25f);
    EXPECT_NEAR(out[i * 4 + 3], in[i] > in[(i + 1) % 32] ? 1.0f : larger, 2e-3f * (larger + 1))
        << i;
  }
}

TEST_F(RealKernelTest, MathLibrary) {
  double *in = New<double>(32), *out = New<double>(320);
  for (int i = 0; i < 32; ++i) in[i] = 0.05 + i * 0.31;
  Launch("math", {1}, {32}, 0, false, in, out);
  for (int i = 0; i < 32; ++i) {
    const double x = in[i];
    const float f = static_cast<float>(x);
    const double expected[10] = {std::sin(x),      std::exp(x), std::log(x),
                                 std::pow(x, 1.7), std::erf(x), std::sqrt(x) / (x + 1),
                                 std::sin(f),      std::exp(f), std::pow(f, 1.7f),
                                 std::tanh(f)};
    for (int k = 0; k < 10; ++k) {
      const double tolerance = (k < 6 ? 1e-14 : 1e-6) * std::max(1.0, std::fabs(expected[k]));
      EXPECT_NEAR(out[i * 10 + k], expected[k], tolerance) << i << " " << k;
    }
  }
}

TEST_F(RealKernelTest, VirtualFunctions) {
  int* out = New<int>(64);
  Launch("shapes", {1}, {64}, 0, false, out);
  for (int i = 0; i < 64; ++i) {
    const int x = i % 7;
    EXPECT_EQ(out[i], i / 3 % 2 == 0 ? x * x : x * (x + 1) / 2 + 1) << i;
  }
}

/// Small integers as f16 bits, which multiply exactly.
uint16_t HalfOfInteger(int value) {
  if (value == 0) return 0;
  const int exponent = static_cast<int>(std::log2(value));
  return static_cast<uint16_t>((exponent + 15) << 10 | (value - (1 << exponent))
                                                           << (10 - exponent));
}

TEST_F(RealKernelTest, TensorCores) {
  uint16_t *a = New<uint16_t>(256), *b = New<uint16_t>(256);
  float* c = New<float>(256);
  for (int i = 0; i < 256; ++i) {
    a[i] = HalfOfInteger(i % 7);
    b[i] = HalfOfInteger(i * 3 % 5);
  }
  Launch("tensor", {1}, {32}, 0, false, a, b, c);
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 16; ++column) {
      int sum = 1;
      for (int k = 0; k < 16; ++k) sum += ((row * 16 + k) % 7) * ((column * 16 + k) * 3 % 5);
      EXPECT_EQ(c[row * 16 + column], static_cast<float>(sum)) << row << " " << column;
    }
  }
}

TEST_F(RealKernelTest, AsynchronousCopy) {
  float *in = New<float>(256), *out = New<float>(256);
  for (int i = 0; i < 256; ++i) in[i] = static_cast<float>(i);
  Launch("async_copy", {1}, {64}, 1024, false, in, out);
  for (int i = 0; i < 256; ++i) EXPECT_EQ(out[i], in[(63 - i / 4) * 4 + i % 4]) << i;
}

TEST_F(RealKernelTest, Printf) {
  testing::internal::CaptureStdout();
  Launch("talk", {1}, {32}, 0, false, 9);
  device_->FlushPrintf();
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "0 of 9: text  1.50 c 123456789abc %\n1 of 9: text  2.50 c 123456789abc %\n");
}

}  // namespace
}  // namespace cupola::sim
