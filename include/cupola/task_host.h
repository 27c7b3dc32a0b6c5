// What the host's side of a TaskSystem needs of the operating system and of CUDA: a count of forks,
// memory that the device can map, and a guard for stream captures. Host code; only
// cupola/task_system.h uses it, on the program's threads: HostPages and RelaxedCapture belong to the
// thread that makes them, the count of forks may be read by any.
#pragma once

#include <cuda_runtime.h>
#include <pthread.h>
#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "cupola/version.h"

namespace cupola::task {

namespace internal {

/// Number of forks that led to this process since it, or the process that it comes from, first used
/// a TaskSystem. A fork handler increments it in each child.
inline std::atomic<uint32_t> forks{0};
/// Installs the fork handler at the first call; returns false where that fails.
inline bool CountForks() {
  static const bool counts =
      pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); }) == 0;
  return counts;
}

/// Whether these headers and the library that the program is linked with lay out records and tables
/// alike: those of one minor version do.
inline bool IsLibraryOfHeaders() { return cupola_version() / 100 == CUPOLA_VERSION / 100; }

/// Host memory, zero at first, that the device is to read and write. It is not CUDA's, since CUDA
/// memory of a device that is reset is gone, and a thread that asks for a task still reads it then.
/// It is shared with forked processes, so that the parent keeps the pages that the device has
/// mapped.
struct HostPages {
  HostPages() = default;
  HostPages(const HostPages&) = delete;
  HostPages& operator=(const HostPages&) = delete;
  ~HostPages() {
    if (bytes != nullptr) munmap(bytes, size);
  }
  /// Maps `wanted` bytes; returns false where there is no memory.
  bool Map(size_t wanted) {
    void* const pages =
        mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return false;
    bytes = static_cast<char*>(pages);
    size = wanted;
    return true;
  }

  char* bytes = nullptr;
  size_t size = 0;
};

/// While an object lives, the calling thread may make calls that a stream capture of another thread
/// would forbid [CUDA Runtime API, cudaThreadExchangeStreamCaptureMode].
class RelaxedCapture {
 public:
  RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace internal

}  // namespace cupola::task
