#include "intercept/driver.h"

#include <atomic>
#include <cstdlib>
#include <cstring>

#include <cuda.h>
#include <dlfcn.h>
#include <link.h>

#include "intercept/calls.h"
#include "intercept/driver_search.h"
#include "intercept/notice.h"
#include "intercept/recorder.h"
#include "intercept/thread_state.h"

namespace cupola::intercept {

thread_local constinit ThreadState this_thread = {};

const char* const kCallNames[kCallCount] = {
#define CUPOLA_CALL(name, call_class) #name,
#include "intercept/calls.inc"
#undef CUPOLA_CALL
};

const CallClass kCallClasses[kCallCount] = {
#define CUPOLA_CALL(name, call_class) CallClass::call_class,
#include "intercept/calls.inc"
#undef CUPOLA_CALL
};

namespace {

// Nothing has the address of a stack-less sentinel: no handle equals it.
char no_handle;

std::atomic<void*> driver_handle{nullptr};
std::atomic<bool> driver_missing{false};
char asked_path[kPathBytes];
std::atomic<int> asked_state{0};  // 0 = none, 1 = being written, 2 = valid

CUresult MissingCall() noexcept { return CUDA_ERROR_NOT_FOUND; }
CUresult NoDriver() noexcept { return CUDA_ERROR_NO_DEVICE; }
CUresult NotReady() noexcept { return CUDA_ERROR_NOT_INITIALIZED; }

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
    void* function = RealDlsym(handle, kCallNames[i]);
    SetReal(i, function != nullptr ? function : reinterpret_cast<void*>(&MissingCall));
  }
}

// RTLD_GLOBAL: a lazily bound program that calls something newer than our export list finds it in
// the driver itself. No RTLD_DEEPBIND: sanitizers abort on it and a program's own malloc would be
// bypassed; should the driver call its own exports through us, the depth guard lets them pass.
bool OpenFile(const char* path, void* result) {
  void* handle = RealDlopen(path, RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    Say(Level::kWarn, {"cannot load the driver ", path, ": ", why != nullptr ? why : "?"});
    return false;
  }
  Say(Level::kDebug, {"driver: ", path});
  *static_cast<void**>(result) = handle;
  return true;
}

const char* AskedPath() {
  return asked_state.load(std::memory_order_acquire) == 2 ? asked_path : nullptr;
}

void RememberAskedPath(const char* file) {
  int none = 0;
  if (file[0] != '/' || strlen(file) >= sizeof(asked_path)) return;
  if (!asked_state.compare_exchange_strong(none, 1)) return;
  strcpy(asked_path, file);
  asked_state.store(2, std::memory_order_release);
}

// "libcuda.so", "libcuda.so.1", "libcuda.so.580.159.04", with or without folders.
bool IsDriverFile(const char* file) {
  const char* slash = strrchr(file, '/');
  const char* name = slash != nullptr ? slash + 1 : file;
  constexpr size_t kStem = sizeof("libcuda.so") - 1;
  return strncmp(name, "libcuda.so", kStem) == 0 && (name[kStem] == '\0' || name[kStem] == '.');
}

// The driver and its helpers may open one another by name; they must not get us (WSL's libcuda.so.1
// opens libcuda.so.1.1, for instance).
bool IsDriversOwn(const void* caller) {
  Dl_info object;
  if (dladdr(caller, &object) == 0 || object.dli_fname == nullptr) return false;
  const char* slash = strrchr(object.dli_fname, '/');
  const char* name = slash != nullptr ? slash + 1 : object.dli_fname;
  return IsDriverFile(name) || strncmp(name, "libnvidia-", 10) == 0 ||
         strncmp(name, "libdxcore.so", 12) == 0;
}

}  // namespace

