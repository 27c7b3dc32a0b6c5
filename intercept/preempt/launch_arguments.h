// What a variant's launch takes over from the program's: its arguments, packed as the kernel's
// parameter block is laid out, and those launch attributes that mean the same for it (P9: kept or
// refused, never dropped). Pure but for reading the program's memory; any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda.h>

#include "device/compiler/store/bundle.h"

namespace cupola::intercept::preempt {

struct LaunchCall;
struct Variant;

/// Attributes of a variant's launch.
struct KeptAttributes {
  static constexpr unsigned kMost = 8;
  CUlaunchAttribute list[kMost + 2];  // and a priority and a carve-out of ours
  unsigned count = 0;
  bool has_priority = false;
  int32_t priority = 0;

  KeptAttributes() noexcept {}  // NOLINT: the list is written before it is read
  void SetPriority(int32_t value) noexcept;
  /// Of the SM's memory for L1 and shared memory, what is to be shared memory, in percent.
  void SetCarveout(uint32_t percent) noexcept;
};

/// False: the launch has an attribute that its variant cannot carry, or too many.
bool KeepAttributes(const LaunchCall& call, KeptAttributes* kept) noexcept;

/// Copies the arguments of `call`, kernelParams or packed, to `to` (kArgumentBytes). False: they
/// are not as the bundle describes the kernel, or too large; the driver is to judge them.
bool PackArguments(const Variant& variant, const LaunchCall& call, std::byte* to) noexcept;

/// The buffer that `extra` of a launch call holds. False: it is not as cuLaunchKernel wants it.
bool UnpackExtra(void** extra, const std::byte** buffer, size_t* bytes) noexcept;

/// The kernel's parameters out of that buffer. False: it has not as many bytes as these.
bool CopyPacked(const store::KernelEntry& entry, void** extra, void* to) noexcept;

/// Whether the driver has the parameters of `function`, the original or a variant of it, where the
/// bundle says that they lie: it may have compiled either itself. `own_bytes`: of the parameter that
/// a variant has besides, 0 for the original. True where the driver does not tell (before CUDA 12.4).
/// May wait for the driver.
bool LieAsBundled(const Variant& variant, CUfunction function, uint32_t own_bytes) noexcept;

}  // namespace cupola::intercept::preempt
