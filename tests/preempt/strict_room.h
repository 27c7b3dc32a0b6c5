// With STRICT_ROOM in the environment the strict driver begins synchronous copies, copies within device
// memory and memory sets only when no kernel holds all SMs, as a MasterKernel does. An H100's driver has
// them wait in this way beside tasks that come without a pause (docs/task-order.md, "What each call
// does"). Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "tests/preempt/strict_real.h"

namespace strict {

/// A kernel with this many bytes of dynamic shared memory counts as one that holds all SMs.
inline constexpr unsigned kHoldsAnSm = 32u << 10;
inline constexpr int kRoomLooks = 50'000, kRoomLookUs = 100;

inline std::atomic<CUstream> holder_stream{nullptr};  ///< of the last such kernel
inline std::atomic<uint64_t> holders{0};              ///< such kernels that were launched

inline void NoteHolder(CUstream stream, unsigned shared) {
  if (shared < kHoldsAnSm) return;
  holder_stream.store(stream);
  holders.fetch_add(1);
}

inline bool NeedsRoom() {
  static const bool needs_room = std::getenv("STRICT_ROOM") != nullptr;
  return needs_room;
}

/// Waits until the kernel that holds all SMs now, if any, has left. Ends the program if it stays.
inline void AwaitRoom(const char* name) {
  const uint64_t before = holders.load();
  for (int look = 0; look < kRoomLooks; ++look) {
    CUstream const stream = holder_stream.load();
    if (stream == nullptr || holders.load() != before ||
        Forward("cuStreamQuery", stream) != CUDA_ERROR_NOT_READY) {
      return;
    }
    usleep(kRoomLookUs);
  }
  Violation("starves beside a kernel that stays", name);
}

/// Has what the stream is given next begin only when there is room: puts a wait into the stream, which
/// another thread ends.
inline void BeginWithRoom(CUstream stream, const char* name) {
  if (!NeedsRoom()) return;
  constexpr size_t kGates = 1024;
  static volatile uint32_t* const gates = [] {
    void* memory = nullptr;
    const CUresult result =
        Forward("cuMemHostAlloc", &memory, kGates * sizeof(uint32_t), CU_MEMHOSTALLOC_PORTABLE);
    return result == CUDA_SUCCESS ? static_cast<uint32_t*>(memory) : nullptr;
  }();
  static std::atomic<uint32_t> numbers{0};
  const uint32_t number = numbers.fetch_add(1) + 1;
  volatile uint32_t* const gate = &gates[number % kGates];
  CUcontext context = nullptr;
  (void)Forward("cuCtxGetCurrent", &context);
  const auto address = reinterpret_cast<CUdeviceptr>(gate);
  (void)Forward("cuStreamWaitValue32_v2", stream, address, number, unsigned{CU_STREAM_WAIT_VALUE_EQ});
  std::thread([=] {
    (void)Forward("cuCtxSetCurrent", context);
    AwaitRoom(name);
    *gate = number;
  }).detach();
}

/// Called when a waiting call is entered.
inline void EnterWithRoom(const char* name) {
  if (!NeedsRoom() || std::strstr(name, "Async") != nullptr) return;
  if (StartsWith(name, "cuMemcpyDtoH") || StartsWith(name, "cuMemcpyHtoD")) {
    AwaitRoom(name);
  } else if (StartsWith(name, "cuMemcpyDtoD_v2") || StartsWith(name, "cuMemset")) {
    BeginWithRoom(nullptr, name);  // these calls return before their work is over
  }
}

}  // namespace strict
