// Helpers of the strict driver: calls to the driver beneath it, what it knows of calls by their names,
// and how it ends the program at a violation. No state; any thread.
#pragma once

#include <cuda.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/settings/variables.h"
#include "device/runtime/preempt_control.h"

namespace strict {

// Calls that were measured to return at once behind any guard, or to wait in the driver without harm.
inline constexpr const char* kHarmless[] = {
    "cuCtxSynchronize",   "cuCtxSynchronize_v2", "cuStreamSynchronize", "cuStreamSynchronize_ptsz",
    "cuEventSynchronize", "cuMemAlloc",          "cuMemAlloc_v2",       "cuMemAllocHost",
    "cuMemAllocHost_v2",  "cuMemHostAlloc",      "cuMemHostRegister",   "cuMemHostRegister_v2",
    "cuMemGetInfo",       "cuMemGetInfo_v2",     "cuMemAllocPitch",     "cuMemAllocPitch_v2"};

[[noreturn]] inline void Violation(const char* what, const char* call) {
  std::fprintf(stderr, "STRICT: %s %s\n", call, what);
  std::fflush(stderr);
  _exit(99);
}

inline void* Real(const char* name) {
  static void* const driver = [] {
    void* handle = dlopen(std::getenv("STRICT_DRIVER"), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) _exit(98);
    return handle;
  }();
  return dlsym(driver, name);
}

template <typename... Arguments>
CUresult Forward(const char* name, Arguments... arguments) {
  return reinterpret_cast<CUresult (*)(Arguments...)>(Real(name))(arguments...);
}

inline bool StartsWith(const char* text, const char* start) {
  return std::strncmp(text, start, std::strlen(start)) == 0;
}

/// Whether a call copies between contexts. It may then concern any context: the two that it names, and
/// the current one.
inline bool IsCopyBetween(const char* name) {
  return StartsWith(name, "cuMemcpyPeer") || StartsWith(name, "cuMemcpy3DPeer");
}

/// Whether a call may end another context than the current one.
inline bool MayEndContexts(const char* name) {
  for (const char* end : {"cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxRelease", "cuCtxDestroy"}) {
    if (StartsWith(name, end)) return true;
  }
  return false;
}

inline bool Refuses(const char* call) {
  const char* const refused = std::getenv("STRICT_REFUSES");
  return refused != nullptr && std::strcmp(refused, call) == 0;
}

inline bool IsBlocking(CUstream stream) {
  unsigned flags = 0;
  if (reinterpret_cast<uintptr_t>(stream) <= 2) return true;
  reinterpret_cast<CUresult (*)(CUstream, unsigned*)>(Real("cuStreamGetFlags"))(stream, &flags);
  return (flags & CU_STREAM_NON_BLOCKING) == 0;
}

inline CUstream Legacy(CUstream stream) { return stream == CU_STREAM_LEGACY ? nullptr : stream; }

/// CUmemorytype; 0 = memory that the driver does not know.
inline unsigned MemoryType(CUdeviceptr pointer) {
  unsigned type = 0;
  const auto get = reinterpret_cast<CUresult (*)(void*, CUpointer_attribute, CUdeviceptr)>(
      Real("cuPointerGetAttribute"));
  return get(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer) == CUDA_SUCCESS ? type : 0;
}

inline bool IsKnown(CUdeviceptr pointer) { return MemoryType(pointer) != 0; }

inline bool IsGuard(CUdeviceptr address, cuuint32_t value) {
  static const bool with_host = std::getenv("STRICT_HOST_WAITS") != nullptr;
  return value != 0 && (with_host || MemoryType(address) == CU_MEMORYTYPE_DEVICE);
}

/// Sleeps as many milliseconds as the environment's `name` says.
inline void SleepAsTold(const char* name) {
  if (const char* const late_ms = std::getenv(name)) usleep(1000 * std::atoi(late_ms));
}

// Whether MPS's control daemon has a pipe where a driver looks for it.
inline bool IsUnderMps() {
  const char* const folder = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  return folder != nullptr && access((std::string(folder) + "/control").c_str(), F_OK) == 0;
}

// How many helper streams a context may have: one for each physical launch of a launch, if processes
// share a context, as on the simulated device with CUPOLA_SIM_MPS, or if a physical launch that is to
// stop may get another one beside it (STRICT_BESIDE); else one.
inline uint32_t MostHelpers() {
  const bool has_many = std::getenv(cupola::settings::Name("CUPOLA_SIM_MPS")) != nullptr || std::getenv("STRICT_BESIDE") != nullptr;
  return has_many ? cupola::runtime::kPhysicalLaunches : 1;
}

inline void TellPriority(const CUlaunchConfig* config) {
  if (std::getenv("STRICT_TELLS_PRIORITY") == nullptr) return;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    if (config->attrs[i].id != CU_LAUNCH_ATTRIBUTE_PRIORITY) continue;
    std::fprintf(stderr, "STRICT: priority %d\n", config->attrs[i].value.priority);
  }
}

// The CUfunction that a launch names, which may be given as a CUkernel.
inline const void* FunctionOf(const void* handle) {
  const auto get =
      reinterpret_cast<CUresult (*)(CUfunction*, CUkernel)>(Real("cuKernelGetFunction"));
  CUfunction function = nullptr;
  const auto kernel = static_cast<CUkernel>(const_cast<void*>(handle));
  return get(&function, kernel) == CUDA_SUCCESS ? function : handle;
}

inline bool HasWork(CUstream stream) {
  const auto query = reinterpret_cast<CUresult (*)(CUstream)>(Real("cuStreamQuery"));
  return query(stream) == CUDA_ERROR_NOT_READY;
}

}  // namespace strict
