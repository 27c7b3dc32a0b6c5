// Hooks that learn which handle means which kernel, and when a handle stops meaning it. Images are
// passed on untouched, damaged ones too. CUDA Driver API, "Module Management", "Library Management".
#include "intercept/entry/module_hooks.h"

#include <cuda.h>
#include <pthread.h>

#include "intercept/entry/module_events.h"
#include "intercept/facts/streams.h"
#include "intercept/process/calls.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/handle_map.h"
#include "intercept/process/mutex_lock.h"
#include "intercept/process/thread_state.h"
#include "intercept/record/device_timing.h"
#include "intercept/record/kernel_names.h"
#include "intercept/record/recorder.h"

namespace cupola::intercept {
namespace {

// Held for the whole of a driver call that retains, releases or resets a primary context, and of the
// query whether a release has ended it.
pthread_mutex_t primary_mutex = PTHREAD_MUTEX_INITIALIZER;
// DeviceKey -> the device's primary context, as last retained.
HandleMap primary_contexts;

// A key for the HandleMap, of which 0 and 1 are no keys.
const void* DeviceKey(CUdevice device) {
  return reinterpret_cast<const void*>(static_cast<uintptr_t>(device) * 16 + 16);
}

// Makes the call that loads a module, and calls `note(module, context)` if it succeeded.
template <typename CallReal, typename Note>
CUresult LoadAndNote(CUmodule* module, CallReal&& call, Note&& note) noexcept {
  const CUresult result = call();
  if (result != CUDA_SUCCESS || module == nullptr) return result;
  const CUcontext context = CurrentContext();
  OnModuleOfNames(*module, context);
  note(*module, context);
  return result;
}

// Makes the call that loads a module from `image`, which the program gave.
template <typename CallReal>
CUresult LoadModule(CUmodule* module, const void* image, CallReal&& call) noexcept {
  if (!Watching()) return call();
  const HookScope scope;
  return LoadAndNote(module, call, [image](CUmodule loaded, CUcontext context) {
    OnModuleLoaded(loaded, image, context);
  });
}

template <typename CallReal>
CUresult Forget(const void* owner, CallReal&& call) noexcept {
  if (!Watching()) return call();
  const HookScope scope;
  ForgetOwner(owner);  // before the call: after it the handles may belong to another module
  OnUnloading(owner);
  return call();
}

void AnnounceEnding(CUcontext context) {
  ForgetContext(context);
  OnContextEnding(context);
}

LaunchContext* AnnounceEnded(CUcontext context) {
  LaunchContext* const kept = OnContextEnded(context);
  OnContextStreamsEnded(context);
  return kept;
}

// Everything is announced before the call, since after it the handles may belong to another context.
// Only OnContextGone comes after it: what was kept of the context may serve another one only when the
// driver has let the context's memory go.
template <typename CallReal>
CUresult EndContext(CUcontext context, CallReal&& call) noexcept {
  if (!Watching()) return call();
  const HookScope scope;
  EndTimingOf(context);
  AnnounceEnding(context);
  LaunchContext* const kept = AnnounceEnded(context);
  const CUresult result = call();
  if (result == CUDA_SUCCESS) OnContextGone(kept);
  return result;
}

bool IsPrimaryActive(CUdevice device) {
  unsigned flags = 0;
  int active = 0;
  const auto get_state =
      CUPOLA_CALL_REAL(cuDevicePrimaryCtxGetState, PFN_cuDevicePrimaryCtxGetState_v7000);
  return get_state(device, &flags, &active) == CUDA_SUCCESS && active != 0;
}

// The primary context of a device; null if it has had none. It is asked of the driver, since after a
// reset it may be another one than was retained last. No guarded launch is outstanding
// (calls/calls.def).
CUcontext PrimaryOf(CUdevice device) {
  const auto retain =
      CUPOLA_CALL_REAL(cuDevicePrimaryCtxRetain, PFN_cuDevicePrimaryCtxRetain_v7000);
  const auto release =
      CUPOLA_CALL_REAL(cuDevicePrimaryCtxRelease_v2, PFN_cuDevicePrimaryCtxRelease_v11000);
  CUcontext context = nullptr;
  if (IsPrimaryActive(device) && retain(&context, device) == CUDA_SUCCESS) {
    (void)release(device);
    return context;
  }
  return reinterpret_cast<CUcontext>(primary_contexts.Find(DeviceKey(device), 0));
}

template <typename CallReal>
CUresult ResetPrimary(CUdevice device, CallReal&& call) noexcept {
  if (!Watching()) return call();
  const MutexLock lock(primary_mutex);
  return EndContext(PrimaryOf(device), call);
}

// Only the last release ends the context, and before the call nobody knows whether it is the last. The
// mutex keeps other threads from retaining the context before that is known: what they would get could
// be a new context, without anything that was made for this one.
template <typename CallReal>
CUresult ReleasePrimary(CUdevice device, CallReal&& call) noexcept {
  if (!Watching()) return call();
  const HookScope scope;
  const MutexLock lock(primary_mutex);
  const CUcontext context = PrimaryOf(device);
  FlushTimingOf(context);
  AnnounceEnding(context);
  const CUresult result = call();
  if (context == nullptr) return result;
  if (IsPrimaryActive(device)) {
    ResumeTimingOf(context);
    OnContextKept(context);
  } else {
    ForgetTimingOf(context);
    OnContextGone(AnnounceEnded(context));
  }
  return result;
}

// Destroys a green context. The device's primary context was retained when the green context was made,
// and may end with it.
CUresult ReleaseGreen(CUgreenCtx green) noexcept {
  const auto real = CUPOLA_CALL_REAL(cuGreenCtxDestroy, PFN_cuGreenCtxDestroy_v12040);
  const auto to_context = CUPOLA_CALL_REAL(cuCtxFromGreenCtx, PFN_cuCtxFromGreenCtx_v12040);
  CUcontext context = nullptr;
  if (!Watching() || to_context(&context, green) != CUDA_SUCCESS) return real(green);
  const auto push = CUPOLA_CALL_REAL(cuCtxPushCurrent_v2, PFN_cuCtxPushCurrent_v4000);
  const auto pop = CUPOLA_CALL_REAL(cuCtxPopCurrent_v2, PFN_cuCtxPopCurrent_v4000);
  const auto get_device = CUPOLA_CALL_REAL(cuCtxGetDevice, PFN_cuCtxGetDevice_v2000);
  CUdevice device = -1;
  bool has_device = false;
  if (push(context) == CUDA_SUCCESS) {
    has_device = get_device(&device) == CUDA_SUCCESS;
    (void)pop(&context);
  }
  const auto end = [&] { return EndContext(context, [&] { return real(green); }); };
  return has_device ? ReleasePrimary(device, end) : end();
}

}  // namespace

void ResetModuleHooksAfterFork() noexcept {
  primary_mutex = PTHREAD_MUTEX_INITIALIZER;
  primary_contexts.ResetAfterFork();
}

extern "C" {

CUresult hook_cuModuleLoad(CUmodule* module, const char* file) noexcept {
  const auto call = [&] { return CUPOLA_REAL(cuModuleLoad)(module, file); };
  if (!Watching()) return call();
  const HookScope scope;
  const FileFacts before = LookAtImageFile(file);
  return LoadAndNote(module, call, [&](CUmodule loaded, CUcontext context) {
    OnModuleFileLoaded(loaded, file, before, context);
  });
}

CUresult hook_cuModuleLoadData(CUmodule* module, const void* image) noexcept {
  return LoadModule(module, image, [&] { return CUPOLA_REAL(cuModuleLoadData)(module, image); });
}

CUresult hook_cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned count,
                                 CUjit_option* options, void** values) noexcept {
  return LoadModule(module, image, [&] {
    return CUPOLA_REAL(cuModuleLoadDataEx)(module, image, count, options, values);
  });
}

CUresult hook_cuModuleLoadFatBinary(CUmodule* module, const void* image) noexcept {
  return LoadModule(module, image,
                    [&] { return CUPOLA_REAL(cuModuleLoadFatBinary)(module, image); });
}

CUresult hook_cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* jit_options,
                                void** jit_values, unsigned jit_count, CUlibraryOption* options,
                                void** values, unsigned count) noexcept {
  const auto real = CUPOLA_REAL(cuLibraryLoadData);
  if (!Watching()) {
    return real(library, code, jit_options, jit_values, jit_count, options, values, count);
  }
  const HookScope scope;
  const CUresult result =
      real(library, code, jit_options, jit_values, jit_count, options, values, count);
  if (result == CUDA_SUCCESS && library != nullptr) OnLibraryLoaded(*library, code);
  return result;
}

