#include "profiles/profile.h"

#include <algorithm>
#include <tuple>

namespace cupola::profiles {
namespace {

// Grid, block, shared memory, input bytes and arguments of a launch: all but its time and duration.
struct Configuration {
  explicit Configuration(const LaunchSample& sample) : sample_(sample) {
    sample_.when = 0;
    sample_.ns = 0;
  }
  auto operator<=>(const Configuration&) const = default;

  // FNV-1a over the words.
  uint64_t Hash() const {
    uint64_t hash = 0xCBF29CE484222325ull;
    const auto add = [&](uint64_t word) {
      for (int i = 0; i < 8; ++i) hash = (hash ^ ((word >> (8 * i)) & 0xFF)) * 0x100000001B3ull;
    };
    for (int i = 0; i < 3; ++i) add((uint64_t{sample_.grid[i]} << 32) | sample_.block[i]);
    add(sample_.dynamic_shared);
    add(sample_.input_bytes.value_or(~0ull));
    for (const auto& argument : sample_.arguments) add(argument.value_or(~0ull));
    return hash;
  }

 private:
  LaunchSample sample_;
};

// Keeps the last `most` entries of a sorted list, which are the latest.
template <typename Sample>
void KeepLatest(std::vector<Sample>* samples, size_t most) {
  if (samples->size() > most) samples->erase(samples->begin(), samples->end() - most);
}

template <typename Sample>
void SortOnce(std::vector<Sample>* samples) {
  std::sort(samples->begin(), samples->end());
  samples->erase(std::unique(samples->begin(), samples->end()), samples->end());
}

void NormalizeLaunches(std::vector<LaunchSample>* launches) {
  SortOnce(launches);
  std::map<Configuration, std::vector<LaunchSample>> by_configuration;
  for (LaunchSample& sample : *launches) {
    by_configuration[Configuration(sample)].push_back(std::move(sample));
  }
  std::vector<std::pair<uint64_t, const Configuration*>> order;
  for (const auto& [configuration, samples] : by_configuration) {
    order.emplace_back(configuration.Hash(), &configuration);
  }
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first, *a.second) < std::tie(b.first, *b.second);
  });
  if (order.size() > kConfigurationsOfKernel) order.resize(kConfigurationsOfKernel);
  launches->clear();
  for (const auto& [hash, configuration] : order) {
    auto& samples = by_configuration[*configuration];
    KeepLatest(&samples, kSamplesOfConfiguration);
    launches->insert(launches->end(), samples.begin(), samples.end());
  }
  std::sort(launches->begin(), launches->end());
}

// Where both have the same layout, a parameter counts as a pointer if it was one in either.
// Otherwise the greater layout is kept, whichever side it came from. That rule has no reason of its
// own, but it does not depend on the order of merging.
void MergeParameters(const std::vector<Parameter>& from, std::vector<Parameter>* into) {
  const auto layout = [](const std::vector<Parameter>& parameters) {
    std::vector<std::pair<uint32_t, uint32_t>> result;
    for (const Parameter& one : parameters) result.emplace_back(one.offset, one.bytes);
    return result;
  };
  const auto theirs = layout(from);
  const auto ours = layout(*into);
  if (theirs > ours) *into = from;
  if (theirs != ours) return;
  for (size_t i = 0; i < from.size(); ++i) (*into)[i].pointer |= from[i].pointer;
}

void MergeKernel(const KernelProfile& from, KernelProfile* into) {
  into->registers = std::max(into->registers, from.registers);
  into->static_shared = std::max(into->static_shared, from.static_shared);
  MergeParameters(from.parameters, &into->parameters);
  into->launches.insert(into->launches.end(), from.launches.begin(), from.launches.end());
  into->preemptions.insert(into->preemptions.end(), from.preemptions.begin(),
                           from.preemptions.end());
  into->tuned = std::max(into->tuned, from.tuned);
}

}  // namespace

MeanPreemption MeanOfLatest(const std::vector<PreemptionSample>& samples, uint64_t most) {
  MeanPreemption mean;
  for (auto sample = samples.rbegin(); sample != samples.rend() && mean.count < most; ++sample) {
    mean.ns += static_cast<double>(sample->ns) * sample->count;
    mean.count += sample->count;
  }
  if (mean.count != 0) mean.ns /= static_cast<double>(mean.count);
  return mean;
}

void Normalize(Profile* profile) {
  for (auto& [key, kernel] : profile->kernels) {
    NormalizeLaunches(&kernel.launches);
    SortOnce(&kernel.preemptions);
    KeepLatest(&kernel.preemptions, kPreemptionsOfKernel);
  }
}

Status Merge(const Profile& from, Profile* into) {
  if (!from.gpu.name.empty() && !into->gpu.name.empty() && from.gpu.name != into->gpu.name) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "profiles of different GPUs do not go together: \"" + into->gpu.name +
                         "\" and \"" + from.gpu.name + "\"");
  }
  into->gpu = std::max(into->gpu, from.gpu);
  for (const auto& [key, kernel] : from.kernels) MergeKernel(kernel, &into->kernels[key]);
  Normalize(into);
  return {};
}

}  // namespace cupola::profiles
