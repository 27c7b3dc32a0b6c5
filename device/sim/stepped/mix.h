// Hashes of what a stepped run does and of the states that its warps are in: the same in every run
// on one machine, for no other use. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cupola::sim {

inline uint64_t MixInto(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15ull;
  return hash ^ hash >> 29;
}

/// Every bit of the bytes, and where it is, goes into it.
uint64_t MixBytes(uint64_t hash, const uint8_t* bytes, size_t count);

}  // namespace cupola::sim
