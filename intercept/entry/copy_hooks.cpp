// Hooks of copies and of calls that set memory, which may become tasks. CUDA Driver API, "Memory
// Management".
#include <cuda.h>

#include "intercept/process/calls.h"
#include "intercept/process/thread_state.h"
#include "intercept/tasks/task_copies.h"
#include "intercept/tasks/tasks.h"

namespace cupola::intercept {
namespace {

using tasks::MemoryCall;
using enum tasks::HostSide;

constexpr MemoryCall In(CUstream stream) {
  return {.stream = stream, .per_thread = false, .is_synchronous = false};
}
constexpr MemoryCall InPerThread(CUstream stream) {
  return {.stream = stream, .per_thread = true, .is_synchronous = false};
}
constexpr MemoryCall kSynchronous{.stream = nullptr, .per_thread = false, .is_synchronous = true};
constexpr MemoryCall kSynchronousPerThread{
    .stream = nullptr, .per_thread = true, .is_synchronous = true};

// `try_it` makes a task of the call if that is possible; else `call_driver` gives it to the driver.
template <typename TryIt, typename CallDriver>
CUresult Pass(const MemoryCall& call, TryIt&& try_it, CallDriver&& call_driver) noexcept {
  if (!TasksOn() || InsideHook()) return call_driver();
  const HookScope scope;
  if (try_it()) return CUDA_SUCCESS;
  const CUresult result = call_driver();
  tasks::AfterDriver(call);
  return result;
}

template <typename CallDriver>
CUresult Pass(const MemoryCall& call, const tasks::CopyFacts& facts,
              CallDriver&& call_driver) noexcept {
  return Pass(
      call, [&] { return tasks::TryCopy(call, facts); }, call_driver);
}

// Sets `count` items to `value`.
template <typename Value, typename CallDriver>
CUresult PassFill(const MemoryCall& call, CUdeviceptr to, Value value, size_t count,
                  CallDriver&& call_driver) noexcept {
  uint32_t pattern = value;
  if (sizeof(Value) == 1) pattern *= 0x01010101u;
  if (sizeof(Value) == 2) pattern *= 0x00010001u;
  // A call that is not aligned is left for the driver to refuse: with 0 bytes it does not become a task.
  const bool is_aligned = to % sizeof(Value) == 0 && count <= SIZE_MAX / sizeof(Value);
  const tasks::FillFacts facts{to, is_aligned ? count * sizeof(Value) : 0, pattern};
  return Pass(
      call, [&] { return tasks::TryFill(call, facts); }, call_driver);
}

uint64_t Address(const void* host) { return reinterpret_cast<uint64_t>(host); }

}  // namespace

extern "C" {

// The four forms of a copy: in a stream and synchronous, each also per thread.
#define CUPOLA_COPY_HOOK_IN(name, To, From, call, ...)                             \
  CUresult hook_##name(To to, From from, size_t bytes, CUstream stream) noexcept { \
    return Pass(call(stream), {__VA_ARGS__},                                       \
                [&] { return CUPOLA_REAL(name)(to, from, bytes, stream); });       \
  }
#define CUPOLA_COPY_HOOK(name, To, From, call, ...)                                       \
  CUresult hook_##name(To to, From from, size_t bytes) noexcept {                         \
    return Pass(call, {__VA_ARGS__}, [&] { return CUPOLA_REAL(name)(to, from, bytes); }); \
  }
#define CUPOLA_COPY_HOOKS(name, version, To, From, ...)                                \
  CUPOLA_COPY_HOOK_IN(name##Async##version, To, From, In, __VA_ARGS__)                 \
  CUPOLA_COPY_HOOK_IN(name##Async##version##_ptsz, To, From, InPerThread, __VA_ARGS__) \
  CUPOLA_COPY_HOOK(name##version, To, From, kSynchronous, __VA_ARGS__)                 \
  CUPOLA_COPY_HOOK(name##version##_ptds, To, From, kSynchronousPerThread, __VA_ARGS__)

CUPOLA_COPY_HOOKS(cuMemcpyHtoD, _v2, CUdeviceptr, const void*, to, Address(from), bytes, kFrom)
CUPOLA_COPY_HOOKS(cuMemcpyDtoH, _v2, void*, CUdeviceptr, Address(to), from, bytes, kTo)
CUPOLA_COPY_HOOKS(cuMemcpyDtoD, _v2, CUdeviceptr, CUdeviceptr, to, from, bytes, kNone)
CUPOLA_COPY_HOOKS(cuMemcpy, , CUdeviceptr, CUdeviceptr, to, from, bytes, kEither)

// The four forms of a call that sets memory.
#define CUPOLA_FILL_HOOK_IN(name, Value, call)                                                \
  CUresult hook_##name(CUdeviceptr to, Value value, size_t count, CUstream stream) noexcept { \
    return PassFill(call(stream), to, value, count,                                           \
                    [&] { return CUPOLA_REAL(name)(to, value, count, stream); });             \
  }
#define CUPOLA_FILL_HOOK(name, Value, call)                                                       \
  CUresult hook_##name(CUdeviceptr to, Value value, size_t count) noexcept {                      \
    return PassFill(call, to, value, count, [&] { return CUPOLA_REAL(name)(to, value, count); }); \
  }
#define CUPOLA_FILL_HOOKS(name, Value)                      \
  CUPOLA_FILL_HOOK_IN(name##Async, Value, In)               \
  CUPOLA_FILL_HOOK_IN(name##Async_ptsz, Value, InPerThread) \
  CUPOLA_FILL_HOOK(name##_v2, Value, kSynchronous)          \
  CUPOLA_FILL_HOOK(name##_v2_ptds, Value, kSynchronousPerThread)

CUPOLA_FILL_HOOKS(cuMemsetD8, unsigned char)
CUPOLA_FILL_HOOKS(cuMemsetD16, unsigned short)
CUPOLA_FILL_HOOKS(cuMemsetD32, unsigned int)

}  // extern "C"
}  // namespace cupola::intercept
