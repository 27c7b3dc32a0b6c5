// Hooks of copies, and of calls that set memory, which may travel as tasks. CUDA Driver API,
// "Memory Management".
#include <cuda.h>

#include "intercept/calls.h"
#include "intercept/tasks/task_copies.h"
#include "intercept/tasks/tasks.h"
#include "intercept/thread_state.h"

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

// `try_it` makes a task of it, `call_driver` gives it to the driver.
template <typename TryIt, typename CallDriver>
CUresult Pass(const MemoryCall& call, TryIt&& try_it, CallDriver&& call_driver) noexcept {
  if (!tasks::TasksOn() || InsideHook()) return call_driver();
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

// `count` items of `value`.
template <typename Value, typename CallDriver>
CUresult PassFill(const MemoryCall& call, CUdeviceptr to, Value value, size_t count,
                  CallDriver&& call_driver) noexcept {
  uint32_t pattern = value;
  if (sizeof(Value) == 1) pattern *= 0x01010101u;
  if (sizeof(Value) == 2) pattern *= 0x00010001u;
  // The driver refuses what is not aligned.
  const bool is_aligned = to % sizeof(Value) == 0 && count <= SIZE_MAX / sizeof(Value);
  const tasks::FillFacts facts{to, is_aligned ? count * sizeof(Value) : 0, pattern};
  return Pass(
      call, [&] { return tasks::TryFill(call, facts); }, call_driver);
}

uint64_t Address(const void* host) { return reinterpret_cast<uint64_t>(host); }

}  // namespace

extern "C" {

CUresult hook_cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes,
                                   CUstream stream) noexcept {
  return Pass(In(stream), {to, Address(from), bytes, kFrom},
              [&] { return CUPOLA_REAL(cuMemcpyHtoDAsync_v2)(to, from, bytes, stream); });
}

CUresult hook_cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes,
                                   CUstream stream) noexcept {
  return Pass(In(stream), {Address(to), from, bytes, kTo},
              [&] { return CUPOLA_REAL(cuMemcpyDtoHAsync_v2)(to, from, bytes, stream); });
}

CUresult hook_cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                   CUstream stream) noexcept {
  return Pass(In(stream), {to, from, bytes, kNone},
              [&] { return CUPOLA_REAL(cuMemcpyDtoDAsync_v2)(to, from, bytes, stream); });
}

CUresult hook_cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                            CUstream stream) noexcept {
  return Pass(In(stream), {to, from, bytes, kEither},
              [&] { return CUPOLA_REAL(cuMemcpyAsync)(to, from, bytes, stream); });
}

CUresult hook_cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr to, const void* from, size_t bytes,
                                        CUstream stream) noexcept {
  return Pass(InPerThread(stream), {to, Address(from), bytes, kFrom},
              [&] { return CUPOLA_REAL(cuMemcpyHtoDAsync_v2_ptsz)(to, from, bytes, stream); });
}

CUresult hook_cuMemcpyDtoHAsync_v2_ptsz(void* to, CUdeviceptr from, size_t bytes,
                                        CUstream stream) noexcept {
  return Pass(InPerThread(stream), {Address(to), from, bytes, kTo},
              [&] { return CUPOLA_REAL(cuMemcpyDtoHAsync_v2_ptsz)(to, from, bytes, stream); });
}

CUresult hook_cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                        CUstream stream) noexcept {
  return Pass(InPerThread(stream), {to, from, bytes, kNone},
              [&] { return CUPOLA_REAL(cuMemcpyDtoDAsync_v2_ptsz)(to, from, bytes, stream); });
}

CUresult hook_cuMemcpyAsync_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                 CUstream stream) noexcept {
  return Pass(InPerThread(stream), {to, from, bytes, kEither},
              [&] { return CUPOLA_REAL(cuMemcpyAsync_ptsz)(to, from, bytes, stream); });
}

CUresult hook_cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) noexcept {
  return Pass(kSynchronous, {to, Address(from), bytes, kFrom},
              [&] { return CUPOLA_REAL(cuMemcpyHtoD_v2)(to, from, bytes); });
}

CUresult hook_cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) noexcept {
  return Pass(kSynchronous, {Address(to), from, bytes, kTo},
              [&] { return CUPOLA_REAL(cuMemcpyDtoH_v2)(to, from, bytes); });
}

CUresult hook_cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) noexcept {
  return Pass(kSynchronous, {to, from, bytes, kNone},
              [&] { return CUPOLA_REAL(cuMemcpyDtoD_v2)(to, from, bytes); });
}

