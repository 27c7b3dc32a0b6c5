// Hooks of stream-ordered allocations: after each an address may lie in another allocation. All other
// calls that make memory are waiting calls (MAKES_MEMORY of calls/calls.def). CUDA Driver API, "Stream
// Ordered Memory Allocator".
#include <cuda.h>

#include "intercept/facts/allocations.h"
#include "intercept/process/calls.h"
#include "intercept/process/thread_state.h"

namespace cupola::intercept {
namespace {

template <typename CallReal>
CUresult MakeMemory(CallReal&& call) noexcept {
  const HookScope scope;
  const CUresult result = call();
  OnMemoryMade();
  return result;
}

}  // namespace

extern "C" {

#define CUPOLA_ALLOCATION_HOOKS(form)                                                           \
  CUresult hook_cuMemAllocAsync##form(CUdeviceptr* address, size_t bytes, CUstream stream)      \
      noexcept {                                                                                \
    return MakeMemory(                                                                          \
        [&] { return CUPOLA_REAL(cuMemAllocAsync##form)(address, bytes, stream); });            \
  }                                                                                             \
  CUresult hook_cuMemAllocFromPoolAsync##form(CUdeviceptr* address, size_t bytes,               \
                                              CUmemoryPool pool, CUstream stream) noexcept {    \
    return MakeMemory(                                                                          \
        [&] { return CUPOLA_REAL(cuMemAllocFromPoolAsync##form)(address, bytes, pool, stream); }); \
  }
CUPOLA_ALLOCATION_HOOKS()
CUPOLA_ALLOCATION_HOOKS(_ptsz)
#undef CUPOLA_ALLOCATION_HOOKS

}  // extern "C"
}  // namespace cupola::intercept
