#include "device/sim/stepped/mix.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "base/prng.h"

namespace cupola::sim {
namespace {

constexpr size_t kLengths[] = {1, 7, 64, 127, 128, 200, 1024, 1100};

std::vector<uint8_t> Bytes(size_t count, bool zero) {
  Prng random(count);
  std::vector<uint8_t> bytes(count);
  for (uint8_t& byte : bytes) byte = zero ? 0 : static_cast<uint8_t>(random.Below(256));
  return bytes;
}

// Of bytes at random and, as most registers are, zero.
TEST(MixBytes, EveryBitCounts) {
  for (const size_t count : kLengths) {
    for (const bool zero : {false, true}) {
      std::vector<uint8_t> bytes = Bytes(count, zero);
      std::set<uint64_t> hashes{MixBytes(1, bytes.data(), count)};
      for (size_t bit = 0; bit < 8 * count; ++bit) {
        const auto mask = static_cast<uint8_t>(1u << bit % 8);
        bytes[bit / 8] ^= mask;
        hashes.insert(MixBytes(1, bytes.data(), count));
        bytes[bit / 8] ^= mask;
      }
      EXPECT_EQ(hashes.size(), 8 * count + 1) << count << (zero ? " zeros" : " bytes");
    }
  }
}

TEST(MixBytes, ItCountsWhereAValueIs) {
  for (const size_t count : kLengths) {
    std::vector<uint8_t> bytes(count);
    std::set<uint64_t> hashes;
    for (size_t at = 0; at < count; ++at) {
      bytes[at] = 5;
      hashes.insert(MixBytes(1, bytes.data(), count));
      bytes[at] = 0;
    }
    EXPECT_EQ(hashes.size(), count);
  }
}

TEST(MixBytes, TheSameBytesElsewhereAreTheSame) {
  for (const size_t count : kLengths) {
    const std::vector<uint8_t> bytes = Bytes(count, false);
    std::vector<uint8_t> moved(count + 3);
    std::copy(bytes.begin(), bytes.end(), moved.begin() + 3);
    EXPECT_EQ(MixBytes(1, bytes.data(), count), MixBytes(1, moved.data() + 3, count));
    EXPECT_NE(MixBytes(1, bytes.data(), count), MixBytes(2, bytes.data(), count));
  }
}

TEST(MixBytes, WhatWasNotWrittenIsAsGoodAsZeros) {
  for (const size_t count : {size_t{100}, size_t{1024}, size_t{64 * kMixPiece}, size_t{70 * kMixPiece + 64}}) {
    std::vector<uint8_t> bytes = Bytes(count, true);
    std::vector<uint64_t> written((count / kMixPiece + 63) / 64);
    Prng random(count);
    for (int i = 0; i < 20; ++i) {
      const size_t at = random.Below(count);
      bytes[at] = static_cast<uint8_t>(1 + random.Below(255));
      if (at / kMixPiece / 64 < written.size()) written[at / kMixPiece / 64] |= uint64_t{1} << at / kMixPiece % 64;
      EXPECT_EQ(MixBytes(1, bytes.data(), count, &written), MixBytes(1, bytes.data(), count)) << count;
    }
    if (count < kMixPiece) continue;
    written.clear();
    EXPECT_NE(MixBytes(1, bytes.data(), count, &written), MixBytes(1, bytes.data(), count)) << count;
  }
}

}  // namespace
}  // namespace cupola::sim
