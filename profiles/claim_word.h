// How the workers of a preemptible variant claim blocks, in one word, as launches, records, profiles and
// plans have it: L, the blocks that a claim takes (FLEP 4.1, the amortizing factor), and whether these lie
// next to each other in the grid. Else claims interleave (runtime::ClaimShape), which suits kernels
// whose neighbouring blocks meet in the L2 cache; next to each other, blocks of one worker meet in its L1.
// And whether there is a worker less on each SM, so that what shared memory the workers need leaves as
// much L1 cache as the program's kernel has: for those that gather through it.
#pragma once

#include <cstdint>

namespace cupola::profiles {

inline constexpr uint32_t kClaimsInGridOrder = 1u << 31;
inline constexpr uint32_t kOneWorkerLess = 1u << 30;

/// L of a word; 0 = the launch is no variant.
constexpr uint32_t ClaimBatch(uint32_t word) {
  return word & ~(kClaimsInGridOrder | kOneWorkerLess);
}
constexpr bool IsInGridOrder(uint32_t word) { return (word & kClaimsInGridOrder) != 0; }
constexpr bool HasOneWorkerLess(uint32_t word) { return (word & kOneWorkerLess) != 0; }

/// By L, interleaved and of all workers first.
struct ClaimLess {
  constexpr bool operator()(uint32_t a, uint32_t b) const {
    return ClaimBatch(a) != ClaimBatch(b) ? ClaimBatch(a) < ClaimBatch(b) : a < b;
  }
};

}  // namespace cupola::profiles
