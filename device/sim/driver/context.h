// A context of the simulated device: its streams and its sticky error. Owned by the Driver. The
// list of streams is guarded by the engine's mutex; the error is atomic.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/sim/driver/stream.h"

namespace cupola::sim {

class Context {
 public:
  Context(uint32_t flags, bool is_primary, int device = 0);

  const uint64_t id;  ///< unique in the process
  const bool is_primary;
  const int device;
  bool is_green = false;  ///< of cuGreenCtxCreate; set before its handle is given out
  std::atomic<uint32_t> flags;
  std::shared_ptr<Stream> legacy;
  std::vector<std::shared_ptr<Stream>> streams;  ///< all but legacy; guarded by the engine's mutex
  std::atomic<bool> destroyed = false;
  size_t limits[CU_LIMIT_MAX] = {};  ///< cuCtxSetLimit, accepted and reported

  /// CUDA_SUCCESS, or the fault that every later call in this context returns.
  CUresult sticky() const { return sticky_.load(std::memory_order_acquire); }
  /// Records the first fault and says it on standard error.
  void Poison(CUresult error, const std::string& message);

 private:
  std::atomic<CUresult> sticky_ = CUDA_SUCCESS;
};

/// The CUresult that a fault of a kernel becomes.
CUresult ToResult(FaultKind kind);

}  // namespace cupola::sim
