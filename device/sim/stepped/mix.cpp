#include "device/sim/stepped/mix.h"

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace cupola::sim {
namespace {

constexpr uint64_t kStep = 0x9E3779B97F4A7C15, kTailKey = 0x452821E638D01377;

// Mixes the bytes that form whole pieces into the hash, and returns their number. Each word adds
// itself and the product of its halves, after an XOR with a key that depends on its place, as in
// XXH3. The first keys are digits of pi, because with keys that are related to the step, the
// changes of two words can cancel out. A piece of zeros, as most registers are, adds nothing.
__attribute__((target("avx2"), no_sanitize("address", "undefined"))) size_t MixPieces(
    uint64_t* hash, const uint8_t* bytes, size_t count, const std::vector<uint64_t>* written) {
  constexpr size_t kVectors = 4, kPiece = kVectors * sizeof(__m256i);
  static_assert(kPiece == kMixPiece);
  const __m256i step = _mm256_set1_epi64x(static_cast<long long>(kStep));
  const __m256i first_key = _mm256_set_epi64x(0x243F6A8885A308D3, 0x13198A2E03707344, 0x64093822299F31D0,
                                              0x082EFA98EC4E6C89);
  __m256i sums[kVectors] = {first_key, first_key, first_key, first_key};
  const size_t pieces = count / kPiece;
  for (size_t group = 0; group * 64 < pieces; ++group) {
    const size_t in_group = std::min<size_t>(pieces - group * 64, 64);
    uint64_t left = in_group == 64 ? ~0ull : (1ull << in_group) - 1;
    if (written != nullptr) left &= group < written->size() ? (*written)[group] : 0;
    for (; left != 0; left &= left - 1) {
      const size_t piece = group * 64 + static_cast<size_t>(std::countr_zero(left));
      const auto* const from = reinterpret_cast<const __m256i*>(bytes + piece * kPiece);
      const __m256i any = _mm256_or_si256(
          _mm256_or_si256(_mm256_loadu_si256(from), _mm256_loadu_si256(from + 1)),
          _mm256_or_si256(_mm256_loadu_si256(from + 2), _mm256_loadu_si256(from + 3)));
      if (_mm256_testz_si256(any, any) != 0) continue;
      __m256i key = _mm256_add_epi64(first_key, _mm256_set1_epi64x(static_cast<long long>(piece * kVectors * kStep)));
#pragma GCC unroll 4
      for (size_t i = 0; i < kVectors; ++i) {
        const __m256i words = _mm256_loadu_si256(from + i), keyed = _mm256_xor_si256(words, key);
        const __m256i products = _mm256_mul_epu32(keyed, _mm256_srli_epi64(keyed, 32));
        sums[i] = _mm256_add_epi64(sums[i], _mm256_add_epi64(words, products));
        key = _mm256_add_epi64(key, step);
      }
    }
  }
  uint64_t words[kPiece / sizeof(uint64_t)];
  std::memcpy(words, sums, sizeof words);
  for (const uint64_t word : words) *hash = MixInto(*hash, word);
  return pieces * kPiece;
}

}  // namespace

// Called at every backward jump, for the registers of a warp: 100 KB and more. It is compiled
// without sanitizers, which could find nothing in these bytes.
__attribute__((no_sanitize("address", "undefined"))) uint64_t MixBytes(
    uint64_t hash, const uint8_t* bytes, size_t count, const std::vector<uint64_t>* written) {
  size_t at = __builtin_cpu_supports("avx2") ? MixPieces(&hash, bytes, count, written) : 0;
  uint64_t sum = count, key = kTailKey;
  for (; at < count; at += sizeof(uint64_t), key += kStep) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + at, count - at < sizeof word ? count - at : sizeof word);
    const uint64_t keyed = word ^ key;
    sum += word + (keyed & UINT32_MAX) * (keyed >> 32);
  }
  return MixInto(hash, sum);
}

}  // namespace cupola::sim