CUresult hook_cuLibraryLoadFromFile(CUlibrary* library, const char* file,
                                    CUjit_option* jit_options, void** jit_values,
                                    unsigned jit_count, CUlibraryOption* options, void** values,
                                    unsigned count) noexcept {
  const auto call = [&] {
    return CUPOLA_REAL(cuLibraryLoadFromFile)(library, file, jit_options, jit_values, jit_count,
                                              options, values, count);
  };
  if (!Watching()) return call();
  const HookScope scope;
  const FileFacts before = LookAtImageFile(file);
  const CUresult result = call();
  if (result == CUDA_SUCCESS && library != nullptr) {
    OnLibraryFileLoaded(*library, file, before);
  }
  return result;
}

CUresult hook_cuModuleUnload(CUmodule module) noexcept {
  return Forget(module, [&] { return CUPOLA_REAL(cuModuleUnload)(module); });
}

CUresult hook_cuLibraryUnload(CUlibrary library) noexcept {
  return Forget(library, [&] { return CUPOLA_REAL(cuLibraryUnload)(library); });
}

CUresult hook_cuModuleGetFunction(CUfunction* function, CUmodule module,
                                  const char* name) noexcept {
  const auto real = CUPOLA_REAL(cuModuleGetFunction);
  if (!Watching()) return real(function, module, name);
  const HookScope scope;
  const CUresult result = real(function, module, name);
  if (result == CUDA_SUCCESS && function != nullptr) {
    NameKernel(*function, module, name);
    OnKernelGot(*function, module, name);
  }
  return result;
}

