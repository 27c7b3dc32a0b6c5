// With STRICT_ROOM in the environment a synchronous copy of the strict driver begins only when no kernel
// is there that holds all SMs, as a MasterKernel does: an H100's driver has one wait so beside tasks that
// come without a pause (docs/launches-as-tasks.md, "Calls that wait"). Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>

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

/// Until the one that is there, if any, has left. False: it does not.
inline bool AwaitRoom(const char* name) {
  static const bool needs_room = std::getenv("STRICT_ROOM") != nullptr;
  const bool is_synchronous = StartsWith(name, "cuMemcpyDtoH") || StartsWith(name, "cuMemcpyHtoD");
  if (!needs_room || !is_synchronous || std::strstr(name, "Async") != nullptr) return true;
  const uint64_t before = holders.load();
  for (int look = 0; look < kRoomLooks; ++look) {
    CUstream const stream = holder_stream.load();
    if (stream == nullptr || holders.load() != before ||
        Forward("cuStreamQuery", stream) != CUDA_ERROR_NOT_READY) {
      return true;
    }
    usleep(kRoomLookUs);
  }
  return false;
}

}  // namespace strict
