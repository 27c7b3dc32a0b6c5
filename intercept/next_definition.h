// Which libcudart a caller would have called, had we not been in front: found per call site, since
// a process may hold several libcudarts, loaded with RTLD_LOCAL. Lock-free once a call site is
// known.
#pragma once

#include <cstdint>

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

/// The definition of `door` that the object holding the address `caller` means: that of the
/// libcudart among its own needed libraries; else the next in the global scope; else that of any
/// libcudart in the process. Null when there is none. `caller` is a return address: a caller that
/// reached us by a tail call is taken for its own caller, which matters only between libraries of
/// different libcudarts.
void* NextDefinition(DoorName door, const void* caller) noexcept;

}  // namespace cupola::intercept
