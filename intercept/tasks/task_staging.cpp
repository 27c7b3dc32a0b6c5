#include "intercept/tasks/task_staging.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>

#include "intercept/mutex_lock.h"
#include "intercept/preempt/driver_calls.h"
#include "intercept/tasks/task_engine.h"
#include "intercept/tasks/tasks.h"

namespace cupola::intercept::tasks {
namespace {

constexpr uint32_t kMostPlaces = 64;
constexpr size_t kMostBytes = 4 << 20;  // of all places, unless one alone needs more

struct Place {
  std::atomic<bool> taken{false};
  runtime::TaskId last{0, 0};  ///< sequence 0: none yet; while it is taken
};

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
Place places[kMostPlaces];
char* memory = nullptr;
CUdeviceptr mapped = 0;
std::atomic<uint32_t> count{0};
std::atomic<bool> asked{false};
std::atomic<uint32_t> turn{0};

void Allocate() {
  const MutexLock lock(mutex);
  if (asked.load()) return;
  const preempt::RelaxedCapture relaxed;
  const auto allocate = CUPOLA_CALL_REAL(cuMemHostAlloc, PFN_cuMemHostAlloc_v2020);
  const auto address_of =
      CUPOLA_CALL_REAL(cuMemHostGetDevicePointer_v2, PFN_cuMemHostGetDevicePointer_v3020);
  const size_t one = settings.most_copied;
  const size_t wanted = std::clamp<size_t>(kMostBytes / one, 1, kMostPlaces);
  void* host = nullptr;
  if (allocate(&host, wanted * one, CU_MEMHOSTALLOC_DEVICEMAP) == CUDA_SUCCESS &&
      address_of(&mapped, host, 0) == CUDA_SUCCESS) {
    memory = static_cast<char*>(host);
    count.store(static_cast<uint32_t>(wanted), std::memory_order_release);
  }
  asked.store(true, std::memory_order_release);
}

}  // namespace

StagingPlace::StagingPlace() noexcept {
  if (!asked.load(std::memory_order_acquire)) Allocate();
  const uint32_t known = count.load(std::memory_order_acquire);
  const uint32_t first = turn.fetch_add(1, std::memory_order_relaxed);
  for (uint32_t i = 0; i < known; ++i) {
    index_ = (first + i) % known;
    Place& place = places[index_];
    if (place.taken.exchange(true, std::memory_order_acquire)) continue;
    if (place.last.sequence == 0 || engine->IsDone(place.last)) {
      const size_t offset = size_t{index_} * settings.most_copied;
      host_ = memory + offset;
      device_ = mapped + offset;
      return;
    }
    place.taken.store(false, std::memory_order_release);
  }
}

StagingPlace::~StagingPlace() {
  if (host_ != nullptr) places[index_].taken.store(false, std::memory_order_release);
}

void StagingPlace::Use(const runtime::TaskId& by) noexcept { places[index_].last = by; }

}  // namespace cupola::intercept::tasks
