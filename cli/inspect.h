// What `cupola inspect` finds in a file: its device images, and its kernels with all that the
// images say about them. Reading only; the printing is in inspect_print.h. Any thread; reads images
// with as many threads of its own as there are cores.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/compiler/fatbin/cubin.h"
#include "device/compiler/fatbin/elf_images.h"
#include "device/compiler/passes/refusals.h"
#include "device/compiler/ptx/features.h"

namespace cupola {

/// What to look at.
struct InspectOptions {
  std::optional<uint32_t> image;  ///< only this one of the file's images
  std::string kernels;            ///< only kernels whose name, mangled or not, contains this
};

/// One image of the file, by its number there.
struct InspectedImage {
  uint32_t index = 0;
  std::string arch;     ///< "sm_90a", "compute_90", "unknown"
  std::string version;  ///< PTX: of its ISA ("9.0"); cubin: "CUDA 13" style; else empty
  uint32_t kernel_count = 0;
  bool unit = false;                   ///< of -rdc: means something only linked with its companions
  bool readable = true;                ///< false: see Inspection::damages
  std::optional<fatbin::Cubin> cubin;  ///< kind cubin
  std::vector<ptx::KernelFeatures> ptx_kernels;  ///< kind PTX
  std::vector<passes::KernelRefusals> refusals;  ///< of the same kernels, in the same order
};

/// What one cubin says about a kernel.
struct KernelCode {
  uint32_t image = 0;
  uint32_t sm = 0;    ///< 90
  std::string arch;   ///< "sm_90a"
  bool unit = false;  ///< of a -rdc unit, before linking
  fatbin::CubinKernel facts;
};

/// What one PTX image says about a kernel.
struct KernelPtx {
  uint32_t image = 0;
  uint32_t sm = 0;
  std::string arch;  ///< "compute_90"
  std::vector<ptx::FeatureNote> features;
  std::string preemptible_refusal;  ///< why it cannot have that variant; "" = it can
  std::string sliced_refusal;
};

/// One kernel: everything of that name in the file, once per architecture.
struct InspectedKernel {
  std::string name;              ///< mangled
  std::string demangled;         ///< equals name where that is not mangled
  std::vector<KernelCode> code;  ///< by architecture; linked code before that of units
  std::vector<KernelPtx> ptx;    ///< by architecture
  bool linked_together = false;  ///< its PTX is of a -rdc unit: link with the other units

  /// The code that a device of `sm` would run, else the nearest below, else the first; null without
  /// code.
  const KernelCode* CodeFor(uint32_t sm) const;
  /// The same for PTX.
  const KernelPtx* PtxFor(uint32_t sm) const;
};

struct Inspection {
  fatbin::ImageFile file;
  std::vector<InspectedImage> images;
  std::vector<InspectedKernel> kernels;  ///< in the order in which the images name them
  std::vector<Error> damages;            ///< each with file and offset
};

/// Reads the file and, image by image, its kernels. What is damaged is in Inspection::damages.
/// Errors: the file cannot be read or is of another kind; no image of that number.
Result<Inspection> Inspect(const std::string& path, const InspectOptions& options);

/// Image number `index` of the file, decompressed. Errors: as above, and damage of that image.
Result<fatbin::ImageBytes> ReadImage(const fatbin::ImageFile& file, uint32_t index);

/// A C++ name as people write it; the name itself where it is not mangled.
std::string Demangle(const std::string& name);

}  // namespace cupola
