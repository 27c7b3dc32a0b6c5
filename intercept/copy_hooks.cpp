// Hooks of copies that may travel as tasks. CUDA Driver API, "Memory Management".
#include <cuda.h>

#include "intercept/calls.h"
#include "intercept/tasks/task_copies.h"
#include "intercept/tasks/task_rules.h"
#include "intercept/tasks/tasks.h"
#include "intercept/thread_state.h"

namespace cupola::intercept {
namespace {

using enum tasks::HostSide;

template <typename CallReal>
CUresult PassCopy(const tasks::CopyFacts& facts, CallReal&& call) noexcept {
  if (!tasks::TasksOn() || InsideHook()) return call();
  const HookScope scope;
  if (tasks::TryCopy(facts)) return CUDA_SUCCESS;
  const CUresult result = call();
  tasks::AfterPlainLaunch(facts.stream, facts.per_thread);
  return result;
}

uint64_t Address(const void* host) { return reinterpret_cast<uint64_t>(host); }

}  // namespace

extern "C" {

CUresult hook_cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes,
                                   CUstream stream) noexcept {
  return PassCopy({to, Address(from), bytes, stream, false, kFrom},
                  [&] { return CUPOLA_REAL(cuMemcpyHtoDAsync_v2)(to, from, bytes, stream); });
}

CUresult hook_cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr to, const void* from, size_t bytes,
                                        CUstream stream) noexcept {
  return PassCopy({to, Address(from), bytes, stream, true, kFrom},
                  [&] { return CUPOLA_REAL(cuMemcpyHtoDAsync_v2_ptsz)(to, from, bytes, stream); });
}

CUresult hook_cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes,
                                   CUstream stream) noexcept {
  return PassCopy({Address(to), from, bytes, stream, false, kTo},
                  [&] { return CUPOLA_REAL(cuMemcpyDtoHAsync_v2)(to, from, bytes, stream); });
}

CUresult hook_cuMemcpyDtoHAsync_v2_ptsz(void* to, CUdeviceptr from, size_t bytes,
                                        CUstream stream) noexcept {
  return PassCopy({Address(to), from, bytes, stream, true, kTo},
                  [&] { return CUPOLA_REAL(cuMemcpyDtoHAsync_v2_ptsz)(to, from, bytes, stream); });
}

CUresult hook_cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                   CUstream stream) noexcept {
  return PassCopy({to, from, bytes, stream, false},
                  [&] { return CUPOLA_REAL(cuMemcpyDtoDAsync_v2)(to, from, bytes, stream); });
}

CUresult hook_cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                        CUstream stream) noexcept {
  return PassCopy({to, from, bytes, stream, true},
                  [&] { return CUPOLA_REAL(cuMemcpyDtoDAsync_v2_ptsz)(to, from, bytes, stream); });
}

CUresult hook_cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                            CUstream stream) noexcept {
  return PassCopy({to, from, bytes, stream, false},
                  [&] { return CUPOLA_REAL(cuMemcpyAsync)(to, from, bytes, stream); });
}

CUresult hook_cuMemcpyAsync_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                 CUstream stream) noexcept {
  return PassCopy({to, from, bytes, stream, true},
                  [&] { return CUPOLA_REAL(cuMemcpyAsync_ptsz)(to, from, bytes, stream); });
}

}  // extern "C"
}  // namespace cupola::intercept