extern "C" {

void* cupola_real_dlopen = nullptr;
void* cupola_real_dlsym = nullptr;
void* cupola_own_handle = &no_handle;

static void* FindNothing() { return nullptr; }

static void FindLinker() {
  if (__atomic_load_n(&cupola_real_dlsym, __ATOMIC_ACQUIRE) != nullptr) return;
  // 2.2.5 is the oldest version of both on x86-64; every later glibc still offers it.
  void* open = dlvsym(RTLD_NEXT, "dlopen", "GLIBC_2.2.5");
  void* find = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
  // Not glibc: we could not have been loaded. Fail as the linker would.
  if (open == nullptr || find == nullptr) open = find = reinterpret_cast<void*>(&FindNothing);
  Dl_info own;
  link_map* map = nullptr;
  // In glibc a handle is the object's link_map.
  if (dladdr1(reinterpret_cast<void*>(&FindLinker), &own, reinterpret_cast<void**>(&map),
              RTLD_DL_LINKMAP) != 0 && map != nullptr) {
    __atomic_store_n(&cupola_own_handle, static_cast<void*>(map), __ATOMIC_RELEASE);
  }
  __atomic_store_n(&cupola_real_dlopen, open, __ATOMIC_RELEASE);
  __atomic_store_n(&cupola_real_dlsym, find, __ATOMIC_RELEASE);
}

/// What dlopen should open when `caller` asks for `file`; called by entry.S.
__attribute__((visibility("hidden"))) const char* cupola_dlopen_name(const char* file,
                                                                     const void* caller) noexcept {
  FindLinker();
  if (file == nullptr || !IsDriverFile(file)) return file;
  if (this_thread.opening_driver || IsDriversOwn(caller)) return file;
  RememberAskedPath(file);
  if (!IsDriverOpen() && !HasDriver(AskedPath())) {
    // Without a driver the program must see dlopen fail, as it would without us.
    return "libcuda.so.1 (no CUDA driver found)";
  }
  return "libcuda.so.1";  // our SONAME
}

/// The handle that dlsym should search when the program gave `handle`; called by entry.S. For our
/// own handle: ours if the driver has the call too, else the driver's, which may be newer or older.
__attribute__((visibility("hidden"))) void* cupola_dlsym_handle(void* handle,
                                                                const char* name) noexcept {
  FindLinker();
  if (handle != cupola_own_handle || name == nullptr) return handle;
  if (this_thread.opening_driver || !OpenDriver()) return handle;
  void* const driver = driver_handle.load(std::memory_order_acquire);
  return RealDlsym(driver, name) != nullptr && RealDlsym(handle, name) != nullptr ? handle : driver;
}

/// The function to jump to at the first call of export `index`; called by entry.S.
__attribute__((visibility("hidden"))) void* cupola_resolve_call(size_t index) noexcept {
  // The driver's own constructors come here while it is being loaded: too early for any call.
  if (this_thread.opening_driver) return reinterpret_cast<void*>(&NotReady);
  OpenDriver();
  return __atomic_load_n(&cupola_real[index], __ATOMIC_ACQUIRE);
}

}  // extern "C"

void* RealDlopen(const char* file, int mode) noexcept {
  FindLinker();
  return reinterpret_cast<decltype(&dlopen)>(cupola_real_dlopen)(file, mode);
}

void* RealDlsym(void* handle, const char* name) noexcept {
  FindLinker();
  return reinterpret_cast<decltype(&dlsym)>(cupola_real_dlsym)(handle, name);
}

bool IsDriverOpen() noexcept { return driver_handle.load(std::memory_order_acquire) != nullptr; }

bool IsStandIn(const void* function) noexcept {
  return function == reinterpret_cast<const void*>(&MissingCall) ||
         function == reinterpret_cast<const void*>(&NoDriver) ||
         function == reinterpret_cast<const void*>(&NotReady);
}

bool OpenDriver() noexcept {
  if (IsDriverOpen()) return true;
  if (driver_missing.load(std::memory_order_acquire)) return false;
  void* handle = nullptr;
  this_thread.opening_driver = true;
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
  StartRecording();
  return true;
}

}  // namespace cupola::intercept
