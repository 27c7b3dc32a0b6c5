// Changes the registers of fused multiply-adds in machine code, for tests that need certain ones, since
// ptxas chooses registers as it likes.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

namespace cupola::build {

/// Has every FFMA of `cubin` that reads only registers read a, b and c. Returns how many there are.
inline int SetMultiplyAddRegisters(std::vector<uint8_t>& cubin, uint64_t a, uint64_t b,
                                   uint64_t c) {
  constexpr uint64_t kFfmaOfRegisters = 0x223;
  int found = 0;
  for (size_t at = 0; at + 16 <= cubin.size(); at += 16) {
    uint64_t low = 0, high = 0;
    std::memcpy(&low, &cubin[at], 8);
    std::memcpy(&high, &cubin[at + 8], 8);
    if ((low & 0xFFF) != kFfmaOfRegisters) continue;
    low = (low & ~(uint64_t{0xFFFF} << 24)) | a << 24 | b << 32;
    high = (high & ~uint64_t{0xFF}) | c;
    std::memcpy(&cubin[at], &low, 8);
    std::memcpy(&cubin[at + 8], &high, 8);
    ++found;
  }
  return found;
}

}  // namespace cupola::build
