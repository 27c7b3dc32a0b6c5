// What a variant's launch takes over from the program's: its arguments, packed as the kernel's
// parameter block is laid out, and those launch attributes that mean the same for it (P9: kept or
// refused, never dropped). Pure but for reading the program's memory; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <cuda.h>

#include "device/compiler/store/bundle.h"

namespace cupola::intercept {
struct Variant;
}

namespace cupola::intercept::preempt {

struct LaunchCall;

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

/// The `bytes` of a kernel's parameters out of that buffer. False: it has not as many.
bool CopyPacked(void** extra, uint32_t bytes, void* to) noexcept;

/// The arguments of a launch call, of which `params` or `extra` holds them, to where `count` parameters of
/// `bytes` in all lie. `Parameter` has `offset` and `bytes`. False: they are not what the kernel has, or are
/// given twice, which is the driver's to report. What lies between parameters is left as it is.
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
    // The usual sizes as loads and stores of their own.
    switch (parameter.bytes) {
      case 8: memcpy(at, from, 8); break;
      case 4: memcpy(at, from, 4); break;
      default: memcpy(at, from, parameter.bytes);
    }
  }
  return true;
}

/// Whether the driver has the parameters of `function`, the original or a variant of it, where the
/// bundle says that they lie: it may have compiled either itself. `own_bytes`: of the parameter that
/// a variant has besides, 0 for the original. True where the driver does not tell (before CUDA 12.4).
/// May wait for the driver.
bool LieAsBundled(const Variant& variant, CUfunction function, uint32_t own_bytes) noexcept;

}  // namespace cupola::intercept::preempt
