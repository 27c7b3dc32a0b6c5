// What the files of the simulated device's small CUDA runtime share. The runtime translates each
// call to the public driver API. It asks "libcuda.so.1" for the entry points, as NVIDIA's runtime
// does, so a library in front of the driver also sees the calls of this runtime.
//
// Everything here may be called from any thread. Nothing is freed at exit, on purpose: threads of
// the program may still launch while its destructors run.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace cupola::cudart {

/// The entry points of the driver that this runtime uses. A driver that lacks one is too old for
/// it.
struct DriverCalls {
#define CUPOLA_DRIVER_CALL(name) decltype(&::name) name = nullptr;
#include "device/sim/cudart/driver_calls.def"
#undef CUPOLA_DRIVER_CALL
};

/// Begins a call: opens the driver at the first call of the process and, if no context is current
/// in this thread, makes the primary context of the thread's device current. On success `*calls` is
/// the table of entry points in which a null stream means the legacy default stream or, with
/// `per_thread`, the per-thread one. Errors: cudaErrorInsufficientDriver where there is no driver,
/// or one that is too old; cudaErrorInitializationError in a child of fork(); the driver's own.
cudaError_t Enter(const DriverCalls** calls, bool per_thread);

/// As Enter, without a context; the table is that of the legacy default stream.
cudaError_t EnterDriver(const DriverCalls** calls);

/// Whether the program is ending. The runtime registers a handler with atexit() when it opens the
/// driver, and exit() runs handlers in reverse order. So this is true for handlers and destructors
/// that were registered before that, and false for those registered later, which run first.
bool IsExiting();

/// Ends a call: returns a driver's result as the runtime's (the codes are equal in both APIs), and
/// remembers it as the thread's last error (cudaGetLastError) unless it is success or
/// cudaErrorNotReady.
cudaError_t Leave(CUresult result);
cudaError_t Leave(cudaError_t error);

/// The calling thread's device.
int CurrentDevice();
/// Makes `device` the calling thread's device, and its primary context current. The runtime retains
/// each primary context once.
cudaError_t SelectDevice(int device);
/// Whether the context is a primary context that the runtime has retained.
bool IsPrimaryContext(CUcontext context);
/// To be called after a reset: the next use of the thread's device retains a fresh primary context.
void ForgetPrimaryContext();

/// The kernel that `function` means: the address of a host stub, or a handle from __cudaGetKernel
/// or cudaGetKernel. Loads its module at first use. Errors: cudaErrorInvalidDeviceFunction, or that
/// of the load.
cudaError_t FindKernel(const DriverCalls& calls, const void* function, CUkernel* kernel);
/// The same as a function of the current context.
cudaError_t FindFunction(const DriverCalls& calls, const void* function, CUfunction* out);

/// The device address and size in bytes of the variable with this host symbol. Loads its module at
/// first use. Error: cudaErrorInvalidSymbol.
cudaError_t FindSymbol(const DriverCalls& calls, const void* symbol, CUdeviceptr* address,
                       size_t* bytes);

inline CUdeviceptr DevicePointer(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

}  // namespace cupola::cudart

// Defines the exported function of a runtime call: Enter, then `expression`, then Leave.
// `expression` may use `calls`, the table of Enter, and gives a CUresult or a cudaError_t.
// CUPOLA_CUDART_STREAM_CALL also defines `name##suffix`, in which a null stream is the per-thread
// one; the suffix is CUDA's, _ptsz or _ptds.
#define CUPOLA_CUDART_DEFINE(name, per_thread, parameters, expression)                 \
  extern "C" cudaError_t name parameters {                                             \
    const cupola::cudart::DriverCalls* entered = nullptr;                              \
    if (const cudaError_t error = cupola::cudart::Enter(&entered, per_thread);         \
        error != cudaSuccess) {                                                        \
      return cupola::cudart::Leave(error);                                             \
    }                                                                                  \
    [[maybe_unused]] const cupola::cudart::DriverCalls& calls = *entered;              \
    return cupola::cudart::Leave(expression);                                          \
  }
#define CUPOLA_CUDART_CALL(name, parameters, expression) \
  CUPOLA_CUDART_DEFINE(name, false, parameters, expression)
#define CUPOLA_CUDART_STREAM_CALL(name, suffix, parameters, expression) \
  CUPOLA_CUDART_DEFINE(name, false, parameters, expression)             \
  CUPOLA_CUDART_DEFINE(name##suffix, true, parameters, expression)
