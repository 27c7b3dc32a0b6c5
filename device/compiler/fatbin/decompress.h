// The compressions of fatbin entries: LZ4 block, ZSTD frame, stored. Pure; any thread.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "device/compiler/fatbin/bytes.h"

namespace cupola::fatbin {

enum class Compression : uint8_t {
  kStored,
  kLz4,      ///< one LZ4 block, without the LZ4 frame format around it
  kZstd,     ///< one ZSTD frame
  kUnknown,  ///< the entry says that it is compressed, but not how
};

/// The lower-case word for a compression ("stored", "lz4", "zstd", "unknown").
const char* ToString(Compression compression);

/// Bytes that are either borrowed (a stored image: no copy) or owned (decompressed). Movable. A
/// borrowed one must not outlive the bytes from which it was read.
class ImageBytes {
 public:
  ImageBytes() = default;
  explicit ImageBytes(Bytes borrowed) : view_(borrowed) {}
  ImageBytes(std::unique_ptr<uint8_t[]> owned, size_t size)
      : owned_(std::move(owned)), view_(owned_.get(), size) {}

  Bytes bytes() const { return view_; }
  std::string_view text() const { return AsText(view_); }
  size_t size() const { return view_.size(); }

  /// Drops NULs at the end, with which PTX is padded in a container.
  void DropTrailingNuls() {
    while (!view_.empty() && view_.back() == 0) view_ = view_.first(view_.size() - 1);
  }

 private:
  std::unique_ptr<uint8_t[]> owned_;
  Bytes view_;
};

/// No image decompresses to more than this.
inline constexpr uint64_t kMaxImageBytes = uint64_t{1} << 30;

/// `compressed` as `uncompressed_size` bytes; kStored borrows. Errors, without location: kDamaged
/// where the data does not decode to exactly that size, or where the format cannot reach that size
/// from so few bytes; kUnsupported for kUnknown; kExhausted above kMaxImageBytes or where memory is
/// short.
Result<ImageBytes> Decompress(Compression compression, Bytes compressed,
                              uint64_t uncompressed_size);

}  // namespace cupola::fatbin
