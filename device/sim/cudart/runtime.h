// The small CUDA runtime of the simulated device: what its files share. It is a translation onto
// the public driver API, whose entry points it asks of "libcuda.so.1" as NVIDIA's runtime does, so
// that whatever stands in front of the driver stands in front of it too.
//
// Thread rule: everything here may be called from any thread. Nothing is freed at exit, on purpose:
// threads of the program may still launch while its destructors run.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace cupola::cudart {

/// The driver's entry points, all of them: a driver that lacks one is too old for this runtime.
struct DriverCalls {
#define CUPOLA_DRIVER_CALL(name) decltype(&::name) name = nullptr;
#include "device/sim/cudart/driver_calls.def"
#undef CUPOLA_DRIVER_CALL
};

/// Opens the driver at the first call and makes a context current in this thread (the primary one
/// of its device). On success `*calls` is the table whose default stream is the legacy one, or the
/// per-thread one. Errors: cudaErrorInsufficientDriver, cudaErrorInitializationError after fork(),
/// the driver's own.
cudaError_t Enter(const DriverCalls** calls, bool per_thread);

/// Like Enter, without a context.
cudaError_t EnterDriver(const DriverCalls** calls);

/// The program is ending: handlers of exit() that were there before the driver was opened run.
bool IsExiting();

/// The runtime's form of a driver result; remembers it as the thread's last error unless it is
/// success or cudaErrorNotReady. Codes are equal in both APIs.
cudaError_t Leave(CUresult result);
cudaError_t Leave(cudaError_t error);

/// The thread's device, and setting it (retains its primary context).
int CurrentDevice();
cudaError_t SelectDevice(int device);
/// Whether the runtime itself made the context current, as the primary one of a device.
bool IsPrimaryContext(CUcontext context);
/// After a reset: the next use of the thread's device retains a fresh primary context.
void ForgetPrimaryContext();

/// The kernel behind `function`: the address of a host stub, or a handle from __cudaGetKernel or
/// cudaGetKernel. Loads its module. Error: cudaErrorInvalidDeviceFunction, or that of the load.
cudaError_t FindKernel(const DriverCalls& calls, const void* function, CUkernel* kernel);
cudaError_t FindFunction(const DriverCalls& calls, const void* function, CUfunction* out);

/// The device address and size in bytes of the variable with this host symbol. Loads its module.
/// Error: cudaErrorInvalidSymbol.
cudaError_t FindSymbol(const DriverCalls& calls, const void* symbol, CUdeviceptr* address,
                       size_t* bytes);

inline CUdeviceptr DevicePointer(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

}  // namespace cupola::cudart

// Defines a runtime call as a driver call: `expression` may use `calls` and gives a CUresult or a
// cudaError_t. CUPOLA_CUDART_STREAM_CALL defines the per-thread-default-stream form beside it.
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
