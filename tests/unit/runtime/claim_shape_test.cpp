// ClaimShape: how the blocks of a launch are shared out, for shapes of many sizes.
#include <gtest/gtest.h>

#include <vector>

#include "base/prng.h"
#include "device/runtime/preempt_control.h"

namespace cupola::runtime {
namespace {

// The block that number n of the claims stands for, as the workers compute it.
uint32_t BlockOf(uint32_t n, const ClaimShape& shape) {
  if (n >= shape.full_until) return n;
  const uint32_t claim = n / shape.batch, chunk = claim / shape.stride;
  return chunk * shape.batch * shape.stride + claim % shape.stride + n % shape.batch * shape.stride;
}

TEST(ClaimShape, EveryBlockBelongsToOneClaim) {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    Prng random(seed);
    const auto total = static_cast<uint32_t>(random.Below(20'000));
    const auto workers = static_cast<uint32_t>(random.Below(200));
    const auto batch = static_cast<uint32_t>(random.Below(70));
    const bool is_row = random.Below(2) == 0;
    const ClaimShape shape = ShapeClaims(total, workers, batch, is_row);
    ASSERT_GE(shape.batch, 1u) << "seed " << seed;
    ASSERT_LE(shape.batch, std::max(batch, 1u)) << "seed " << seed;
    ASSERT_EQ(shape.full_until % (shape.batch * shape.stride), 0u) << "seed " << seed;
    ASSERT_LE(shape.full_until, total) << "seed " << seed;
    std::vector<int> claimed(total);
    for (uint32_t n = 0; n < total; ++n) ++claimed[BlockOf(n, shape)];
    for (const int times : claimed) ASSERT_EQ(times, 1) << "seed " << seed;
  }
}

TEST(ClaimShape, WorkersAreAtNeighbouringBlocks) {
  const ClaimShape shape = ShapeClaims(150'000, 1056, 16, true);
  ASSERT_EQ(shape.batch, 16u);
  EXPECT_EQ(shape.stride, 1056u);
  for (uint32_t step = 0; step < shape.batch; ++step) {
    for (uint32_t worker = 0; worker < 1056; ++worker) {
      EXPECT_EQ(BlockOf(worker * shape.batch + step, shape), step * 1056 + worker);
    }
  }
  // In grids of several dimensions x counts up.
  EXPECT_EQ(ShapeClaims(150'000, 1056, 16, false).stride, 1u);
}

// Every worker may claim one more batch before it sees that batches have ended; single blocks are
// left for all of them even then.
TEST(ClaimShape, SingleBlocksAreLeftForTheEnd) {
  for (const uint32_t batch : {2u, 4u, 16u, 64u}) {
    for (const uint32_t total : {20'000u, 150'000u, 1'500'001u, 0x80000000u}) {
      const ClaimShape shape = ShapeClaims(total, 1056, batch, true);
      if (shape.batch == 1) continue;
      EXPECT_GE(total - shape.full_until, 3 * shape.batch * 1056) << total << " by " << batch;
      EXPECT_GE(shape.full_until, total / 4) << total << " by " << batch;
    }
  }
  // Few rounds are claimed one by one.
  EXPECT_EQ(ShapeClaims(1056 * 11, 1056, 16, true).batch, 1u);
}

}  // namespace
}  // namespace cupola::runtime
