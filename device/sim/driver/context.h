// A context of the simulated device: its streams and its sticky error. It lives as long as the Driver lists it, a
// thread's stack has it, or a stream of it exists. The list of streams is guarded by the engine's mutex; the error
// is atomic.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/sim/driver/stream.h"

namespace cupola::sim {

class Context : public std::enable_shared_from_this<Context> {
 public:
  Context(uint32_t flags, bool is_primary, int device = 0);

  const uint64_t id;  ///< unique in the process
  const bool is_primary;
  const int device;
  bool is_green = false;  ///< of cuGreenCtxCreate; set before its handle is given out
  std::atomic<uint32_t> flags;
  std::shared_ptr<Stream> legacy;
  /// All but legacy; guarded by the engine's mutex. They keep the context: emptied when it is destroyed.
  std::vector<std::shared_ptr<Stream>> streams;
  std::atomic<bool> destroyed = false;
  size_t limits[CU_LIMIT_MAX] = {};  ///< cuCtxSetLimit, accepted and reported

  /// CUDA_SUCCESS, or the fault that every later call in this context returns.
  CUresult sticky() const { return sticky_.load(std::memory_order_acquire); }
  /// Records the first fault and says it on standard error.
  void Poison(CUresult error, const std::string& message);
  /// A module with so many fences of system scope has been loaded into it. As a GPU's driver, it keeps 900 bytes
  /// for each until it ends (docs/notes/2026-11-27-fences-in-modules.md). Any thread.
  void KeepMemoryOfFences(size_t fences);

 private:
  std::atomic<CUresult> sticky_ = CUDA_SUCCESS;
  std::mutex fences_mutex_;
  std::vector<std::unique_ptr<std::byte[]>> of_fences_;
};

/// The CUresult that a fault of a kernel becomes.
CUresult ToResult(FaultKind kind);

}  // namespace cupola::sim
