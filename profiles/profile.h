// A profile: what was measured of the kernels on one kind of GPU. Launch durations with what they
// depend on, costs of preemption, tuned batches, facts of the machine. Plain values; as a file it
// is JSON (profiles/profile_file.h). Merging is associative, commutative and idempotent, so that
// profiles of many runs and machines of a kind may come together in any order. docs/profiles.md.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "profiles/claim_word.h"

namespace cupola::profiles {

/// The GPU, and what bounds how many blocks it runs at once. Later facts replace earlier ones.
struct GpuFacts {
  uint64_t when = 0;             ///< ns since 1970, when they were read
  std::string name;              ///< as the driver says it: "NVIDIA H200"
  std::string driver;            ///< version: "580.159.04", or CUDA's "13.0"
  uint32_t arch = 0;             ///< 90 for sm_90
  uint32_t sms = 0;
  uint32_t threads_per_sm = 0;
  uint32_t blocks_per_sm = 0;
  uint32_t registers_per_sm = 0;
  uint32_t shared_per_sm = 0;    ///< bytes
  auto operator<=>(const GpuFacts&) const = default;
};

/// Where a parameter of a kernel lies in its parameter block.
struct Parameter {
  uint32_t offset = 0, bytes = 0;
  bool pointer = false;  ///< an argument of it was the address of device memory
  auto operator<=>(const Parameter&) const = default;
};

/// One launch that was timed.
struct LaunchSample {
  uint64_t when = 0;  ///< ns since 1970
  uint64_t ns = 0;    ///< duration on the device
  uint32_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  uint32_t dynamic_shared = 0;          ///< bytes
  std::optional<uint64_t> input_bytes;  ///< of the allocations that pointer arguments lie in
  /// One for each parameter, bits zero-extended; none for pointers and what is longer than 8 bytes.
  std::vector<std::optional<uint64_t>> arguments;
  auto operator<=>(const LaunchSample&) const = default;
};

/// What preemptions and resumptions added to a launch.
struct PreemptionSample {
  uint64_t when = 0;
  int64_t ns = 0;      ///< mean of one; below 0 where the launch was that much faster than usual
  uint32_t count = 1;  ///< of the launch
  auto operator<=>(const PreemptionSample&) const = default;
};

struct MeanPreemption {
  uint64_t count = 0;  ///< preemptions; 0 = none was measured
  double ns = 0;
};

/// Of the latest samples (they are sorted), as many as have `most` preemptions or one sample more.
MeanPreemption MeanOfLatest(const std::vector<PreemptionSample>& samples, uint64_t most);

/// What `cupola tune` found. The latest counts.
struct TunedBatch {
  uint64_t when = 0;
  uint32_t batch = 1;          ///< L and order of claims (claim_word.h)
  double overhead_percent = 0; ///< of the preemptible variant with that L over plain
  double bound_percent = 0;    ///< that it was to keep below
  bool met = true;             ///< whether any L did; else the best one
  uint64_t block_ns = 0;
  /// Overhead in percent of what was tried.
  std::map<uint32_t, double, ClaimLess> tried = {};
  auto operator<=>(const TunedBatch&) const = default;
};

/// Samples kept: of one exact configuration, configurations of a kernel, preemptions of a kernel.
inline constexpr size_t kSamplesOfConfiguration = 64;
inline constexpr size_t kConfigurationsOfKernel = 1024;
inline constexpr size_t kPreemptionsOfKernel = 512;

struct KernelProfile {
  uint32_t registers = 0;      ///< a thread; 0 = not known
  uint32_t static_shared = 0;  ///< bytes
  std::vector<Parameter> parameters;
  std::vector<LaunchSample> launches;          ///< sorted
  std::vector<PreemptionSample> preemptions;   ///< sorted
  std::optional<TunedBatch> tuned;
  bool operator==(const KernelProfile&) const = default;
};

/// A kernel's mangled name, and the key of the image that it came from; "" = of any.
using KernelKey = std::pair<std::string, std::string>;

struct Profile {
  GpuFacts gpu;
  std::map<KernelKey, KernelProfile> kernels;
  bool operator==(const Profile&) const = default;
};

/// Sorts the samples, drops what is there twice, and keeps the numbers above: of a configuration
/// the latest samples; configurations by a hash, so that the same ones are kept in whatever order
/// they came.
void Normalize(Profile* profile);

/// Adds `from` to `into`; both are normalized afterwards. kInvalidArgument: of different GPUs.
Status Merge(const Profile& from, Profile* into);

}  // namespace cupola::profiles
