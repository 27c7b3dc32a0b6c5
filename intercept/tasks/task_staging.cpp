#include "intercept/tasks/task_staging.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>

#include "intercept/facts/streams.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/mutex_lock.h"
#include "intercept/tasks/task_engines.h"
#include "intercept/tasks/tasks.h"

namespace cupola::intercept::tasks {
namespace {

constexpr uint32_t kMostPlaces = 64;
// All places of an engine have this many bytes together, unless a single one needs more.
constexpr size_t kMostBytes = 4 << 20;

struct AreaPlace {
  std::atomic<bool> taken{false};
  runtime::TaskId last{};  ///< task that used the place last; sequence 0: none. Used while `taken`
};

/// The places of one engine. The memory ends with the engine's context.
struct Area {
  AreaPlace places[kMostPlaces];
  char* memory = nullptr;
  CUdeviceptr mapped = 0;          ///< address of `memory` on the device
  std::atomic<uint32_t> count{0};  ///< of places
  std::atomic<bool> asked{false};  ///< the driver was asked for the memory, with whatever result
  std::atomic<uint32_t> turn{0};   ///< place at which the next search begins
};
Area areas[kMostEngines];
pthread_mutex_t staging_mutex = PTHREAD_MUTEX_INITIALIZER;

void Allocate(Area* area) {
  const MutexLock lock(staging_mutex);
  if (area->asked.load()) return;
  const RelaxedCapture relaxed;
  const auto allocate = CUPOLA_CALL_REAL(cuMemHostAlloc, PFN_cuMemHostAlloc_v2020);
  const auto address_of =
      CUPOLA_CALL_REAL(cuMemHostGetDevicePointer_v2, PFN_cuMemHostGetDevicePointer_v3020);
  const size_t one = task_settings.most_copied;
  const size_t wanted = std::clamp<size_t>(kMostBytes / one, 1, kMostPlaces);
  void* host = nullptr;
  if (allocate(&host, wanted * one, CU_MEMHOSTALLOC_DEVICEMAP) == CUDA_SUCCESS &&
      address_of(&area->mapped, host, 0) == CUDA_SUCCESS) {
    area->memory = static_cast<char*>(host);
    area->count.store(static_cast<uint32_t>(wanted), std::memory_order_release);
  }
  area->asked.store(true, std::memory_order_release);
}

}  // namespace

StagingPlace::StagingPlace(const TaskEngine& engine) noexcept : area_(engine.index()) {
  Area& area = areas[area_];
  if (!area.asked.load(std::memory_order_acquire)) {
    if (CurrentContext() != engine.context()) return;
    Allocate(&area);
  }
  const uint32_t known = area.count.load(std::memory_order_acquire);
  const uint32_t first = area.turn.fetch_add(1, std::memory_order_relaxed);
  for (uint32_t i = 0; i < known; ++i) {
    index_ = (first + i) % known;
    AreaPlace& place = area.places[index_];
    if (place.taken.exchange(true, std::memory_order_acquire)) continue;
    if (place.last.sequence == 0 || engine.IsDone(place.last)) {
      const size_t offset = size_t{index_} * task_settings.most_copied;
      host_ = area.memory + offset;
      device_ = area.mapped + offset;
      return;
    }
    place.taken.store(false, std::memory_order_release);
  }
}

StagingPlace::~StagingPlace() {
  if (host_ == nullptr) return;
  areas[area_].places[index_].taken.store(false, std::memory_order_release);
}

void StagingPlace::Use(const runtime::TaskId& by) noexcept {
  areas[area_].places[index_].last = by;
}

}  // namespace cupola::intercept::tasks
