#include "intercept/launch/loaded_kernels.h"

#include <atomic>

#include "intercept/process/handle_map.h"
#include "intercept/process/participation.h"

namespace cupola::intercept {
namespace {

HandleMap loaded;  // function -> the epoch in which it was launched
std::atomic<uint64_t> loaded_epoch{1};

}  // namespace

bool IsKnownLoaded(const void* function) noexcept {
  return loaded.Find(function, 0) == loaded_epoch.load(std::memory_order_relaxed);
}

void MarkLoaded(const void* function) noexcept {
  loaded.Set(function, loaded_epoch.load(std::memory_order_relaxed));
}

void ForgetLoaded() noexcept {
  loaded_epoch.fetch_add(1);
  RaiseLaunchEpoch();
}

}  // namespace cupola::intercept
