// Reads what `cupola inspect` shows of a file: its device images, and its kernels with all that the
// images say about them. inspect_print.h has the printing. Any thread may call it; it reads images
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

/// Which parts of a file to read.
struct InspectOptions {
  std::optional<uint32_t> image;  ///< if set: only the file's image of this number
  std::string kernels;            ///< only kernels whose name, mangled or not, contains this
};

/// One image of the file.
struct InspectedImage {
  uint32_t index = 0;   ///< its number in the file
  std::string arch;     ///< "sm_90a", "compute_90", "unknown"
  /// Of PTX: its ISA version ("9.0"); of a cubin: such as "CUDA 13"; else empty.
  std::string version;
  uint32_t kernel_count = 0;
  bool unit = false;     ///< a unit of -rdc, which is of use only when linked with the other units
  bool readable = true;  ///< false: Inspection::damages says why
  std::optional<fatbin::Cubin> cubin;            ///< for a cubin
  std::vector<ptx::KernelFeatures> ptx_kernels;  ///< for PTX
  std::vector<passes::KernelRefusals> refusals;  ///< for the same kernels, in the same order
};

/// What one cubin says about a kernel.
struct KernelCode {
  uint32_t image = 0;  ///< InspectedImage::index
  uint32_t sm = 0;     ///< 90 for sm_90a
  std::string arch;    ///< "sm_90a"
  bool unit = false;   ///< from a unit of -rdc, before linking
  fatbin::CubinKernel facts;
};

/// What one PTX image says about a kernel.
struct KernelPtx {
  uint32_t image = 0;  ///< InspectedImage::index
  uint32_t sm = 0;     ///< 90 for compute_90
  std::string arch;    ///< "compute_90"
  std::vector<ptx::FeatureNote> features;
  std::string preemptible_refusal;  ///< why it cannot have a preemptible variant; "": it can
  std::string sliced_refusal;       ///< why it cannot have a sliced variant; "": it can
};

/// One kernel: everything of that name in the file, once per architecture.
struct InspectedKernel {
  std::string name;              ///< mangled
  std::string demangled;         ///< equals `name` where that is not mangled
  std::vector<KernelCode> code;  ///< in order of architecture; linked code before that of units
  std::vector<KernelPtx> ptx;    ///< in order of architecture
  /// Its PTX is from a unit of -rdc and must be linked with the others.
  bool linked_together = false;

  /// The code for a device of `sm`: that of the highest architecture that is not above `sm`, else
  /// the first; null when there is no code.
  const KernelCode* CodeFor(uint32_t sm) const;
  /// The same for PTX.
  const KernelPtx* PtxFor(uint32_t sm) const;
};

struct Inspection {
  fatbin::ImageFile file;
  std::vector<InspectedImage> images;
  std::vector<InspectedKernel> kernels;  ///< in the order in which the images name them
  std::vector<Error> damages;            ///< what is damaged, each with file and offset
};

/// Reads the file and, image by image, its kernels. Damaged parts are listed in
/// Inspection::damages. It is an error when the file cannot be read or is of another kind, or has
/// no image of the wanted number.
Result<Inspection> Inspect(const std::string& path, const InspectOptions& options);

/// Image number `index` of the file, decompressed. Errors: those of Inspect, and damage of that
/// image.
Result<fatbin::ImageBytes> ReadImage(const fatbin::ImageFile& file, uint32_t index);

/// The demangled C++ name; the name itself where it is not mangled.
std::string Demangle(const std::string& name);

}  // namespace cupola
