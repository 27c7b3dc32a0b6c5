#include "intercept/process/driver.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include <cuda.h>
#include <dlfcn.h>

#include "base/later_calls.h"
#include "base/standard_error.h"
#include "intercept/process/calls.h"
#include "intercept/process/door.h"
#include "intercept/process/driver_search.h"
#include "intercept/process/first_call.h"
#include "intercept/process/notice.h"
#include "intercept/process/own_stack.h"
#include "intercept/process/thread_state.h"

extern "C" cupola::intercept::DoorFacts cupola_door __attribute__((weak));

namespace cupola::intercept {

std::atomic<void (*)() noexcept> start_process{nullptr};

namespace {

void* Open(const char* file, int mode) { return (HasDoor() ? cupola_door.open : &dlopen)(file, mode); }

void* Find(void* handle, const char* name) {
  return HasDoor() ? cupola_door.find(handle, name) : dlsym(handle, name);
}

}  // namespace

// Runs before the constructor of base/standard_error.cpp, which would take what standard error is now; the program may
// have changed it by then. If the library is loaded with the program, the door may not have recorded it yet.
__attribute__((constructor(200))) static void TakeDoorsStandardError() {
  if (HasDoor() && cupola_door.is_noted.load(std::memory_order_acquire)) {
    TakeStandardError(cupola_door.standard_error);
  }
}

bool HasDoor() noexcept { return &cupola_door != nullptr; }

const char* const kCallNames[kCallCount] = {
#define CUPOLA_CALL(name, ...) #name,
#include "intercept/calls.inc"
#undef CUPOLA_CALL
};

namespace {

std::atomic<void*> driver_handle{nullptr};  // of dlopen, never closed; null until the driver is open
std::atomic<bool> is_simulated{false};
std::atomic<bool> driver_missing{false};  // no driver was found; the process does not search again

// The functions that stand in for the driver's: MissingCall for a call that the driver lacks, NoDriver for all calls
// if there is no driver, and NotReady for a call that comes while its thread is loading the driver.
CUresult MissingCall() noexcept {
  static std::atomic_flag said;
  SayOnce(said, Level::kDebug, {"a call was made that the driver lacks: CUDA_ERROR_NOT_FOUND"});
  return CUDA_ERROR_NOT_FOUND;
}
CUresult NoDriver() noexcept { return CUDA_ERROR_NO_DEVICE; }
CUresult NotReady() noexcept { return CUDA_ERROR_NOT_INITIALIZED; }

// cuGetErrorName and cuGetErrorString without a driver. They know only the error that NoDriver returns.
CUresult NoDriverText(CUresult error, const char** text, const char* name) noexcept {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *text = error == CUDA_ERROR_NO_DEVICE ? name : nullptr;
  return error == CUDA_ERROR_NO_DEVICE ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult NoDriverErrorName(CUresult error, const char** text) noexcept {
  return NoDriverText(error, text, "CUDA_ERROR_NO_DEVICE");
}
CUresult NoDriverErrorString(CUresult error, const char** text) noexcept {
  return NoDriverText(error, text, "no CUDA-capable device is detected");
}

void SetReal(size_t index, void* function) {
  __atomic_store_n(&cupola_real[index], function, __ATOMIC_RELEASE);
}

void FillWithoutDriver() {
  for (size_t i = 0; i < kCallCount; ++i) SetReal(i, reinterpret_cast<void*>(&NoDriver));
  SetReal(static_cast<size_t>(Call::k_cuGetErrorName), reinterpret_cast<void*>(&NoDriverErrorName));
  SetReal(static_cast<size_t>(Call::k_cuGetErrorString),
          reinterpret_cast<void*>(&NoDriverErrorString));
}

void FillFrom(void* handle) {
  for (size_t i = 0; i < kCallCount; ++i) {
    void* function = Find(handle, kCallNames[i]);
    SetReal(i, function != nullptr ? function : reinterpret_cast<void*>(&MissingCall));
  }
}

// The path by which the program asked for the driver, as the door has noted it; null if there is none.
const char* AskedPath() {
  const bool is_asked = HasDoor() && cupola_door.asked_state.load(std::memory_order_acquire) == 2;
  return is_asked ? cupola_door.asked_path : nullptr;
}

// Whether Cupola has a stub of that name. kCallNames is in alphabetical order.
bool IsExport(const char* name) {
  return std::binary_search(std::begin(kCallNames), std::end(kCallNames), name,
                            [](const char* a, const char* b) { return strcmp(a, b) < 0; });
}

// Whether this library is in the global scope, in which the program's calls are looked up.
bool IsInGlobalScope() {
  void* const program = Open(nullptr, RTLD_LAZY);  // the handle of the global scope
  const bool is_found = program != nullptr && Find(program, "cupola_handle_for") != nullptr;
  if (program != nullptr) dlclose(program);
  return is_found;
}

// The file of this library, which the search for the driver leaves out. The dynamic linker keeps the name.
const char* OwnFile() {
  Dl_info own;
  return dladdr(reinterpret_cast<void*>(&OwnFile), &own) != 0 ? own.dli_fname : nullptr;
}

// Loads the driver. It uses RTLD_GLOBAL if this library is in the global scope, so that a lazily bound program
// that calls something newer than our export list finds it in the driver itself. It does not use RTLD_DEEPBIND:
// sanitizers abort on it, and the program's own malloc would be bypassed. If the driver calls its own exports
// through us, the depth counter of the thread lets them pass.
bool OpenFile(const char* path, void* result) {
  void* handle = Open(path, RTLD_NOW | (IsInGlobalScope() ? RTLD_GLOBAL : RTLD_LOCAL));
  if (handle == nullptr) {
    const char* why = dlerror();
    Say(Level::kWarn, {"cannot load the driver ", path, ": ", why != nullptr ? why : "?"});
    return false;
  }
  if (void* take = Find(handle, kTakeStandardErrorName)) {  // the driver of the simulated device, loaded late
    reinterpret_cast<TakeStandardErrorFunction>(take)(&StandardErrorAtStart());
    is_simulated.store(true, std::memory_order_relaxed);
  }
  Say(Level::kDebug, {"driver: ", path});
  *static_cast<void**>(result) = handle;
  return true;
}

}  // namespace

extern "C" {

// The door calls this when the program looks up `name` by dlsym in `own`, the handle of this library (process/door.h).
// Returns the handle in which dlsym is to search instead. It is `own`, so that the program gets Cupola's stub, if both
// this library and the driver export the name. It is the driver's handle for every other name, because the driver may
// be newer or older than this version of Cupola. It is `own` too if there is no driver, or while this thread loads it.
__attribute__((visibility("default"))) void* cupola_handle_for(void* own, const char* name) noexcept {
  if (this_thread.opening_driver || !OpenDriver()) return own;
  void* const driver = driver_handle.load(std::memory_order_acquire);
  return Find(driver, name) != nullptr && IsExport(name) ? own : driver;
}

/// The function to jump to at the first call of export `index`; called by entry.S.
__attribute__((visibility("hidden"))) void* cupola_resolve_call(size_t index) noexcept {
  // The driver's own constructors call this while the driver is being loaded: too early for any call.
  if (this_thread.opening_driver) return reinterpret_cast<void*>(&NotReady);
  OpenDriver();
  return __atomic_load_n(&cupola_real[index], __ATOMIC_ACQUIRE);
}

}  // extern "C"

bool IsDriverSimulated() noexcept { return is_simulated.load(std::memory_order_relaxed); }

bool IsDriverOpen() noexcept { return driver_handle.load(std::memory_order_acquire) != nullptr; }

bool IsLacking(Call call) noexcept {
  return Real<const void*>(call) == reinterpret_cast<const void*>(&MissingCall);
}

void SayLacking(Level level, Call call) noexcept {
  const char* const name = kCallNames[static_cast<size_t>(call)];
  int version = 0;
  Real<CUresult (*)(int*)>(Call::k_cuDriverGetVersion)(&version);
  for (const LaterCall& later : kLaterCalls) {
    if (strcmp(later.name, name) != 0) continue;
    const auto number = [](int part) { return Decimal(static_cast<unsigned>(part)); };
    Say(level, {"the driver (CUDA ", number(version / 1000), ".", number(version % 1000 / 10), ") lacks ", name,
                " (CUDA ", number(later.since / 1000), ".", number(later.since % 1000 / 10), "): ", later.without});
  }
}

bool IsStandIn(const void* function) noexcept {
  return function == reinterpret_cast<const void*>(&MissingCall) ||
         function == reinterpret_cast<const void*>(&NoDriver) ||
         function == reinterpret_cast<const void*>(&NotReady);
}

namespace {

// Finds and loads the driver, fills cupola_real, and starts Cupola in the process if there is a driver. Usually runs
// once. No lock keeps two threads apart (driver.h says why): if they make their first calls together, both run this,
// with the same result.
bool LoadDriver() noexcept {
  void* handle = nullptr;
  this_thread.opening_driver = true;
  LeaveOutDriver(OwnFile());
  const bool found = ForEachDriver(AskedPath(), &OpenFile, &handle);
  if (found) {
    FillFrom(handle);
  } else {
    FillWithoutDriver();
  }
  this_thread.opening_driver = false;
  if (!found) {
    static std::atomic_flag said;
    SayOnce(said, Level::kWarn, {"no CUDA driver found: CUDA calls of this program answer "
                                 "CUDA_ERROR_NO_DEVICE; install one, or use the simulated device"});
    driver_missing.store(true, std::memory_order_release);
    return false;
  }
  driver_handle.store(handle, std::memory_order_release);
  StartProcess();
  return true;
}

}  // namespace

bool OpenDriver() noexcept {
  if (IsDriverOpen()) return true;
  if (driver_missing.load(std::memory_order_acquire)) return false;
  bool is_open = false;
  auto load = [&] { is_open = LoadDriver(); };
  RunOnOwnStack(load);
  return is_open;
}

}  // namespace cupola::intercept
