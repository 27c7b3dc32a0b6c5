// Plan: what is known of the kernels of one GPU, as a file that the preloaded library uses as it
// lies in memory. `cupola train` and `cupola tune` write it from a profile (models/train/); the
// launch path reads it. It is little-endian, with offsets from the start of the file and no
// pointers. A PlanView is valid as long as its bytes are. Any thread; looking up and predicting
// neither allocate nor lock. See docs/models.md.
//
//   PlanHeader | PlanKernel[kernels], by name, then image | PlanModel[] | PlanTerm[]
//              | PlanConfiguration[] | names
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "models/features.h"

namespace cupola::models {

inline constexpr std::array<char, 8> kPlanMagic = {'C', 'U', 'P', 'P', 'L', 'A', 'N', '1'};
inline constexpr uint32_t kPlanVersion = 1;

struct PlanHeader {
  std::array<char, 8> magic;
  uint32_t version;
  uint32_t bytes_of_header;  ///< sizeof(PlanHeader)
  uint64_t total_bytes;      ///< of the file
  uint64_t checksum;         ///< HashBytes of all that follows the header
  char gpu[64];              ///< name of the GPU's files, "nvidia-h200", NUL-terminated
  Machine machine;
  uint32_t kernels;                ///< number of PlanKernel
  uint32_t kernels_offset;         ///< bytes
  uint32_t models;                 ///< number of PlanModel
  uint32_t models_offset;          ///< bytes
  uint32_t terms;                  ///< number of PlanTerm
  uint32_t terms_offset;           ///< bytes
  uint32_t configurations;         ///< number of PlanConfiguration
  uint32_t configurations_offset;  ///< bytes
  uint32_t names_bytes;            ///< size of all names; the last one ends in a NUL
  uint32_t names_offset;           ///< bytes
};

/// In which form a kernel's launches go out. All values but kAuto are for measurements, in
/// plans that `cupola tune` writes for its own runs.
enum class PlanMode : uint32_t {
  kAuto,     ///< the launch path decides by the predicted duration
  kPlain,    ///< always as the program launched it
  kVariant,  ///< always the preemptible variant, where there is one
};

enum PlanFlag : uint32_t {
  kTuned = 1,         ///< `batch` and `overhead_percent` were measured by `cupola tune`
  kUsesHistory = 2,   ///< cross-validation preferred the history of exact configurations
};

/// Where an integer argument of a kernel lies.
struct PlanArgument {
  uint16_t index;      ///< number of the parameter: kernelParams[index]
  uint16_t bytes;      ///< 1, 2, 4 or 8
  uint32_t offset;     ///< in the packed parameter block
  uint32_t is_signed;  ///< 1 = the value is sign-extended
};

struct PlanKernel {
  uint64_t image;        ///< HashBytes of the image's key; 0 = an entry for any image
  uint32_t name_offset;  ///< mangled name, NUL-terminated
  uint32_t flags;        ///< PlanFlag
  PlanMode mode;
  uint32_t batch;           ///< claim word (profiles/claim_word.h): L >= 1, order of claims, ...
  float overhead_percent;   ///< overhead of the variant with that claim word over a plain launch
  uint32_t arguments;       ///< used entries of `argument`, which LaunchFeatures::integers follows
  uint64_t block_ns;        ///< approximate time of one block; 0 = not known
  uint64_t preemption_ns;   ///< mean cost of a preemption (FLEP section 4.2); 0 = not known
  KernelNeeds needs;
  PlanArgument argument[kMostIntegers];
  uint32_t model;           ///< 1 + index of a model that needs no input bytes; 0 = none
  uint32_t model_input;     ///< 1 + index of a model that needs them and is better; 0 = none
  uint32_t first_configuration;  ///< index of the kernel's first PlanConfiguration
  uint32_t configurations;       ///< number of them, sorted by `number`
};

/// A ridge regression, with coefficients for the variables' own units.
struct PlanModel {
  uint32_t first_term;  ///< index of the model's first PlanTerm
  uint32_t terms;       ///< number of them
  double intercept_ns;
  double spread;    ///< standard deviation of the relative error, cross-validated
  double floor_ns;  ///< no prediction is below this; > 0
  double low[kVariables];   ///< least value of each variable (models/features.h) in training
  double high[kVariables];  ///< largest value of each variable in training
};

/// coefficient * (product of the variables) or, if `is_hinge` is not 0, coefficient * max(0,
/// product - knot).
struct PlanTerm {
  uint8_t variable[4];  ///< Variable; kOne where there are fewer than four
  uint32_t is_hinge;
  double coefficient;   ///< ns for each unit of the product
  double knot;          ///< in units of the product; below it a hinge is 0
};

/// The durations of one exact configuration.
struct PlanConfiguration {
  uint64_t number;  ///< ConfigurationOf (models/features.h), with the kernel's `arguments` integers
  float ns;         ///< median duration
  float spread;     ///< relative standard deviation
};

static_assert(sizeof(PlanHeader) == 160 && sizeof(PlanArgument) == 12 &&
              sizeof(PlanKernel) == 168 && sizeof(PlanTerm) == 24 &&
              sizeof(PlanConfiguration) == 16);

/// A plan over bytes that outlive it.
class PlanView {
 public:
  /// Checks magic, sizes, every offset, index and order, but not the checksum. `bytes` must be
  /// aligned to 8. Errors: kDamaged; kUnsupported for another version of the format.
  static Result<PlanView> Open(std::span<const std::byte> bytes);

  const PlanHeader& header() const { return *header_; }
  std::span<const PlanKernel> kernels() const;
  const PlanModel& Model(uint32_t index) const;
  std::span<const PlanTerm> Terms(const PlanModel& model) const;
  std::span<const PlanConfiguration> Configurations(const PlanKernel& kernel) const;
  const char* Name(const PlanKernel& kernel) const;
  /// The kernel of that name and image; else the entry for any image; else the first kernel of that
  /// name; null where the plan has none. Logarithmic; the launch path calls it once for each
  /// kernel.
  const PlanKernel* Find(std::string_view name, uint64_t image = 0) const noexcept;
  bool ChecksumHolds() const;

 private:
  const std::byte* At(uint64_t offset) const { return bytes_.data() + offset; }

  std::span<const std::byte> bytes_;
  const PlanHeader* header_ = nullptr;
};

/// The batch L for blocks that take `block_ns` each, of a kernel that was not tuned: about 40 us of
/// work for each claim, 1 to 64 blocks, from the table of claims measured on an H200
/// (docs/models.md); 4 if `block_ns` is 0, that is, not known.
uint32_t BatchFor(uint64_t block_ns) noexcept;

/// Whether the kernel's `batch` was tuned, and with blocks that took about as long as `block_ns`,
/// within a factor of four. Where either time is 0, that is, not known, they count as alike.
bool IsTunedFor(const PlanKernel& kernel, uint64_t block_ns) noexcept;

}  // namespace cupola::models
