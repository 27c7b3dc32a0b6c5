// A plan: what is known of the kernels of one GPU, as a file that the preloaded library uses as it
// lies in memory. Written by `cupola train` and `cupola tune` from a profile (models/train/), read
// by the launch path. Little-endian, offsets from the start of the file, no pointers. A PlanView is
// valid while its bytes are. Any thread; looking up and predicting neither allocate nor lock.
// docs/models.md.
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
  char gpu[64];              ///< name of the profile, "nvidia-h200", NUL-terminated
  Machine machine;
  uint32_t kernels, kernels_offset;
  uint32_t models, models_offset;
  uint32_t terms, terms_offset;
  uint32_t configurations, configurations_offset;
  uint32_t names_bytes, names_offset;  ///< the last name ends in a NUL
};

/// Which form a kernel is launched in; all but kAuto are for measurements (`cupola tune`).
enum class PlanMode : uint32_t {
  kAuto,     ///< the launch path decides, by predicted duration
  kPlain,    ///< always as the program launched it
  kVariant,  ///< always the preemptible variant, where there is one
};

enum PlanFlag : uint32_t {
  kTuned = 1,         ///< `batch` and `overhead_percent` were measured
  kUsesHistory = 2,   ///< cross-validation preferred the history of exact configurations
};

/// Where an integer argument lies.
struct PlanArgument {
  uint16_t index;      ///< of the parameter: kernelParams[index]
  uint16_t bytes;      ///< 1, 2, 4 or 8
  uint32_t offset;     ///< in the packed parameter block
  uint32_t is_signed;  ///< sign-extended where 1
};

struct PlanKernel {
  uint64_t image;        ///< HashBytes of the image key; 0 = of any image
  uint32_t name_offset;  ///< mangled name, NUL-terminated
  uint32_t flags;        ///< PlanFlag
  PlanMode mode;
  uint32_t batch;           ///< L and order of claims (profiles/claim_word.h); L >= 1
  float overhead_percent;   ///< of the preemptible variant with that L over plain
  uint32_t arguments;       ///< used of `argument`
  uint64_t block_ns;        ///< one block's time, about; 0 = not known
  uint64_t preemption_ns;   ///< mean cost of a preemption and resumption (FLEP 4.2); 0 = not known
  KernelNeeds needs;
  PlanArgument argument[kMostIntegers];
  uint32_t model;           ///< index + 1 of one that needs no input bytes; 0 = none
  uint32_t model_input;     ///< index + 1 of one that does, and is better; 0 = none
  uint32_t first_configuration, configurations;  ///< history, sorted by number
};

/// A ridge regression in the program's own units.
struct PlanModel {
  uint32_t first_term, terms;
  double intercept_ns;
  double spread;    ///< standard deviation of the relative error, cross-validated
  double floor_ns;  ///< no prediction is below it; > 0
  double low[kVariables], high[kVariables];  ///< what was seen in training
};

/// coefficient * (product of the variables), or coefficient * max(0, product - knot).
struct PlanTerm {
  uint8_t variable[4];  ///< Variable; kOne where there are fewer than four
  uint32_t is_hinge;
  double coefficient;   ///< ns a unit
  double knot;
};

/// Durations of one exact configuration.
struct PlanConfiguration {
  uint64_t number;  ///< ConfigurationOf
  float ns;         ///< median
  float spread;     ///< relative
};

static_assert(sizeof(PlanHeader) == 160 && sizeof(PlanArgument) == 12 &&
              sizeof(PlanKernel) == 168 && sizeof(PlanTerm) == 24 &&
              sizeof(PlanConfiguration) == 16);

/// A plan over bytes that outlive it.
class PlanView {
 public:
  /// Checks magic, sizes, every offset, index and order (not the checksum). `bytes` must be aligned
  /// to 8. Errors: kDamaged; kUnsupported for another version of the format.
  static Result<PlanView> Open(std::span<const std::byte> bytes);

  const PlanHeader& header() const { return *header_; }
  std::span<const PlanKernel> kernels() const;
  const PlanModel& Model(uint32_t index) const;
  std::span<const PlanTerm> Terms(const PlanModel& model) const;
  std::span<const PlanConfiguration> Configurations(const PlanKernel& kernel) const;
  const char* Name(const PlanKernel& kernel) const;
  /// The kernel of that name and image; else the entry of any image; else the first of that name.
  /// Null where the plan has no such kernel. Logarithmic; once a kernel.
  const PlanKernel* Find(std::string_view name, uint64_t image = 0) const noexcept;
  bool ChecksumHolds() const;

 private:
  const std::byte* At(uint64_t offset) const { return bytes_.data() + offset; }

  std::span<const std::byte> bytes_;
  const PlanHeader* header_ = nullptr;
};

/// A batch for blocks of `block_ns` that was not tuned: from the table of claims measured on an
/// H200 (docs/models.md), about 40 us of work a claim, 1 to 64.
uint32_t BatchFor(uint64_t block_ns) noexcept;

/// Whether `batch` was found with blocks that take about as long, within a factor of four, as
/// `block_ns` (0 = not known, then they count as such).
bool IsTunedFor(const PlanKernel& kernel, uint64_t block_ns) noexcept;

}  // namespace cupola::models
