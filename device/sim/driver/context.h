// A context of the simulated device: its streams and its sticky error. The Driver creates it. It lives as long as the
// Driver lists it, a thread has it on its stack of contexts, or one of its streams but the legacy one exists. The
// list of streams is guarded by the Engine's mutex; the sticky error is atomic.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

#include "device/sim/driver/stream.h"

namespace cupola::sim {

class Context : public std::enable_shared_from_this<Context> {
 public:
  Context(uint32_t flags, bool is_primary, int device = 0);

  const uint64_t id;  ///< unique in the process
  const bool is_primary;
  const int device;        ///< ordinal
  bool is_green = false;   ///< a green context: cuGreenCtxCreate sets it before the program gets the handle
  /// The thread that first made it current; the id of no thread until then.
  std::atomic<std::thread::id> first_thread = std::thread::id{};
  std::atomic<uint32_t> flags;     ///< CU_CTX_*
  std::shared_ptr<Stream> legacy;  ///< the legacy default stream
  /// All streams but the legacy one; guarded by the Engine's mutex. The streams keep the context alive, so the list
  /// is emptied when the context is destroyed.
  std::vector<std::shared_ptr<Stream>> streams;
  std::atomic<bool> destroyed = false;
  /// Held exclusively by a call that waits for work of the context before it does something else: a copy on the legacy
  /// stream, cuMemFree, cuModuleUnload. Held shared by each launch into the context, for the time of the call. A GPU's
  /// driver does the same: a launch by another thread returns only after such a call, and never if that call waits for
  /// what is to be launched. Calls that only synchronise do not hold it.
  std::shared_mutex launches;
  size_t limits[CU_LIMIT_MAX] = {};  ///< as cuCtxSetLimit set them; they have no other effect

  /// CUDA_SUCCESS, or the fault that every later call in this context returns.
  CUresult sticky() const { return sticky_.load(std::memory_order_acquire); }
  /// Makes `error` the sticky error and writes the message on standard error. Only the first call has an effect.
  void Poison(CUresult error, const std::string& message);
  /// Called when a module with this number of fences of system scope has been loaded into the context. Like a GPU's
  /// driver, the context then keeps 900 bytes for each fence until it ends
  /// (docs/notes/2026-11-27-fences-in-modules.md). Any thread.
  void KeepMemoryOfFences(size_t fences);

 private:
  std::atomic<CUresult> sticky_ = CUDA_SUCCESS;
  std::mutex fences_mutex_;
  std::vector<std::unique_ptr<std::byte[]>> of_fences_;
};

/// The CUresult that CUDA calls return after a kernel's fault of this kind.
CUresult ToResult(FaultKind kind);

}  // namespace cupola::sim
