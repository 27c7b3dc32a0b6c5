// Helpers for the C calls that the simulated libcuda.so.1 exports (api_*.cpp): the checks that every
// call begins with, and the macro that defines a call together with its per-thread-stream form.
// The bodies of the calls are thin; the work is done by the Driver. Every function here may be
// called from any thread.
#pragma once

// Makes cuda.h declare every version of every call under its real name, without the renaming macros.
// The compiler then checks each of our definitions against the toolkit's declaration.
#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>

#include "device/sim/driver/driver.h"
#include "device/sim/driver/result.h"
#include "device/sim/driver/say.h"

#define SIM_EXPORT extern "C" __attribute__((visibility("default")))

#define SIM_UNPAREN(...) __VA_ARGS__

/// Defines `symbol` and its per-thread-stream form `symbol##suffix` (_ptsz or _ptds) with one body.
/// In the body, `null_means` says which default stream a null stream handle means.
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

/// Gives the process's driver. CUDA_ERROR_NOT_INITIALIZED before cuInit and in a child of fork;
/// CUDA_ERROR_DEINITIALIZED once exit() has run the handler that cuInit registered.
CUresult Enter(Driver** driver);
/// Gives also the calling thread's current context, and returns that context's sticky error.
/// CUDA_ERROR_INVALID_CONTEXT where none is current, CUDA_ERROR_CONTEXT_IS_DESTROYED where another
/// thread has destroyed it.
CUresult Enter(Driver** driver, Context** context);
/// Gives also the stream that `handle` means. For a created stream, `context` becomes the stream's
/// own context, whichever is current. CUDA_ERROR_INVALID_HANDLE for what is no stream.
CUresult Enter(Driver** driver, Context** context, CUstream handle, DefaultStream null_means,
               std::shared_ptr<Stream>* stream);
/// Gives the context that `handle` names, whichever is current. CUDA_ERROR_INVALID_CONTEXT where
/// `handle` names none.
CUresult FindContext(const void* handle, Driver** driver, std::shared_ptr<Context>* context);
/// CUDA_ERROR_INVALID_DEVICE unless `device` is at least 0 and less than DeviceCount().
CUresult CheckDevice(CUdevice device);

/// The number of devices: CUPOLA_SIM_DEVICES, 1 or 2. The second is the same device under another
/// name, with the same SMs and memory. Contexts can be created on it, but it has no primary context.
int DeviceCount();
/// As CheckDevice; besides, CUDA_ERROR_NOT_SUPPORTED for every device but 0.
CUresult CheckHasPrimary(CUdevice device);

/// Does the work of cuInit. Calls after the first successful one change nothing.
CUresult Initialize(uint32_t flags);

/// Whether the process is to behave as a client of an MPS daemon does (CUPOLA_SIM_MPS=1).
bool SharesContext();

}  // namespace cupola::sim
