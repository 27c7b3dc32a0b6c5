#include "device/sim/cudart/runtime.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <iterator>
#include <mutex>

#include <dlfcn.h>
#include <pthread.h>

#include "base/standard_error.h"

namespace cupola::cudart {
namespace {

constexpr int kMaxDevices = 16;

struct State {
  std::once_flag once;
  cudaError_t status = cudaErrorInsufficientDriver;
  DriverCalls legacy;
  DriverCalls per_thread;
  std::mutex devices_mutex;
  CUcontext primary[kMaxDevices] = {};
};

State& TheState() {
  static State* state = new State;  // never freed: see runtime.h
  return *state;
}

std::atomic<bool> is_forked_child{false};
std::atomic<bool> is_exiting{false};
thread_local cudaError_t last_error = cudaSuccess;
thread_local int current_device = 0;

using GetProcAddress = CUresult (*)(const char*, void**, int, cuuint64_t,
                                    CUdriverProcAddressQueryResult*);

void Resolve(GetProcAddress get, cuuint64_t flags, DriverCalls* calls) {
  CUdriverProcAddressQueryResult status;
// The name must become text before the macros of cuda.h replace it by its _v2 form.
#define CUPOLA_RESOLVE(text, name, version)                                                      \
  {                                                                                              \
    void* pointer = nullptr;                                                                     \
    if (get(text, &pointer, version, flags, &status) != CUDA_SUCCESS) pointer = nullptr;         \
    calls->name = reinterpret_cast<decltype(calls->name)>(pointer);                              \
  }
#define CUPOLA_DRIVER_CALL(name) CUPOLA_RESOLVE(#name, name, CUDA_VERSION)
#define CUPOLA_DRIVER_CALL_AT(name, version) CUPOLA_RESOLVE(#name, name, version)
#include "device/sim/cudart/driver_calls.def"
#undef CUPOLA_DRIVER_CALL
#undef CUPOLA_RESOLVE
}

bool IsComplete(const DriverCalls& calls) {
#define CUPOLA_DRIVER_CALL(name) \
  if (calls.name == nullptr) return false;
#include "device/sim/cudart/driver_calls.def"
#undef CUPOLA_DRIVER_CALL
  return true;
}

void Open(State* state) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return;
  const auto get = reinterpret_cast<GetProcAddress>(dlsym(driver, "cuGetProcAddress_v2"));
  if (get == nullptr) return;
  if (void* take = dlsym(driver, kTakeStandardErrorName)) {  // the simulated driver is loaded late
    reinterpret_cast<TakeStandardErrorFunction>(take)(&StandardErrorAtStart());
  }
  Resolve(get, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &state->legacy);
  Resolve(get, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &state->per_thread);
  if (!IsComplete(state->legacy) || !IsComplete(state->per_thread)) return;
  int version = 0;
  if (state->legacy.cuDriverGetVersion(&version) != CUDA_SUCCESS || version < CUDA_VERSION) return;
  pthread_atfork(nullptr, nullptr, [] { is_forked_child.store(true); });
  std::atexit([] { is_exiting.store(true); });
  state->status = static_cast<cudaError_t>(state->legacy.cuInit(0));
}

}  // namespace

cudaError_t EnterDriver(const DriverCalls** calls) {
  State& state = TheState();
  std::call_once(state.once, [&state] { Open(&state); });
  if (is_forked_child.load(std::memory_order_relaxed)) return cudaErrorInitializationError;
  *calls = &state.legacy;
  return state.status;
}

cudaError_t Enter(const DriverCalls** calls, bool per_thread) {
  if (const cudaError_t error = EnterDriver(calls); error != cudaSuccess) return error;
  CUcontext context = nullptr;
  if ((*calls)->cuCtxGetCurrent(&context) != CUDA_SUCCESS || context == nullptr) {
    if (const cudaError_t error = SelectDevice(current_device); error != cudaSuccess) return error;
  }
  if (per_thread) *calls = &TheState().per_thread;
  return cudaSuccess;
}

cudaError_t Leave(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

cudaError_t Leave(CUresult result) { return Leave(static_cast<cudaError_t>(result)); }

int CurrentDevice() { return current_device; }

cudaError_t SelectDevice(int device) {
  const DriverCalls* calls = nullptr;
  if (const cudaError_t error = EnterDriver(&calls); error != cudaSuccess) return error;
  CUdevice handle = 0;
  if (device < 0 || device >= kMaxDevices || calls->cuDeviceGet(&handle, device) != CUDA_SUCCESS) {
    return cudaErrorInvalidDevice;
  }
  State& state = TheState();
  std::lock_guard lock(state.devices_mutex);
  CUcontext& primary = state.primary[device];
  if (primary == nullptr) {
    const CUresult result = calls->cuDevicePrimaryCtxRetain(&primary, handle);
    if (result != CUDA_SUCCESS) return static_cast<cudaError_t>(result);
  }
  const CUresult result = calls->cuCtxSetCurrent(primary);
  if (result == CUDA_SUCCESS) current_device = device;
  return static_cast<cudaError_t>(result);
}

bool IsPrimaryContext(CUcontext context) {
  State& state = TheState();
  std::lock_guard lock(state.devices_mutex);
  return std::find(std::begin(state.primary), std::end(state.primary), context) !=
         std::end(state.primary);
}

bool IsExiting() { return is_exiting.load(); }

void ForgetPrimaryContext() {
  State& state = TheState();
  std::lock_guard lock(state.devices_mutex);
  state.primary[current_device] = nullptr;
}

}  // namespace cupola::cudart

extern "C" cudaError_t cudaGetLastError() {
  const cudaError_t error = cupola::cudart::last_error;
  cupola::cudart::last_error = cudaSuccess;
  return error;
}

extern "C" cudaError_t cudaPeekAtLastError() { return cupola::cudart::last_error; }
