// The launch of a variant in place of the program's: the arguments, packed as the kernel's parameter
// block is laid out, the launch attributes that mean the same for the variant (P9: an attribute is kept
// or the launch refused, never dropped), and the driver's call with both. The other functions only read
// the program's memory and write what they are given. Stateless; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <cuda.h>

#include "device/compiler/store/bundle.h"

namespace cupola::intercept {

struct Launch;
struct Variant;

/// The attributes of a variant's launch. Lives on the launching thread's stack.
struct KeptAttributes {
  static constexpr unsigned kMost = 8;
  CUlaunchAttribute list[kMost + 2];  // room for a priority and a carve-out that Cupola adds
  unsigned count = 0;
  bool has_priority = false;
  int32_t priority = 0;

  KeptAttributes() noexcept {}  // NOLINT: the list is written before it is read
  void SetPriority(int32_t value) noexcept;
  /// Sets how much of the SM's memory for L1 and shared memory is to be shared memory, in percent.
  void SetCarveout(uint32_t percent) noexcept;
};

/// Copies the attributes that matter to the variant. False: the launch has an attribute that its
/// variant cannot carry, or too many.
bool KeepAttributes(const Launch& launch, KeptAttributes* kept) noexcept;

/// Copies the arguments of `launch`, given as kernelParams or packed, to `to` (kArgumentBytes).
/// False: they are not as the bundle describes the kernel, or too large; then the launch goes out
/// plain and the driver judges them.
bool PackArguments(const Variant& variant, const Launch& launch, std::byte* to) noexcept;

/// Finds the buffer that `extra` of a launch call holds. False: `extra` is not in the form that
/// cuLaunchKernel wants.
bool UnpackExtra(void** extra, const std::byte** buffer, size_t* bytes) noexcept;

/// Copies the `bytes` of a kernel's parameters from that buffer to `to`. False: the buffer has not
/// exactly so many.
bool CopyPacked(void** extra, uint32_t bytes, void* to) noexcept;

/// Copies the arguments of a launch call to `to`, laid out as the `count` parameters say; they have `bytes` in
/// all. The call gives the arguments as `params` or as `extra`. `Parameter` has `offset` and `bytes`. False: the
/// arguments are not those of the kernel, or are given twice; the driver reports that. Bytes between parameters
/// are left as they are.
template <typename Parameter>
[[gnu::always_inline]] inline bool CopyArguments(void** params, void** extra, const Parameter* parameters,
                                                 uint32_t count, uint32_t bytes, void* to) noexcept {
  if (params != nullptr && extra != nullptr) return false;
  if (extra != nullptr) return CopyPacked(extra, bytes, to);
  if (count == 0) return true;
  if (params == nullptr) return false;
  for (uint32_t i = 0; i < count; ++i) {
    const Parameter& parameter = parameters[i];
    const void* const from = params[i];
    std::byte* const at = static_cast<std::byte*>(to) + parameter.offset;
    if (from == nullptr) return false;
    // For the usual sizes the compiler makes one load and one store.
    switch (parameter.bytes) {
      case 8: memcpy(at, from, 8); break;
      case 4: memcpy(at, from, 4); break;
      default: memcpy(at, from, parameter.bytes);
    }
  }
  return true;
}

/// Whether the driver has the parameters of `function`, the original kernel or a variant of it, at
/// the offsets that the bundle gives; the driver may have compiled either one itself. `own_bytes` is
/// the size of the parameter that a variant has in addition, 0 for the original. True if the driver
/// does not tell (before CUDA 12.4). May wait for the driver.
bool LieAsBundled(const Variant& variant, CUfunction function, uint32_t own_bytes) noexcept;

/// A launch of a row of blocks of a variant, a one-dimensional grid: a physical launch or a slice. Everything about it
/// except the number of blocks.
struct RowLaunch {
  CUfunction function;
  const uint32_t* block;  ///< three numbers
  uint32_t shared_bytes;
  CUstream stream;
  bool per_thread;  ///< the _ptsz form of the call: stream 0 is the per-thread default stream
  const KeptAttributes& attributes;
  std::byte* arguments;  ///< packed arguments
  size_t bytes;          ///< size of `arguments`
};

/// Makes the launch, by cuLaunchKernel, or by cuLaunchKernelEx if there are attributes. Returns
/// what the driver returned.
CUresult LaunchRow(const RowLaunch& row, uint32_t blocks) noexcept;

}  // namespace cupola::intercept
