#include "device/compiler/build/occupancy.h"

#include <gtest/gtest.h>

namespace cupola::build {
namespace {

uint32_t Blocks(uint32_t threads, uint32_t registers, uint64_t shared, uint32_t arch = 90) {
  return OccupancyOf({threads, registers, shared}, arch).blocks;
}

// CUDA C++ Programming Guide 13.0, "Technical Specifications per Compute Capability": 64 warps, 32
// blocks, 65,536 registers, 228 KB of shared memory of which each block takes 1 KB more.
TEST(Occupancy, EachLimitOfAnSm) {
  EXPECT_EQ(Blocks(256, 16, 0), 8u);  // warps
  EXPECT_EQ(Blocks(32, 16, 0), 32u);  // blocks
  EXPECT_EQ(Blocks(256, 32, 0), 8u);  // registers just fit
  EXPECT_EQ(Blocks(256, 33, 0), 6u);  // one more, rounded up to 40 a thread
  EXPECT_EQ(Blocks(256, 40, 0), 6u);
  EXPECT_EQ(Blocks(256, 255, 0), 1u);
  EXPECT_EQ(Blocks(1024, 64, 0), 1u);
  EXPECT_EQ(Blocks(1024, 65, 0), 0u);  // cannot be launched
  EXPECT_EQ(Blocks(128, 16, 48 << 10), 4u);
  EXPECT_EQ(Blocks(128, 16, 227 << 10), 1u);
  EXPECT_EQ(Blocks(128, 16, 228 << 10), 0u);
  EXPECT_EQ(Blocks(1, 16, 0), 32u);  // a part of a warp is a warp
  EXPECT_EQ(Blocks(0, 16, 0), 32u);
}

TEST(Occupancy, OtherArchitectures) {
  EXPECT_EQ(Blocks(256, 16, 0, 75), 4u);
  EXPECT_EQ(Blocks(256, 16, 0, 86), 6u);
  EXPECT_EQ(Blocks(32, 16, 0, 86), 16u);
  EXPECT_EQ(Blocks(256, 16, 0, 999), 8u);
}

TEST(Occupancy, Fraction) {
  EXPECT_DOUBLE_EQ(OccupancyOf({256, 33, 0}, 90).fraction(), 0.75);
  EXPECT_DOUBLE_EQ(OccupancyOf({256, 33, 0}, 90).warps, 48);
}

TEST(Occupancy, RegistersForBlocks) {
  EXPECT_EQ(RegistersForBlocks({256, 40, 0}, 8, 90), 32u);
  EXPECT_EQ(RegistersForBlocks({256, 40, 0}, 6, 90), 40u);
  EXPECT_EQ(RegistersForBlocks({256, 40, 0}, 1, 90), 248u);
  // No number of registers makes room for shared memory.
  EXPECT_EQ(RegistersForBlocks({256, 40, 200 << 10}, 2, 90), 8u);
  for (uint32_t threads = 32; threads <= 1024; threads += 32) {
    for (uint32_t blocks = 1; blocks <= 2048 / threads && blocks <= 32; ++blocks) {
      const uint32_t registers = RegistersForBlocks({threads, 255, 0}, blocks, 90);
      EXPECT_GE(Blocks(threads, registers, 0), blocks) << threads;
      if (registers < 248) {
        EXPECT_LT(Blocks(threads, registers + 8, 0), blocks) << threads;
      }
    }
  }
}

std::optional<uint32_t> Bound(uint32_t original, uint32_t variant, uint64_t variant_shared = 0) {
  return RegisterBound({256, original, 0}, {256, variant, variant_shared}, 90);
}

TEST(Occupancy, AVariantIsBoundWhereFewerOfItsBlocksFit) {
  EXPECT_EQ(Bound(32, 40), 32u);            // 8 blocks of the original, 6 of the variant
  EXPECT_EQ(Bound(27, 33), 32u);            // not to 27: a thread gets registers in steps of 8
  EXPECT_EQ(Bound(33, 48), 40u);            // 6 blocks and 5
  EXPECT_EQ(Bound(33, 40), std::nullopt);   // 6 blocks of both
  EXPECT_EQ(Bound(40, 40), std::nullopt);   // the variant has no more registers
  EXPECT_EQ(Bound(48, 40), std::nullopt);
  // Shared memory alone lets fewer blocks fit, so the bound is the original's step.
  EXPECT_EQ(Bound(32, 40, 100 << 10), 32u);
  EXPECT_EQ(Bound(32, 32, 100 << 10), std::nullopt);
  EXPECT_EQ(Bound(25, 31, 100 << 10), std::nullopt);  // the variant is within that step
  // One block of either fits: 248 registers, the most of which a bound is made, would gain nothing.
  EXPECT_EQ(RegisterBound({256, 40, 200 << 10}, {256, 255, 0}, 90), std::nullopt);
}

}  // namespace
}  // namespace cupola::build
