// Reads device images from fatbin containers. docs/formats.md describes the layout.
// Image::Contents() decompresses an image; nothing is decompressed before. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "device/compiler/fatbin/bytes.h"
#include "device/compiler/fatbin/decompress.h"

namespace cupola::fatbin {

inline constexpr uint32_t kContainerMagic = 0xBA55ED50;
inline constexpr uint64_t kContainerHeaderBytes = 16;
inline constexpr uint64_t kEntryHeaderBytes = 64;

/// The kind of an image. Any other number may occur and is kept.
enum class ImageKind : uint16_t { kPtx = 1, kCubin = 2, kLtoIr = 8 };

/// "PTX", "cubin", "LTO-IR" or "kind N".
std::string ToString(ImageKind kind);

/// Bits of Image::flags with a known meaning.
enum ImageFlag : uint64_t {
  kFlag64Bit = 0x1,
  kFlagDebug = 0x2,
  kFlagLinuxHost = 0x10,
  kFlagWindowsHost = 0x40,
  kFlagLz4 = 0x2000,
  kFlagZstd = 0x8000,
  kFlagLtoIr = 0x10000,
  kFlagArchSpecific = 0x100000,    ///< sm_90a: runs on exactly that architecture
  kFlagFamilySpecific = 0x200000,  ///< sm_100f: runs on that family
};

/// One device image. The bytes, name and options borrow from the bytes that were read.
struct Image {
  ImageKind kind = ImageKind::kPtx;
  uint16_t entry_version = 0;  ///< of the entry header: 0x0101
  uint16_t major = 0;          ///< PTX: ISA version (9.0); cubin: 1.7 for CUDA 12, 1.8 for 13
  uint16_t minor = 0;
  uint32_t arch = 0;         ///< 75, 90, 100 ...; 0: not known (a bare image)
  char arch_suffix = 0;      ///< 'a', 'f' or 0
  uint64_t flags = 0;        ///< ImageFlag bits and unknown ones
  std::string_view name;     ///< source name (-g, -lineinfo), else empty
  std::string_view options;  ///< what its compiler must be told: "-O1  -maxrregcount=32 "
  Compression compression = Compression::kStored;
  Bytes payload;                   ///< as it lies in the file; without padding when compressed
  uint64_t uncompressed_size = 0;  ///< bytes; equals payload.size() when stored
  uint64_t offset = 0;       ///< of the payload, in bytes from the start of the file or container
  uint32_t container = 0;    ///< index of its container among those that were read
  bool relocatable = false;  ///< a -rdc unit: it works only when linked with its companions

  /// "sm_90a" for code, "compute_90a" for PTX and LTO-IR; "unknown" without an arch.
  std::string ArchName() const;

  /// The image's own bytes; for PTX without its trailing NULs. Stored images are borrowed. Each
  /// call decompresses again. Errors as Decompress(), and kUnsupported for packed LTO-IR, with
  /// `offset` as the location.
  Result<ImageBytes> Contents() const;
};

/// The result of reading one container.
struct ContainerReading {
  std::vector<Image> images;    ///< the good ones, in order, also where there is damage behind them
  std::optional<Error> damage;  ///< why reading stopped early
  uint64_t size = 0;            ///< bytes from the container's header to its end, as far as they
                                ///< are in the input
  uint64_t consumed = 0;        ///< bytes that were understood: `size` without damage; else up to
                                ///< the damaged image, where the next container may be looked for
};

/// Whether `bytes` begins with the magic of a container.
bool IsContainer(Bytes bytes);

/// Reads the container at the start of `bytes`, which may go on behind it. `offset`, the place of
/// `bytes` in their file, and the file's name serve error locations and Image::offset.
ContainerReading ReadContainer(Bytes bytes, uint64_t offset = 0, std::string_view file = {});

}  // namespace cupola::fatbin
