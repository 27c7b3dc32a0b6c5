// What a duration model is told of a launch (LaunchFeatures), and the variables that it makes of
// that: the four of FLEP section 4.2 (grid size, block size, input size, shared memory) and integer
// arguments. Plain data that the launch path fills in without allocation. Any thread.
#pragma once

#include <cstdint>

namespace cupola::models {

/// The largest number of a kernel's integer arguments that a model looks at.
inline constexpr uint32_t kMostIntegers = 8;

/// One launch, as the program asked for it.
struct LaunchFeatures {
  uint32_t grid[3] = {1, 1, 1};   ///< in blocks, x y z
  uint32_t block[3] = {1, 1, 1};  ///< in threads, x y z
  uint32_t dynamic_shared = 0;    ///< bytes
  bool has_input_bytes = false;   ///< false: nobody asked for input_bytes, or they are not known
  uint64_t input_bytes = 0;  ///< size of the distinct allocations that pointer arguments point into
  /// The arguments that PlanKernel::arguments names, in its order.
  int64_t integers[kMostIntegers] = {};
};

/// What limits how many blocks run at once (CUDA C Programming Guide, "Multiprocessor Level").
struct Machine {
  uint32_t sms = 0;
  uint32_t threads_per_sm = 0;
  uint32_t blocks_per_sm = 0;
  uint32_t registers_per_sm = 0;
  uint32_t shared_per_sm = 0;  ///< bytes
  uint32_t reserved = 0;
};
static_assert(sizeof(Machine) == 24);

/// What a kernel needs of an SM besides its threads.
struct KernelNeeds {
  uint32_t registers = 0;      ///< of a thread; 0 = not known
  uint32_t static_shared = 0;  ///< bytes
};

/// The variables. The terms of a model are products of them.
enum Variable : uint8_t {
  kOne,          ///< 1
  kBlocks,       ///< blocks of the grid
  kBlockThreads, ///< threads of a block
  kThreads,      ///< blocks * threads of a block
  kWaves,        ///< blocks divided by those that the GPU holds at once, rounded up
  kShared,       ///< shared memory of a block in bytes, static and dynamic
  kInputBytes,
  kInteger0,     ///< the first of kMostIntegers integer arguments
};
inline constexpr uint32_t kVariables = kInteger0 + kMostIntegers;

/// Blocks of this launch that one SM holds at once, at least 1. Registers are counted as the
/// hardware allocates them: to a warp, 256 at a time.
uint32_t BlocksPerSm(const Machine& machine, const KernelNeeds& needs,
                     const LaunchFeatures& launch) noexcept;

/// Blocks of this launch that the whole GPU holds at once, at least 1; 1 where the machine is not
/// known.
uint64_t BlocksAtOnce(const Machine& machine, const KernelNeeds& needs,
                      const LaunchFeatures& launch) noexcept;

/// Fills in `variables`. Takes about 10 ns.
void MakeVariables(const Machine& machine, const KernelNeeds& needs, const LaunchFeatures& launch,
                   double (&variables)[kVariables]) noexcept;

/// A hash that names the exact configuration: grid, block, dynamic shared memory and the first
/// `integers` integer arguments. Input bytes do not count, because the launch path asks for them
/// only where a model wants them.
uint64_t ConfigurationOf(const LaunchFeatures& launch, uint32_t integers) noexcept;

/// FNV-1a with 64 bits.
constexpr uint64_t HashBytes(const char* bytes, uint64_t count,
                             uint64_t hash = 0xCBF29CE484222325ull) {
  for (uint64_t i = 0; i < count; ++i) {
    hash = (hash ^ static_cast<uint8_t>(bytes[i])) * 0x100000001B3ull;
  }
  return hash;
}

}  // namespace cupola::models
