// Profile: what was measured of the kernels on one kind of GPU: launch durations with what they
// depend on, costs of preemption, tuned batches, and facts of the machine. Plain values; as a file
// it is JSON (profiles/profile_file.h). Merging is associative, commutative and idempotent, so that
// profiles of many runs and of several machines of a kind may be merged in any order. See
// docs/profiles.md.
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

/// The GPU, with what limits how many blocks it runs at once. Later facts replace earlier ones.
struct GpuFacts {
  uint64_t when = 0;             ///< when the facts were read, in ns since 1970
  std::string name;              ///< as the driver gives it: "NVIDIA H200"
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
  uint32_t offset = 0;   ///< bytes
  uint32_t bytes = 0;
  bool pointer = false;  ///< some launch's argument for it was the address of device memory
  auto operator<=>(const Parameter&) const = default;
};

/// One launch that was timed.
struct LaunchSample {
  uint64_t when = 0;  ///< ns since 1970
  uint64_t ns = 0;    ///< duration on the device
  uint32_t grid[3] = {1, 1, 1};         ///< in blocks, x y z
  uint32_t block[3] = {1, 1, 1};        ///< in threads, x y z
  uint32_t dynamic_shared = 0;          ///< bytes
  /// Size of the allocations that pointer arguments point into.
  std::optional<uint64_t> input_bytes;
  /// One for each parameter, its bits zero-extended; nothing for a pointer or an argument of more
  /// than 8 bytes.
  std::vector<std::optional<uint64_t>> arguments;
  auto operator<=>(const LaunchSample&) const = default;
};

/// How much longer a launch took because of its preemptions.
struct PreemptionSample {
  uint64_t when = 0;   ///< ns since 1970
  /// Mean of one preemption; below 0 where the launch was that much faster than usual.
  int64_t ns = 0;
  uint32_t count = 1;  ///< preemptions of the launch
  auto operator<=>(const PreemptionSample&) const = default;
};

struct MeanPreemption {
  uint64_t count = 0;  ///< preemptions; 0 = none was measured
  double ns = 0;
};

/// The mean over the latest samples (which are sorted): as many samples as it takes to reach `most`
/// preemptions.
MeanPreemption MeanOfLatest(const std::vector<PreemptionSample>& samples, uint64_t most);

/// What `cupola tune` found. Of several the latest counts.
struct TunedBatch {
  uint64_t when = 0;           ///< ns since 1970
  uint32_t batch = 1;          ///< the claim word (claim_word.h)
  /// Overhead of the preemptible variant with that L over a plain launch.
  double overhead_percent = 0;
  double bound_percent = 0;    ///< the overhead was to stay below this
  bool met = true;             ///< whether any L stayed below it; otherwise `batch` is the best one
  uint64_t block_ns = 0;       ///< time of one block; 0 = not known
  /// The overhead in percent of each claim word that was tried.
  std::map<uint32_t, double, ClaimLess> tried = {};
  auto operator<=>(const TunedBatch&) const = default;
};

/// How much a profile keeps: samples of one exact configuration, configurations of a kernel,
/// preemptions of a kernel.
inline constexpr size_t kSamplesOfConfiguration = 64;
inline constexpr size_t kConfigurationsOfKernel = 1024;
inline constexpr size_t kPreemptionsOfKernel = 512;

struct KernelProfile {
  uint32_t registers = 0;      ///< of a thread; 0 = not known
  uint32_t static_shared = 0;  ///< bytes
  std::vector<Parameter> parameters;
  std::vector<LaunchSample> launches;          ///< sorted
  std::vector<PreemptionSample> preemptions;   ///< sorted
  std::optional<TunedBatch> tuned;
  bool operator==(const KernelProfile&) const = default;
};

/// A kernel's mangled name, and the key of the image that it came from; "" = any image.
using KernelKey = std::pair<std::string, std::string>;

struct Profile {
  GpuFacts gpu;
  std::map<KernelKey, KernelProfile> kernels;
  bool operator==(const Profile&) const = default;
};

/// Sorts the samples, drops duplicates, and keeps the numbers above. Of a configuration it keeps
/// the latest samples. Configurations it chooses by a hash, so that the same ones are kept in
/// whatever order they came.
void Normalize(Profile* profile);

/// Adds `from` to `into`; both are normalized afterwards. kInvalidArgument: they are of different
/// GPUs.
Status Merge(const Profile& from, Profile* into);

}  // namespace cupola::profiles
