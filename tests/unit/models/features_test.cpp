#include "models/features.h"

#include <gtest/gtest.h>

namespace cupola::models {
namespace {

// An H200: CUDA C Programming Guide, compute capability 9.0.
constexpr Machine kH200{132, 2048, 32, 65536, 228 * 1024, 0};

LaunchFeatures Launch(uint32_t blocks, uint32_t threads, uint32_t shared = 0) {
  LaunchFeatures launch;
  launch.grid[0] = blocks;
  launch.block[0] = threads;
  launch.dynamic_shared = shared;
  return launch;
}

TEST(Features, BlocksPerSmIsWhatTheOccupancyCalculatorSays) {
  EXPECT_EQ(BlocksPerSm(kH200, {32, 0}, Launch(1, 256)), 8u);     // threads
  EXPECT_EQ(BlocksPerSm(kH200, {16, 0}, Launch(1, 32)), 32u);     // blocks
  EXPECT_EQ(BlocksPerSm(kH200, {64, 0}, Launch(1, 256)), 4u);     // registers
  EXPECT_EQ(BlocksPerSm(kH200, {40, 0}, Launch(1, 256)), 6u);     // 40 * 32 = 1280 a warp
  EXPECT_EQ(BlocksPerSm(kH200, {32, 16384}, Launch(1, 128, 32768)), 4u);  // 49 KB each of 228
  EXPECT_EQ(BlocksPerSm(kH200, {255, 0}, Launch(1, 1024)), 1u);   // cannot run: still 1
  EXPECT_EQ(BlocksPerSm({}, {}, Launch(1, 256)), 1u);
  EXPECT_EQ(BlocksPerSm(kH200, {1u << 27, 0}, Launch(1, 256)), 1u);  // a plan that says nonsense: times 32 it is 0
}

TEST(Features, WavesRoundUp) {
  double v[kVariables];
  MakeVariables(kH200, {32, 0}, Launch(132 * 8, 256), v);
  EXPECT_EQ(v[kWaves], 1);
  MakeVariables(kH200, {32, 0}, Launch(132 * 8 + 1, 256, 100), v);
  EXPECT_EQ(v[kWaves], 2);
  EXPECT_EQ(v[kBlocks], 1057);
  EXPECT_EQ(v[kThreads], 1057 * 256);
  EXPECT_EQ(v[kBlockThreads], 256);
  EXPECT_EQ(v[kShared], 100);
}

TEST(Features, AConfigurationIsGridBlockSharedAndIntegers) {
  const LaunchFeatures one = Launch(10, 256, 16);
  LaunchFeatures other = one;
  other.input_bytes = 5;
  other.integers[2] = 7;
  EXPECT_EQ(ConfigurationOf(one, 2), ConfigurationOf(other, 2));
  EXPECT_NE(ConfigurationOf(one, 3), ConfigurationOf(other, 3));
  other = one;
  other.grid[1] = 10;
  other.grid[0] = 1;
  EXPECT_NE(ConfigurationOf(one, 2), ConfigurationOf(other, 2));
  other = one;
  other.dynamic_shared = 17;
  EXPECT_NE(ConfigurationOf(one, 2), ConfigurationOf(other, 2));
}

}  // namespace
}  // namespace cupola::models
