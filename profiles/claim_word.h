// How the workers of a preemptible variant claim blocks, in one word, as launches, records, profiles and
// plans have it: L, the blocks that a claim takes (FLEP 4.1, the amortizing factor), and whether these lie
// next to each other in the grid. Else claims interleave (runtime::ClaimShape), which suits kernels
// whose neighbouring blocks meet in the L2 cache; next to each other, blocks of one worker meet in its L1.
// And how many workers there are: all that fit, or some eighths of them, for kernels that fewer keep as
// busy and that stop sooner for it; or one less on each SM, so that what shared memory the workers need
// leaves as much L1 cache as the program's kernel has: for those that gather through it.
#pragma once

#include <cstdint>

namespace cupola::profiles {

inline constexpr uint32_t kClaimsInGridOrder = 1u << 31;
inline constexpr uint32_t kOneWorkerLess = 1u << 30;
inline constexpr uint32_t kAllEighths = 8;
inline constexpr uint32_t kEighthsShift = 27;  ///< three bits: 1 to 7 eighths; 0 = all workers
inline constexpr uint32_t kMostClaimBatch = (1u << kEighthsShift) - 1;

/// The eighths of a word for `eighths` of all workers, 1 to 8.
constexpr uint32_t WorkerEighths(uint32_t eighths) {
  return eighths % kAllEighths << kEighthsShift;
}

/// L of a word; 0 = the launch is no variant.
constexpr uint32_t ClaimBatch(uint32_t word) { return word & kMostClaimBatch; }
constexpr bool IsInGridOrder(uint32_t word) { return (word & kClaimsInGridOrder) != 0; }
constexpr bool HasOneWorkerLess(uint32_t word) { return (word & kOneWorkerLess) != 0; }
/// How many eighths of the workers, 1 to 8.
constexpr uint32_t EighthsOf(uint32_t word) {
  const uint32_t eighths = word >> kEighthsShift & (kAllEighths - 1);
  return eighths == 0 ? kAllEighths : eighths;
}
/// Workers on each SM where `resident` fit, which is at least 1.
constexpr uint32_t WorkersOnSm(uint32_t word, uint32_t resident) {
  const uint32_t some = resident * EighthsOf(word) / kAllEighths;
  return some == 0 ? 1 : some;
}

/// By how soon they stop: by L, then the fewest workers, then interleaved first, one worker less last.
struct ClaimLess {
  constexpr bool operator()(uint32_t a, uint32_t b) const {
    if (ClaimBatch(a) != ClaimBatch(b)) return ClaimBatch(a) < ClaimBatch(b);
    if (EighthsOf(a) != EighthsOf(b)) return EighthsOf(a) < EighthsOf(b);
    return a < b;
  }
};

}  // namespace cupola::profiles
