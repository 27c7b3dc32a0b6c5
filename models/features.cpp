#include "models/features.h"

#include <algorithm>

namespace cupola::models {
namespace {

constexpr uint32_t kWarpThreads = 32;
// The registers of a warp are allocated in units of this many.
constexpr uint32_t kRegisterUnit = 256;
constexpr uint32_t kSharedUnit = 128;         // bytes
constexpr uint32_t kSystemShared = 1024;      // bytes of each block that CUDA takes for itself

uint64_t Product(const uint32_t (&v)[3]) { return uint64_t{v[0]} * v[1] * v[2]; }

constexpr uint64_t RoundUp(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// The finaliser of SplitMix64: each bit of the input affects each bit of the output.
constexpr uint64_t Mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

}  // namespace

uint32_t BlocksPerSm(const Machine& machine, const KernelNeeds& needs,
                     const LaunchFeatures& launch) noexcept {
  const uint32_t threads = static_cast<uint32_t>(
      std::clamp<uint64_t>(Product(launch.block), 1, 1u << 16));
  const uint32_t warps = (threads + kWarpThreads - 1) / kWarpThreads;
  uint32_t most = std::max(machine.blocks_per_sm, 1u);
  most = std::min(most, machine.threads_per_sm / (warps * kWarpThreads));
  if (needs.registers != 0) {
    // In 64 bits: a plan may name any number.
    const uint64_t per_warp = RoundUp(uint64_t{needs.registers} * kWarpThreads, kRegisterUnit);
    most = static_cast<uint32_t>(std::min<uint64_t>(most, machine.registers_per_sm / (per_warp * warps)));
  }
  const uint64_t shared = uint64_t{needs.static_shared} + launch.dynamic_shared;
  const uint64_t taken = (shared + kSystemShared + kSharedUnit - 1) / kSharedUnit * kSharedUnit;
  most = static_cast<uint32_t>(std::min<uint64_t>(most, machine.shared_per_sm / taken));
  return std::max(most, 1u);
}

uint64_t BlocksAtOnce(const Machine& machine, const KernelNeeds& needs,
                      const LaunchFeatures& launch) noexcept {
  if (machine.sms == 0) return 1;
  return uint64_t{machine.sms} * BlocksPerSm(machine, needs, launch);
}

void MakeVariables(const Machine& machine, const KernelNeeds& needs, const LaunchFeatures& launch,
                   double (&variables)[kVariables]) noexcept {
  const uint64_t blocks = Product(launch.grid);
  const uint64_t threads = Product(launch.block);
  const uint64_t at_once = BlocksAtOnce(machine, needs, launch);
  variables[kOne] = 1;
  variables[kBlocks] = static_cast<double>(blocks);
  variables[kBlockThreads] = static_cast<double>(threads);
  variables[kThreads] = static_cast<double>(blocks) * static_cast<double>(threads);
  variables[kWaves] = static_cast<double>((blocks + at_once - 1) / at_once);
  variables[kShared] = static_cast<double>(uint64_t{needs.static_shared} + launch.dynamic_shared);
  variables[kInputBytes] = static_cast<double>(launch.input_bytes);
  for (uint32_t i = 0; i < kMostIntegers; ++i) {
    variables[kInteger0 + i] = static_cast<double>(launch.integers[i]);
  }
}

uint64_t ConfigurationOf(const LaunchFeatures& launch, uint32_t integers) noexcept {
  uint64_t number = 0x9E3779B97F4A7C15ull;
  for (int i = 0; i < 3; ++i) {
    number = Mix(number + ((uint64_t{launch.grid[i]} << 32) | launch.block[i]));
  }
  number = Mix(number + launch.dynamic_shared);
  for (uint32_t i = 0; i < std::min(integers, kMostIntegers); ++i) {
    number = Mix(number + static_cast<uint64_t>(launch.integers[i]));
  }
  return number;
}

}  // namespace cupola::models
