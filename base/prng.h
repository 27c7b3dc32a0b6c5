// Prng: the one source of randomness in tests and simulation. The same seed gives the same numbers
// on every machine. Each test, each chooser of the stepped device and each cross-validation of
// models makes one of its own; one thread at a time. It is SplitMix64 (Steele, Lea, Flood,
// OOPSLA'14), which is not for cryptography.
#pragma once

#include <cstdint>

namespace cupola {

class Prng {
 public:
  explicit constexpr Prng(uint64_t seed) : state_(seed) {}

  /// The next 64 random bits.
  constexpr uint64_t Next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }

  /// Uniform in [0, bound). `bound` must not be 0.
  constexpr uint64_t Below(uint64_t bound) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(Next()) * bound) >> 64);
  }

  /// Uniform in [low, high), one of 2^53 evenly spaced values.
  constexpr double Uniform(double low, double high) {
    return low + (high - low) * (static_cast<double>(Next() >> 11) * 0x1p-53);
  }

 private:
  uint64_t state_;
};

}  // namespace cupola
