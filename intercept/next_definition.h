// Which libcudart a caller would have called, had we not been in front: found per call site, since
// a process may hold several libcudarts, loaded with RTLD_LOCAL. Lock-free once a call site is
// known.
#pragma once

#include <cstdint>

#include "intercept/handle_map.h"

namespace cupola::intercept {

/// The runtime's calls that are hooked.
enum class DoorName : uint8_t {
  k_cudaLaunchKernel,
  k_cudaLaunchKernel_ptsz,
  k___cudaLaunchKernel,
  k___cudaLaunchKernel_ptsz,
  k_cudaLaunchKernelExC,
  k_cudaLaunchKernelExC_ptsz,
  k_cudaLaunchCooperativeKernel,
  k_cudaLaunchCooperativeKernel_ptsz,
  kCount
};

/// Call site -> definition, one map a door. An entry stays true while the caller is loaded: the
/// libcudart found is pinned. Should another object be loaded at the address of an unloaded caller
/// and call from the very same place, it gets the first one's libcudart.
extern HandleMap definitions[static_cast<size_t>(DoorName::kCount)];

/// The definition that a call site is known to mean, or null. Lock-free.
inline void* KnownDefinition(DoorName door, const void* caller) noexcept {
  return reinterpret_cast<void*>(definitions[static_cast<size_t>(door)].Find(caller, 0));
}

/// The definition of `door` that the object holding the address `caller` means: that of the
/// libcudart among its own needed libraries; else the next in the global scope; else that of any
/// libcudart in the process. Null when there is none. `caller` is a return address: a caller that
/// reached us by a tail call is taken for its own caller, which matters only between libraries of
/// different libcudarts.
void* NextDefinition(DoorName door, const void* caller) noexcept;

}  // namespace cupola::intercept
