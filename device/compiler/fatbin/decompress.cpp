#include "device/compiler/fatbin/decompress.h"

#include <lz4.h>
#include <zstd.h>

#include <climits>
#include <new>

namespace cupola::fatbin {
namespace {

// The most bytes that the formats can make of one compressed byte: an LZ4 length byte stands for at
// most 255 bytes, a ZSTD block of four bytes for at most 128 KiB. A larger claim is damage, and is
// found before memory is allocated.
constexpr uint64_t kMaxLz4Ratio = 255;
constexpr uint64_t kMaxZstdRatio = (uint64_t{128} << 10) / 4;
// The decompressed bytes by which a claim may exceed that: one ZSTD block.
constexpr uint64_t kRatioSlack = uint64_t{128} << 10;

// Both decoders return whether the data decodes to exactly `size` bytes.
bool DecodeLz4(Bytes in, uint8_t* out, uint64_t size) {
  if (in.size() > INT_MAX || size > INT_MAX) return false;
  const int decoded =
      LZ4_decompress_safe(reinterpret_cast<const char*>(in.data()), reinterpret_cast<char*>(out),
                          static_cast<int>(in.size()), static_cast<int>(size));
  return decoded >= 0 && static_cast<uint64_t>(decoded) == size;
}

// A ZSTD frame usually says how much it holds, so a false claim is found before memory is
// allocated.
bool ZstdClaimHolds(Bytes in, uint64_t size) {
  const unsigned long long held = ZSTD_getFrameContentSize(in.data(), in.size());
  return held == ZSTD_CONTENTSIZE_UNKNOWN || held == size;
}

bool DecodeZstd(Bytes in, uint8_t* out, uint64_t size) {
  const size_t decoded = ZSTD_decompress(out, static_cast<size_t>(size), in.data(), in.size());
  return ZSTD_isError(decoded) == 0 && decoded == size;
}

}  // namespace

const char* ToString(Compression compression) {
  switch (compression) {
    case Compression::kStored:
      return "stored";
    case Compression::kLz4:
      return "lz4";
    case Compression::kZstd:
      return "zstd";
    case Compression::kUnknown:
      return "unknown";
  }
  return "unknown";
}

Result<ImageBytes> Decompress(Compression compression, Bytes compressed,
                              uint64_t uncompressed_size) {
  if (compression == Compression::kStored) return ImageBytes(compressed);
  if (compression == Compression::kUnknown) {
    return MakeError(ErrorCode::kUnsupported, "the image is compressed in an unknown way");
  }
  if (uncompressed_size > kMaxImageBytes) {
    return MakeError(ErrorCode::kExhausted, "the image claims to decompress to " +
                                                std::to_string(uncompressed_size) +
                                                " bytes, more than the limit of 1 GiB");
  }
  const bool lz4 = compression == Compression::kLz4;
  const uint64_t ratio = lz4 ? kMaxLz4Ratio : kMaxZstdRatio;
  const std::string name = ToString(compression);
  if (uncompressed_size / ratio > compressed.size() + kRatioSlack / ratio) {
    return MakeError(ErrorCode::kDamaged, "the image claims to decompress from " +
                                              std::to_string(compressed.size()) + " to " +
                                              std::to_string(uncompressed_size) + " bytes, which " +
                                              name + " cannot");
  }
  const Error undecodable =
      MakeError(ErrorCode::kDamaged, "the " + name + " data of the image does not decode to " +
                                         std::to_string(uncompressed_size) + " bytes");
  if (!lz4 && !ZstdClaimHolds(compressed, uncompressed_size)) return undecodable;
  // One byte more, so that an image of no bytes has an address too.
  std::unique_ptr<uint8_t[]> out(new (std::nothrow) uint8_t[uncompressed_size + 1]);
  if (!out) return MakeError(ErrorCode::kExhausted, "no memory to decompress the image");
  const bool decoded = lz4 ? DecodeLz4(compressed, out.get(), uncompressed_size)
                           : DecodeZstd(compressed, out.get(), uncompressed_size);
  if (!decoded) return undecodable;
  return ImageBytes(std::move(out), static_cast<size_t>(uncompressed_size));
}

}  // namespace cupola::fatbin
