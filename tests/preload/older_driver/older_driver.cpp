// A libcuda.so.1 as an older system has it: it exports what the driver of that CUDA version exports and nothing else,
// says that it is of that version, and answers cuGetProcAddress as that driver does. Each call goes on to another
// driver: the null driver or the simulated device in tests, NVIDIA's where OLDER_DRIVER_OF names it. It has no state but
// the addresses, which are filled in when it is loaded; any thread.
#include <cstdlib>
#include <cstring>

#include <cuda.h>
#include <dlfcn.h>

#undef cuGetProcAddress

#define EXPORT extern "C" __attribute__((visibility("default")))

// The forwarded exports (generate.py), as addresses.
#define OLDER_EXPORT(name) extern "C" char address_of_##name[] __asm__(#name);
#include "names.inc"
#undef OLDER_EXPORT
EXPORT CUresult cuDriverGetVersion(int* version);
EXPORT CUresult cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags);
EXPORT CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t flags,
                                    CUdriverProcAddressQueryResult* status);
extern "C" char address_of_cuDriverGetVersion[] __asm__("cuDriverGetVersion");
extern "C" char address_of_cuGetProcAddress[] __asm__("cuGetProcAddress");
extern "C" char address_of_cuGetProcAddress_v2[] __asm__("cuGetProcAddress_v2");

namespace {

constexpr const char* kNames[] = {
#define OLDER_EXPORT(name) #name,
#include "names.inc"
#undef OLDER_EXPORT
};
constexpr size_t kCount = sizeof(kNames) / sizeof(*kNames);

struct Entry {
  const char* symbol;
  int version;
  bool per_thread;
  void* address;
};
const Entry kEntries[] = {
#define OLDER_ENTRY(symbol, version, per_thread, name) {symbol, version, per_thread, address_of_##name},
#include "entries.inc"
#undef OLDER_ENTRY
};

CUresult NoDriver() { return CUDA_ERROR_NO_DEVICE; }

}  // namespace

extern "C" __attribute__((visibility("hidden"))) void* older_real[kCount];
void* older_real[kCount] = {};

__attribute__((constructor)) static void FindAll() {
  const char* const named = getenv("OLDER_DRIVER_OF");
  void* const driver = dlopen(named != nullptr ? named : OLDER_DRIVER_OF, RTLD_NOW | RTLD_LOCAL);
  for (size_t i = 0; i < kCount; ++i) {
    void* const found = driver != nullptr ? dlsym(driver, kNames[i]) : nullptr;
    older_real[i] = found != nullptr ? found : reinterpret_cast<void*>(&NoDriver);
  }
}

CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = OLDER_DRIVER_VERSION;
  return CUDA_SUCCESS;
}

// The newest form that is not newer than the request, and the per-thread one if that is asked for and exists. A name
// without any form is not found; one whose forms are all newer than the request is named as such [CUDA Driver API,
// cuGetProcAddress_v2].
CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  if (symbol == nullptr || *symbol == '\0' || function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  const Entry* best = nullptr;
  bool is_known = false;
  for (const Entry& entry : kEntries) {
    if (strcmp(entry.symbol, symbol) != 0) continue;
    is_known = true;
    if (entry.version > version || (entry.per_thread && !per_thread)) continue;
    const bool is_better = best == nullptr || entry.per_thread > best->per_thread ||
                           (entry.per_thread == best->per_thread && entry.version > best->version);
    if (is_better) best = &entry;
  }
  *function = best != nullptr ? best->address : nullptr;
  if (status != nullptr) {
    *status = best != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS
              : is_known      ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                              : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return best != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags) {
  return cuGetProcAddress_v2(symbol, function, version, flags, nullptr);
}
