// Reads device images in memory, as a program hands them to the driver: cuLibraryLoadData,
// cuModuleLoadData, cuModuleLoadFatBinary, __cudaRegisterFatBinary. The pointer comes without a
// size, so sizes are taken from the headers, as the driver does. Pure; any thread; does not
// synchronise.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "device/compiler/fatbin/container.h"

namespace cupola::fatbin {

inline constexpr uint32_t kWrapperMagic = 0x466243B1;  ///< fatbinary_section.h: FATBINC_MAGIC

/// The form of the data behind a pointer.
enum class LoadedForm : uint8_t {
  kWrapper,        ///< __fatBinC_Wrapper_t, version 1: one container
  kLinkedWrapper,  ///< version 2, from device linking: the linked container, then its units
  kContainer,      ///< a fatbin container itself
  kCubin,          ///< a bare ELF
  kPtxText,        ///< NUL-terminated PTX
};

/// The images behind such a pointer. Everything is borrowed from the program's memory.
struct LoadedImage {
  LoadedForm form = LoadedForm::kContainer;
  Bytes bytes;              ///< the (first) container, ELF or text, without the text's NUL
  uint32_t containers = 0;  ///< number of containers that were read; 0 for bare images
  /// All images in order; Image::container says which container. kLinkedWrapper: container 0 is
  /// the result of device linking (cubins only) and 1, 2, ... are the -rdc units (relocatable),
  /// whose PTX must be linked together. Bare images have container 0 and Image::offset 0.
  std::vector<Image> images;
};

/// Reads what `image` points to. The memory must stay until the result is gone; like the driver,
/// the function trusts the sizes in the headers. Errors: kInvalidArgument for null, kDamaged for
/// anything that is none of LoadedForm or breaks its format.
Result<LoadedImage> ReadLoadedImage(const void* image);

/// The index of the PTX that a device of `sm` (90 for compute capability 9.0) would compile, among
/// images of one container: the PTX of the highest architecture that is not above the device's. For
/// the device's own architecture an 'a' or 'f' form goes before the plain one; an 'a' form of
/// another architecture never fits, an 'f' form only within its family. std::nullopt when no PTX
/// fits.
std::optional<size_t> BestPtx(std::span<const Image> images, uint32_t sm = 90);

/// The size in bytes of the ELF file whose header is at `start`: the end of whatever lies last in
/// it. 0 when it is not a 64-bit little-endian ELF.
uint64_t ElfSize(const void* start);

}  // namespace cupola::fatbin
