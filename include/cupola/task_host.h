// What the host's side of a TaskSystem needs of the system and of CUDA. Host code.
#pragma once

#include <cuda_runtime.h>
#include <pthread.h>
#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace cupola::task {

namespace internal {

/// How many forks led to this process since it, or who it comes from, first used a TaskSystem.
inline std::atomic<uint32_t> forks{0};
inline bool CountForks() {
  static const bool counts =
      pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); }) == 0;
  return counts;
}

/// Memory of the host's, zero, that the device is to see. Not CUDA's: that of a device which is reset
/// is gone, and who asks for a task reads it. Shared with forks, so that it stays where the device
/// has it.
struct HostPages {
  HostPages() = default;
  HostPages(const HostPages&) = delete;
  HostPages& operator=(const HostPages&) = delete;
  ~HostPages() {
    if (bytes != nullptr) munmap(bytes, size);
  }
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

/// While it lives, the calling thread may make calls that a capture elsewhere would forbid [CUDA
/// Runtime API, cudaThreadExchangeStreamCaptureMode].
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