CUresult hook_cuModuleEnumerateFunctions(CUfunction* functions, unsigned count,
                                         CUmodule module) noexcept {
  const auto real = CUPOLA_REAL(cuModuleEnumerateFunctions);
  if (!Watching()) return real(functions, count, module);
  const HookScope scope;
  const CUresult result = real(functions, count, module);
  for (unsigned i = 0; result == CUDA_SUCCESS && functions != nullptr && i < count; ++i) {
    NameEnumerated(functions[i], module);
    OnKernelEnumerated(functions[i], module);
  }
  return result;
}

CUresult hook_cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) noexcept {
  const auto real = CUPOLA_REAL(cuLibraryGetKernel);
  if (!Watching()) return real(kernel, library, name);
  const HookScope scope;
  const CUresult result = real(kernel, library, name);
  if (result == CUDA_SUCCESS && kernel != nullptr) {
    NameKernel(*kernel, library, name);
    OnKernelGot(*kernel, library, name);
  }
  return result;
}

CUresult hook_cuLibraryEnumerateKernels(CUkernel* kernels, unsigned count,
                                        CUlibrary library) noexcept {
  const auto real = CUPOLA_REAL(cuLibraryEnumerateKernels);
  if (!Watching()) return real(kernels, count, library);
  const HookScope scope;
  const CUresult result = real(kernels, count, library);
  for (unsigned i = 0; result == CUDA_SUCCESS && kernels != nullptr && i < count; ++i) {
    NameEnumerated(kernels[i], library);
    OnKernelEnumerated(kernels[i], library);
  }
  return result;
}

CUresult hook_cuKernelGetFunction(CUfunction* function, CUkernel kernel) noexcept {
  const auto real = CUPOLA_REAL(cuKernelGetFunction);
  if (!Watching()) return real(function, kernel);
  const HookScope scope;
  const CUresult result = real(function, kernel);
  if (result == CUDA_SUCCESS && function != nullptr) {
    AliasKernel(*function, kernel);
    OnKernelAliasGot(*function, kernel);
  }
  return result;
}

CUresult hook_cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute,
                                 int value) noexcept {
  const HookScope scope;
  const CUresult result = CUPOLA_REAL(cuFuncSetAttribute)(function, attribute, value);
  if (result == CUDA_SUCCESS) OnKernelAttributeSet(function, attribute, value);
  return result;
}

CUresult hook_cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel,
                                   CUdevice device) noexcept {
  const HookScope scope;
  const CUresult result = CUPOLA_REAL(cuKernelSetAttribute)(attribute, value, kernel, device);
  if (result == CUDA_SUCCESS) OnKernelAttributeSet(kernel, attribute, value);
  return result;
}

CUresult hook_cuCtxDestroy(CUcontext context) noexcept {
  return EndContext(context, [&] { return CUPOLA_REAL(cuCtxDestroy)(context); });
}

CUresult hook_cuCtxDestroy_v2(CUcontext context) noexcept {
  return EndContext(context, [&] { return CUPOLA_REAL(cuCtxDestroy_v2)(context); });
}

CUresult hook_cuCtxDetach(CUcontext context) noexcept {
  return EndContext(context, [&] { return CUPOLA_REAL(cuCtxDetach)(context); });
}

CUresult hook_cuGreenCtxDestroy(CUgreenCtx green) noexcept { return ReleaseGreen(green); }

CUresult hook_cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) noexcept {
  const auto real = CUPOLA_REAL(cuDevicePrimaryCtxRetain);
  if (!Watching()) return real(context, device);
  const HookScope scope;
  const MutexLock lock(primary_mutex);
  const CUresult result = real(context, device);
  if (result == CUDA_SUCCESS && context != nullptr) {
    primary_contexts.Set(DeviceKey(device), reinterpret_cast<uint64_t>(*context));
  }
  return result;
}

CUresult hook_cuDevicePrimaryCtxReset(CUdevice device) noexcept {
  return ResetPrimary(device, [&] { return CUPOLA_REAL(cuDevicePrimaryCtxReset)(device); });
}

CUresult hook_cuDevicePrimaryCtxReset_v2(CUdevice device) noexcept {
  return ResetPrimary(device, [&] { return CUPOLA_REAL(cuDevicePrimaryCtxReset_v2)(device); });
}

CUresult hook_cuDevicePrimaryCtxRelease(CUdevice device) noexcept {
  return ReleasePrimary(device, [&] { return CUPOLA_REAL(cuDevicePrimaryCtxRelease)(device); });
}

CUresult hook_cuDevicePrimaryCtxRelease_v2(CUdevice device) noexcept {
  return ReleasePrimary(device, [&] { return CUPOLA_REAL(cuDevicePrimaryCtxRelease_v2)(device); });
}

}  // extern "C"
}  // namespace cupola::intercept
