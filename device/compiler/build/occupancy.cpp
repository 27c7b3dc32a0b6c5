#include "device/compiler/build/occupancy.h"

#include <algorithm>

namespace cupola::build {
namespace {

struct Limits {
  uint32_t arch;
  uint32_t warps;         // the most that are resident on an SM
  uint32_t blocks;        // the most that are resident on an SM
  uint32_t shared_bytes;  // shared memory of an SM for blocks
};

// Sorted by arch. An SM has 65,536 registers in four parts. Warps get them in units of 256.
constexpr Limits kLimits[] = {
    {70, 64, 32, 96 << 10},  {72, 64, 32, 96 << 10},  {75, 32, 16, 64 << 10},
    {80, 64, 32, 164 << 10}, {86, 48, 16, 100 << 10}, {87, 48, 16, 164 << 10},
    {89, 48, 24, 100 << 10}, {90, 64, 32, 228 << 10}, {120, 48, 24, 100 << 10},
};
constexpr uint32_t kWarpThreads = 32;
constexpr uint32_t kParts = 4;
constexpr uint32_t kPartRegisters = 65536 / kParts;
constexpr uint32_t kRegisterUnit = 256;
constexpr uint32_t kMaxRegisters = 255;
constexpr uint32_t kSharedUnit = 128;
constexpr uint32_t kSystemShared = 1024;  // reserved in each block, from sm_80 on

const Limits& LimitsOf(uint32_t arch) {
  for (const Limits& limits : kLimits) {
    if (limits.arch == arch) return limits;
  }
  return kLimits[7];
}

uint64_t RoundUp(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

Occupancy OccupancyOf(const BlockNeeds& needs, uint32_t arch) {
  const Limits& limits = LimitsOf(arch);
  const uint32_t warps = std::max(1u, (needs.threads + kWarpThreads - 1) / kWarpThreads);
  uint64_t blocks = std::min(limits.blocks, limits.warps / warps);
  if (needs.registers != 0) {
    const uint64_t per_warp = RoundUp(uint64_t{needs.registers} * kWarpThreads, kRegisterUnit);
    blocks = std::min<uint64_t>(blocks, kPartRegisters / per_warp * kParts / warps);
  }
  const uint64_t shared =
      RoundUp(needs.shared_bytes + (limits.arch >= 80 ? kSystemShared : 0), kSharedUnit);
  if (shared != 0) blocks = std::min(blocks, limits.shared_bytes / shared);
  Occupancy occupancy;
  occupancy.blocks = static_cast<uint32_t>(blocks);
  occupancy.warps = occupancy.blocks * warps;
  occupancy.max_warps = limits.warps;
  return occupancy;
}

uint32_t RegistersForBlocks(const BlockNeeds& needs, uint32_t blocks, uint32_t arch) {
  BlockNeeds trial = needs;
  for (trial.registers = kMaxRegisters / 8 * 8; trial.registers > 8; trial.registers -= 8) {
    if (OccupancyOf(trial, arch).blocks >= blocks) break;
  }
  return trial.registers;
}

std::optional<uint32_t> RegisterBound(const BlockNeeds& original, const BlockNeeds& variant, uint32_t arch) {
  const uint32_t blocks = OccupancyOf(original, arch).blocks;
  if (OccupancyOf(variant, arch).blocks >= blocks) return std::nullopt;
  // A thread gets registers in steps of 8. The variant is not bound to fewer than the original's step.
  const uint32_t own_step = (original.registers + 7) / 8 * 8;
  const uint32_t bound = std::max(own_step, RegistersForBlocks(variant, blocks, arch));
  return bound < variant.registers ? std::optional(bound) : std::nullopt;
}

}  // namespace cupola::build
