// A bundle: the variants of the kernels of one device image (one PTX module of one fatbin
// container), as a file of the variant store. Read by the preloaded library at module load, so the
// file is used as it lies in memory: little-endian, offsets from its start, no pointers. Values and
// views; a BundleView is valid while its bytes are. Any thread.
//
//   BundleHeader | KernelEntry[kernels] | ParameterEntry[] | VariableEntry[] | strings | images
//
// Two images (each a cubin, and the PTX it was made from for drivers that take no cubin): the side
// module holds entries named <kernel>__cupola_preemptible and <kernel>__cupola_sliced, the task
// module a MasterKernel with bodies, cupola_master_kernel. Where variables are used, an image has
// `.const .b64 cupola_variables[n]`: the loader stores there the addresses of the program's own
// variables (cuLibraryGetGlobal / cuModuleGetGlobal), entry i for VariableEntry i of the image.
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

/// The architecture whose bundles the preloaded library uses: 90 for sm_90. Others can be built, to
/// be looked at.
inline constexpr uint32_t kLoadedArch = 90;

enum class ImageKind : uint8_t { kSide, kTasks };
inline constexpr size_t kImageKinds = 2;

struct BundleImage {
  uint64_t cubin_offset, cubin_bytes;  ///< 0 bytes: none
  uint64_t ptx_offset, ptx_bytes;      ///< NUL-terminated text, the NUL counted
  uint32_t variables;                  ///< entries of its `cupola_variables`
  uint32_t variables_offset;           ///< bytes
};

struct BundleHeader {
  std::array<char, 8> magic;
  uint32_t bytes_of_header;  ///< sizeof(BundleHeader)
  uint32_t pass_version;
  uint64_t total_bytes;             ///< of the file
  uint64_t checksum;                ///< FNV-1a 64 of the file, these 8 bytes taken as 0
  uint32_t arch;                    ///< 90 for sm_90
  uint32_t kernels;                 ///< entries
  uint32_t kernels_offset;          ///< bytes
  uint32_t flags;                   ///< BundleFlag
  uint32_t task_registers;          ///< of a thread of the MasterKernel: 32, 64 or 128
  BundleImage images[kImageKinds];  ///< by ImageKind
};

enum BundleFlag : uint32_t {
  kIncomplete = 1,  ///< a compiler ran out of time or failed to run: worth another build
};

enum VariantFlag : uint32_t {
  kPreemptible = 1,
  kSliced = 2,
  kNotBitExact = 4,      ///< preemptible: opcode counts differ from the original's; off unless
                         ///< asked for
  kMayWaitOnBlocks = 8,  ///< (ptx/waits.h): batch 1, kRunWhatIsClaimed; plain where the whole grid
                         ///< is resident at once, for it may be a hand-made grid barrier
  kSlicedNotBitExact = 16,  ///< the same for sliced
  kOneDimensionalBlocks =
      32,                  ///< the variants are right for blocks with y = z = 1 only: others plain
  kTask = 64,              ///< the MasterKernel has its body, number KernelEntry::task_body
  kTaskNotBitExact = 128,  ///< the same as kNotBitExact for the task
  kTaskBarrier = 256,      ///< threads of a block wait for each other
};

struct KernelEntry {
  uint32_t name_offset;        ///< mangled name, NUL-terminated
  uint32_t flags;              ///< VariantFlag
  uint32_t parameters;         ///< of the original kernel
  uint32_t parameters_offset;  ///< bytes, ParameterEntry[parameters]
  uint32_t parameter_bytes;    ///< size of the original's parameter block
  uint32_t launch_offset;      ///< where PreemptParams or SliceParams lies in the variants' blocks
  uint32_t registers;          ///< of the original, per thread
  uint32_t variant_registers;  ///< of the preemptible variant; 0 = not made
  uint32_t static_shared;      ///< bytes, original
  uint32_t variant_static_shared;  ///< bytes
  uint32_t max_threads;            ///< .maxntid or .reqntid product; 0 = not said
  uint32_t refusal_offset;         ///< why a variant is missing, NUL-terminated; 0 = nothing to say
  uint32_t exactness_offset;  ///< how opcode counts differ from the original's, also where flags
                              ///< say that the bits are the same all the same; 0 = they do not
  uint32_t local_bytes;       ///< per thread, original: stack frame and spills
  uint32_t variant_local_bytes;
  uint32_t sliced_registers;  ///< of the sliced variant; 0 = not made
  uint32_t task_body;
  uint32_t task_shared;          ///< bytes of a block that are not dynamic
  uint32_t task_refusal_offset;  ///< why it cannot be a task, NUL-terminated; 0 = it can
  uint32_t required_threads[3];  ///< .reqntid: the only block that may be launched; 0s = not said
  uint32_t reserved[2];
};

struct ParameterEntry {
  uint32_t offset, bytes;  ///< in the parameter block, as the machine code has it
  uint32_t is_pointer;     ///< 1 where the PTX or its use says so (a feature of duration models)
};

enum VariableFlag : uint32_t {
  kManaged = 1,   ///< __managed__: cuLibraryGetManaged
  kConstant = 2,  ///< __constant__
};

struct VariableEntry {
  uint32_t name_offset;
  uint32_t flags;  ///< VariableFlag
  uint64_t bytes;
};

/// What BundleHeader::checksum of these bytes must be.
uint64_t BundleChecksum(std::span<const std::byte> bytes);

/// A bundle over bytes that outlive it. The bytes lie at an address that is a multiple of 8.
class BundleView {
 public:
  BundleView() = default;  ///< of nothing: to be assigned to before use
  /// Checks magic, sizes and every offset (not the checksum). Errors: kDamaged; kUnsupported for
  /// another version of the format or of the passes.
  static Result<BundleView> Open(std::span<const std::byte> bytes);

  const BundleHeader& header() const { return *header_; }
  std::span<const KernelEntry> kernels() const;
  std::span<const ParameterEntry> parameters(
      const KernelEntry& kernel) const;  ///< of this bundle's
  std::span<const VariableEntry> variables(ImageKind kind) const;
  const char* Text(uint32_t offset) const;  ///< NUL-terminated; "" for 0
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
