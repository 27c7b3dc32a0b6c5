// Tables of the Data Encryption Standard (FIPS 46-3), and what a fast DES wants of them: the S
// boxes with the permutation P behind them, and round keys as two words. Plain host code.
#pragma once

#include <cstdint>

namespace pagoda {

inline constexpr unsigned kDesRounds = 16;

/// Two words a round: the six bits for S boxes 1, 3, 5, 7 (2, 4, 6, 8) from bits 26, 18, 10, 2 on.
struct DesRoundKey {
  uint32_t odd, even;
};

/// [box][six bits in]: four bits out, where P puts them.
void FillDesBoxes(uint32_t boxes[8][64]);

/// In the order of encryption.
void ExpandDesKey(uint64_t key, DesRoundKey keys[kDesRounds]);

}  // namespace pagoda
