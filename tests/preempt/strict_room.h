// With STRICT_ROOM in the environment synchronous copies of the strict driver, copies of device memory and
// memory that is set begin only when no kernel is there that holds all SMs, as a MasterKernel does: an
// H100's driver has them wait so beside tasks that come without a pause (docs/launches-as-tasks.md, "Calls
// that wait"). Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "tests/preempt/strict_real.h"

namespace strict {

inline constexpr unsigned kHoldsAnSm = 32u << 10;  ///< bytes of dynamic shared memory
inline constexpr int kRoomLooks = 50'000, kRoomLookUs = 100;

inline std::atomic<CUstream> holder_stream{nullptr};
inline std::atomic<uint64_t> holders{0};  ///< that were launched

inline void NoteHolder(CUstream stream, unsigned shared) {
  if (shared < kHoldsAnSm) return;
  holder_stream.store(stream);
  holders.fetch_add(1);
}

inline bool NeedsRoom() {
  static const bool needs_room = std::getenv("STRICT_ROOM") != nullptr;
  return needs_room;
}

/// Until the one that is there, if any, has left.
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

/// What the stream is given next begins with room.
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

/// A call that may wait is entered.
inline void EnterWithRoom(const char* name) {
  if (!NeedsRoom() || std::strstr(name, "Async") != nullptr) return;
  if (StartsWith(name, "cuMemcpyDtoH") || StartsWith(name, "cuMemcpyHtoD")) {
    AwaitRoom(name);
  } else if (StartsWith(name, "cuMemcpyDtoD_v2") || StartsWith(name, "cuMemset")) {
    BeginWithRoom(nullptr, name);  // they return before it is over
  }
}

}  // namespace strict
