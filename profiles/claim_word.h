// The claim word: how the workers of a preemptible variant claim blocks, in one word. Launches, records, profiles and
// plans all hold it in this form; plain functions on it, any thread. It says:
// - L, the number of blocks that a claim takes (FLEP section 4.1, the amortizing factor).
// - Whether the blocks of a claim lie next to each other in the grid, so that the blocks of one worker meet in its L1
//   cache. Otherwise claims interleave (runtime::ClaimShape), which suits kernels whose neighbouring blocks meet in the
//   L2 cache.
// - How many workers there are. All that fit; or some eighths of them, for kernels that fewer workers keep as busy and
//   that stop sooner for it; or one worker less on each SM, for kernels that gather through the L1 cache: then the
//   shared memory that the workers need leaves as much L1 cache as the program's kernel has.
#pragma once

#include <cstdint>

namespace cupola::profiles {

inline constexpr uint32_t kClaimsInGridOrder = 1u << 31;
inline constexpr uint32_t kOneWorkerLess = 1u << 30;
inline constexpr uint32_t kAllEighths = 8;
inline constexpr uint32_t kEighthsShift = 27;  ///< three bits: 1 to 7 eighths; 0 = all workers
inline constexpr uint32_t kMostClaimBatch = (1u << kEighthsShift) - 1;

/// The bits of a claim word that stand for `eighths` of all workers, 1 to 8.
constexpr uint32_t WorkerEighths(uint32_t eighths) {
  return eighths % kAllEighths << kEighthsShift;
}

/// L of a claim word; 0 = the launch is no variant.
constexpr uint32_t ClaimBatch(uint32_t word) { return word & kMostClaimBatch; }
constexpr bool IsInGridOrder(uint32_t word) { return (word & kClaimsInGridOrder) != 0; }
constexpr bool HasOneWorkerLess(uint32_t word) { return (word & kOneWorkerLess) != 0; }
/// The number of eighths of all workers, 1 to 8.
constexpr uint32_t EighthsOf(uint32_t word) {
  const uint32_t eighths = word >> kEighthsShift & (kAllEighths - 1);
  return eighths == 0 ? kAllEighths : eighths;
}
/// The number of workers on each SM where `resident` workers fit; at least 1.
constexpr uint32_t WorkersOnSm(uint32_t word, uint32_t resident) {
  const uint32_t some = resident * EighthsOf(word) / kAllEighths;
  return some == 0 ? 1 : some;
}

/// Orders claim words by how soon their launches stop: by L, then by fewer workers, then interleaved claims before
/// claims in grid order; one worker less comes last among equals.
struct ClaimLess {
  constexpr bool operator()(uint32_t a, uint32_t b) const {
    if (ClaimBatch(a) != ClaimBatch(b)) return ClaimBatch(a) < ClaimBatch(b);
    if (EighthsOf(a) != EighthsOf(b)) return EighthsOf(a) < EighthsOf(b);
    return a < b;
  }
};

}  // namespace cupola::profiles
