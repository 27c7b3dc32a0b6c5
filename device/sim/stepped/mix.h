// Hashes of the steps of a stepped run and of the states of its warps. They are the same in every
// run on one machine, and fit for no other use. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cupola::sim {

inline uint64_t MixInto(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15ull;
  return hash ^ hash >> 29;
}

constexpr size_t kMixPiece = 128;

/// Mixes the bytes into the hash. The result depends on every bit and on its place. If `written` is given it has a bit
/// for each kMixPiece of the bytes; where that is 0, or missing, there are only zeros, which need not be looked at.
uint64_t MixBytes(uint64_t hash, const uint8_t* bytes, size_t count, const std::vector<uint64_t>* written = nullptr);

}  // namespace cupola::sim
