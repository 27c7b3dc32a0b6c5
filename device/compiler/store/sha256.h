// SHA-256 (FIPS 180-4) of bytes that come in pieces, for the names of images and bundles in the
// variant store. It is implemented here, since libcupola.so may depend on no library but libc. A
// value; one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace cupola::store {

using Digest = std::array<uint8_t, 32>;

class Sha256 {
 public:
  void Add(std::span<const std::byte> bytes);
  void Add(std::string_view text) { Add(std::as_bytes(std::span(text.data(), text.size()))); }
  /// The digest of all that was added. Call it once.
  Digest Finish();

 private:
  void Block(const uint8_t* block);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> pending_{};
  uint64_t bytes_ = 0;
};

/// The digest of a single piece.
Digest Sha256Of(std::span<const std::byte> bytes);

/// The bytes as lower-case hex, two digits each.
std::string HexOf(std::span<const uint8_t> bytes);

}  // namespace cupola::store
