// The edge: what every C call of libcuda.so.1 begins with, and how one body serves a call and its
// per-thread-stream form. Bodies are thin; what they do is in the Driver.
#pragma once

// All versions of every prototype, without the renaming macros: the compiler then checks each
// definition here against the toolkit's declaration.
#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>

#include "device/sim/driver/driver.h"
#include "device/sim/driver/result.h"
#include "device/sim/driver/say.h"

#define SIM_EXPORT extern "C" __attribute__((visibility("default")))

#define SIM_UNPAREN(...) __VA_ARGS__

/// Defines `symbol` and its twin `symbol##suffix` (_ptsz or _ptds). The body sees `null_means`.
#define SIM_CALL_BOTH(symbol, suffix, params, args)                                             \
  static CUresult symbol##_body(DefaultStream null_means, SIM_UNPAREN params);                  \
  SIM_EXPORT CUresult symbol params {                                                           \
    return symbol##_body(DefaultStream::kLegacy, SIM_UNPAREN args);                             \
  }                                                                                             \
  SIM_EXPORT CUresult symbol##suffix params {                                                   \
    return symbol##_body(DefaultStream::kPerThread, SIM_UNPAREN args);                          \
  }                                                                                             \
  static CUresult symbol##_body([[maybe_unused]] DefaultStream null_means, SIM_UNPAREN params)

namespace cupola::sim {

/// The process's driver. CUDA_ERROR_NOT_INITIALIZED before cuInit and in a child of fork,
/// CUDA_ERROR_DEINITIALIZED once the process's exit() has come to the handler that cuInit registered.
CUresult Enter(Driver** driver);
/// Also the calling thread's context; its sticky error is returned by this.
CUresult Enter(Driver** driver, Context** context);
/// Also the stream of a handle.
CUresult Enter(Driver** driver, Context** context, CUstream handle, DefaultStream null_means,
               std::shared_ptr<Stream>* stream);
/// The context of a handle, whichever is current; CUDA_ERROR_INVALID_CONTEXT where there is none.
CUresult FindContext(const void* handle, Driver** driver, std::shared_ptr<Context>* context);
/// Only 0 is a device.
CUresult CheckDevice(CUdevice device);

/// CUPOLA_SIM_DEVICES, 1 or 2. Both are the same device under two names, with the same SMs and
/// memory; of the second one contexts can be made, but it has no primary one.
int DeviceCount();
/// Device 0 only.
CUresult CheckHasPrimary(CUdevice device);

/// cuInit's work. Idempotent.
CUresult Initialize(uint32_t flags);

/// Whether the process is to be as a client of an MPS daemon is (CUPOLA_SIM_MPS).
bool SharesContext();

}  // namespace cupola::sim
