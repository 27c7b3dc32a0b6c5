// A bundle: the variants of the kernels of one device image (one PTX module of one fatbin
// container), as a file of the variant store. BundleWriter makes it. The preloaded library reads it
// at module load, so the file is used as it lies in memory: little-endian, offsets from its start,
// no pointers. Values and views; a BundleView is valid while its bytes are. Any thread.
//
//   BundleHeader | KernelEntry[kernels] | ParameterEntry[] | VariableEntry[] | strings | images
//
// There are two images, each a cubin, and the PTX from which it was made, for drivers that take no
// cubin. The side module holds entries named <kernel>__cupola_preemptible and
// <kernel>__cupola_sliced. The task module holds a MasterKernel with bodies, cupola_master_kernel.
// Where variables are used, an image has `.const .b64 cupola_variables[n]`: when the preloaded
// library has loaded the image, it stores there the addresses of the program's own variables
// (cuLibraryGetGlobal / cuModuleGetGlobal), in entry i that of VariableEntry i of the image.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"

namespace cupola::store {

inline constexpr std::array<char, 8> kBundleMagic = {'C', 'U', 'P', 'B', 'N', 'D', 'L', '1'};
/// Changes whenever a variant of the same kernel would differ; part of every key.
inline constexpr uint32_t kPassVersion = 13;

/// The architecture whose bundles the preloaded library uses: 90 for sm_90. Bundles for others can
/// be built, for inspection.
inline constexpr uint32_t kLoadedArch = 90;

enum class ImageKind : uint8_t { kSide, kTasks };
inline constexpr size_t kImageKinds = 2;

/// Where an image lies in the bundle. Offsets and sizes in bytes.
struct BundleImage {
  uint64_t cubin_offset;
  uint64_t cubin_bytes;       ///< 0: there is no cubin
  uint64_t ptx_offset;
  uint64_t ptx_bytes;         ///< NUL-terminated text, including the NUL
  uint32_t variables;         ///< number of entries of its `cupola_variables`
  uint32_t variables_offset;  ///< offset of VariableEntry[variables]
};

struct BundleHeader {
  std::array<char, 8> magic;
  uint32_t bytes_of_header;  ///< sizeof(BundleHeader)
  uint32_t pass_version;
  uint64_t total_bytes;             ///< size of the file
  uint64_t checksum;                ///< FNV-1a 64 of the file, with these 8 bytes taken as 0
  uint32_t arch;                    ///< 90 for sm_90
  uint32_t kernels;                 ///< number of kernel entries
  uint32_t kernels_offset;          ///< offset of KernelEntry[kernels], in bytes
  uint32_t flags;                   ///< BundleFlag
  uint32_t task_registers;          ///< registers of a thread of the MasterKernel: 32, 64 or 128
  BundleImage images[kImageKinds];  ///< indexed by ImageKind
};

enum BundleFlag : uint32_t {
  kIncomplete = 1,  ///< a compiler ran out of time or could not run, so another build may do better
};

enum VariantFlag : uint32_t {
  kPreemptible = 1,         ///< there is a preemptible variant
  kSliced = 2,              ///< there is a sliced variant
  kNotBitExact = 4,         ///< results of the preemptible variant may differ in their last bits:
                            ///< the counts of its floating-point operations are not the original's
                            ///< and the PTX leaves a choice of rounding, or nothing could be
                            ///< compared. It is used only if the user asks for it (CUPOLA_INEXACT)
  kMayWaitOnBlocks = 8,     ///< blocks may wait on others (ptx/waits.h): launch with batch 1 and
                            ///< kRunWhatIsClaimed; launch plain where the whole grid is resident at
                            ///< once, for it may be a hand-made grid barrier
  kSlicedNotBitExact = 16,  ///< like kNotBitExact, for the sliced variant
  kOneDimensionalBlocks = 32,  ///< the variants are right only for blocks with y = z = 1; launch
                               ///< others plain
  kTask = 64,              ///< the MasterKernel has its body, number KernelEntry::task_body
  kTaskNotBitExact = 128,  ///< like kNotBitExact, for the task
  kTaskBarrier = 256,      ///< threads of a block of the task wait for each other
};

/// One kernel of the image.
struct KernelEntry {
  uint32_t name_offset;        ///< mangled name, NUL-terminated
  uint32_t flags;              ///< VariantFlag
  uint32_t parameters;         ///< number of the original kernel's parameters
  uint32_t parameters_offset;  ///< offset of ParameterEntry[parameters], in bytes
  uint32_t parameter_bytes;    ///< size of all parameters of the original together
  uint32_t launch_offset;      ///< where the variants' own last parameter (PreemptParams or
                               ///< SliceParams) begins, in bytes from the first parameter
  uint32_t registers;          ///< of the original, per thread
  uint32_t variant_registers;  ///< of the preemptible variant, per thread; 0: there is none
  uint32_t static_shared;      ///< of the original, bytes
  uint32_t variant_static_shared;  ///< of the preemptible variant, bytes
  uint32_t max_threads;            ///< product of .maxntid or .reqntid; 0: the kernel has neither
  uint32_t refusal_offset;         ///< why a variant is missing, NUL-terminated; 0: nothing to say
  uint32_t exactness_offset;  ///< how counts of floating-point operations differ from the
                              ///< original's, NUL-terminated; also where flags say that the results
                              ///< have the same bits nevertheless. 0: they do not differ
  uint32_t local_bytes;          ///< of the original, per thread: stack frame and spills
  uint32_t variant_local_bytes;  ///< of the preemptible variant, per thread
  uint32_t sliced_registers;     ///< of the sliced variant, per thread; 0: there is none
  uint32_t task_body;            ///< TaskHeader::body, with kTask
  uint32_t task_shared;          ///< static shared memory of a block of the task, bytes
  uint32_t task_refusal_offset;  ///< why it cannot be a task, NUL-terminated; 0: it can
  uint32_t required_threads[3];  ///< .reqntid: the only block that may be launched; 0s: none
  uint32_t reserved[2];
};

/// One parameter of the original kernel.
struct ParameterEntry {
  uint32_t offset;      ///< bytes from the first parameter, as the machine code has it
  uint32_t bytes;       ///< size
  uint32_t is_pointer;  ///< 1 where the PTX or its use says so (a feature of duration models)
};

enum VariableFlag : uint32_t {
  kManaged = 1,   ///< __managed__; its address comes from cuLibraryGetManaged
  kConstant = 2,  ///< __constant__
};

/// A variable of the program that an image reaches by address.
struct VariableEntry {
  uint32_t name_offset;  ///< NUL-terminated
  uint32_t flags;        ///< VariableFlag
  uint64_t bytes;        ///< size
};

/// The value that BundleHeader::checksum of these bytes must have.
uint64_t BundleChecksum(std::span<const std::byte> bytes);

/// Reads a bundle from bytes that must outlive the view and lie at an address that is a multiple of
/// 8.
class BundleView {
 public:
  BundleView() = default;  ///< a view of nothing; assign to it before use
  /// Checks magic, sizes and every offset (not the checksum). Errors: kDamaged; kUnsupported for
  /// another version of the format or of the passes.
  static Result<BundleView> Open(std::span<const std::byte> bytes);

  const BundleHeader& header() const { return *header_; }
  std::span<const KernelEntry> kernels() const;
  std::span<const ParameterEntry> parameters(
      const KernelEntry& kernel) const;  ///< `kernel` must be of this bundle
  std::span<const VariableEntry> variables(ImageKind kind) const;
  const char* Text(uint32_t offset) const;  ///< the NUL-terminated text at `offset`; "" for 0
  std::span<const std::byte> cubin(ImageKind kind) const;
  const char* ptx(ImageKind kind) const;  ///< null where there is none
  /// Null where the bundle has no such kernel. Logarithmic: kernels are sorted by name.
  const KernelEntry* Find(std::string_view kernel) const;
  bool ChecksumHolds() const;

 private:
  explicit BundleView(std::span<const std::byte> bytes);
  template <typename Entry>
  std::span<const Entry> Entries(uint32_t offset, uint32_t count) const;
  Status CheckKernels() const;
  Status CheckImage(const BundleImage& image) const;
  const BundleImage& Image(ImageKind kind) const {
    return header_->images[static_cast<size_t>(kind)];
  }

  std::span<const std::byte> bytes_;
  const BundleHeader* header_ = nullptr;
};

}  // namespace cupola::store
