// Chooses which images of a file are built: for each container (or bare PTX) the PTX that a device
// would compile, the code that it would run, and the bytes that identify the whole in the store.
// Any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "device/compiler/fatbin/elf_images.h"
#include "device/compiler/store/sha256.h"

namespace cupola::build {

/// One container, or a bare PTX file. Borrows from the file.
struct ImageChoice {
  uint64_t offset = 0;  ///< in bytes from the start of the file
  std::string section;
  std::span<const std::byte> identity;   ///< the bytes that identify it in the store
  store::Digest digest{};                ///< of `identity`
  const fatbin::Image* ptx = nullptr;    ///< null where `refusal` says why
  const fatbin::Image* cubin = nullptr;  ///< the program's own code for the device; may be null
  std::string refusal;                   ///< why nothing can be built from it; "": it can
  std::vector<std::string> kernels_without_ptx;  ///< mangled names, where it is refused
};

/// The choices for a device of `arch` (90 for sm_90), in the order of the file. Containers without
/// any kernel are left out. `ptx_of_cubin`: where the file is a bare cubin, the PTX of which it was compiled, if that is
/// known; else null. The choice then has that PTX, and its identity is the cubin.
std::vector<ImageChoice> ChooseImages(const fatbin::ImageFile& file, uint32_t arch,
                                      const fatbin::ImageFile* ptx_of_cubin = nullptr);

/// The path of the PTX that lies beside a file, name.ptx beside name.cubin, as in the caches of Triton and torch.compile;
/// empty where there is none.
std::string PtxBeside(const std::string& path);

/// The PTX that lies beside `file`, which was read from `path`; null where there is none, or the file is no bare cubin.
/// Errors: as OpenImageFile.
Result<std::unique_ptr<fatbin::ImageFile>> OpenPtxBeside(const fatbin::ImageFile& file, const std::string& path);

/// The bytes for which hex digits stand; empty for any other text.
std::vector<uint8_t> BytesOfHex(std::string_view hex);

}  // namespace cupola::build