CUresult hook_cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) noexcept {
  return Pass(kSynchronous, {to, from, bytes, kEither},
              [&] { return CUPOLA_REAL(cuMemcpy)(to, from, bytes); });
}

CUresult hook_cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void* from, size_t bytes) noexcept {
  return Pass(kSynchronousPerThread, {to, Address(from), bytes, kFrom},
              [&] { return CUPOLA_REAL(cuMemcpyHtoD_v2_ptds)(to, from, bytes); });
}

CUresult hook_cuMemcpyDtoH_v2_ptds(void* to, CUdeviceptr from, size_t bytes) noexcept {
  return Pass(kSynchronousPerThread, {Address(to), from, bytes, kTo},
              [&] { return CUPOLA_REAL(cuMemcpyDtoH_v2_ptds)(to, from, bytes); });
}

CUresult hook_cuMemcpyDtoD_v2_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes) noexcept {
  return Pass(kSynchronousPerThread, {to, from, bytes, kNone},
              [&] { return CUPOLA_REAL(cuMemcpyDtoD_v2_ptds)(to, from, bytes); });
}

CUresult hook_cuMemcpy_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes) noexcept {
  return Pass(kSynchronousPerThread, {to, from, bytes, kEither},
              [&] { return CUPOLA_REAL(cuMemcpy_ptds)(to, from, bytes); });
}

CUresult hook_cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count,
                              CUstream stream) noexcept {
  return PassFill(In(stream), to, value, count,
                  [&] { return CUPOLA_REAL(cuMemsetD8Async)(to, value, count, stream); });
}

CUresult hook_cuMemsetD8Async_ptsz(CUdeviceptr to, unsigned char value, size_t count,
                                   CUstream stream) noexcept {
  return PassFill(InPerThread(stream), to, value, count,
                  [&] { return CUPOLA_REAL(cuMemsetD8Async_ptsz)(to, value, count, stream); });
}

CUresult hook_cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) noexcept {
  return PassFill(kSynchronous, to, value, count,
                  [&] { return CUPOLA_REAL(cuMemsetD8_v2)(to, value, count); });
}

CUresult hook_cuMemsetD8_v2_ptds(CUdeviceptr to, unsigned char value, size_t count) noexcept {
  return PassFill(kSynchronousPerThread, to, value, count,
                  [&] { return CUPOLA_REAL(cuMemsetD8_v2_ptds)(to, value, count); });
}

CUresult hook_cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count,
                               CUstream stream) noexcept {
  return PassFill(In(stream), to, value, count,
                  [&] { return CUPOLA_REAL(cuMemsetD16Async)(to, value, count, stream); });
}

CUresult hook_cuMemsetD16Async_ptsz(CUdeviceptr to, unsigned short value, size_t count,
                                    CUstream stream) noexcept {
  return PassFill(InPerThread(stream), to, value, count,
                  [&] { return CUPOLA_REAL(cuMemsetD16Async_ptsz)(to, value, count, stream); });
}

CUresult hook_cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count) noexcept {
  return PassFill(kSynchronous, to, value, count,
                  [&] { return CUPOLA_REAL(cuMemsetD16_v2)(to, value, count); });
}

CUresult hook_cuMemsetD16_v2_ptds(CUdeviceptr to, unsigned short value, size_t count) noexcept {
  return PassFill(kSynchronousPerThread, to, value, count,
                  [&] { return CUPOLA_REAL(cuMemsetD16_v2_ptds)(to, value, count); });
}

CUresult hook_cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count,
                               CUstream stream) noexcept {
  return PassFill(In(stream), to, value, count,
                  [&] { return CUPOLA_REAL(cuMemsetD32Async)(to, value, count, stream); });
}

CUresult hook_cuMemsetD32Async_ptsz(CUdeviceptr to, unsigned int value, size_t count,
                                    CUstream stream) noexcept {
  return PassFill(InPerThread(stream), to, value, count,
                  [&] { return CUPOLA_REAL(cuMemsetD32Async_ptsz)(to, value, count, stream); });
}

CUresult hook_cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count) noexcept {
  return PassFill(kSynchronous, to, value, count,
                  [&] { return CUPOLA_REAL(cuMemsetD32_v2)(to, value, count); });
}

CUresult hook_cuMemsetD32_v2_ptds(CUdeviceptr to, unsigned int value, size_t count) noexcept {
  return PassFill(kSynchronousPerThread, to, value, count,
                  [&] { return CUPOLA_REAL(cuMemsetD32_v2_ptds)(to, value, count); });
}

}  // extern "C"
}  // namespace cupola::intercept
