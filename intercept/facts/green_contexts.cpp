#include "intercept/facts/green_contexts.h"

#include "intercept/process/handle_map.h"
#include "intercept/process/participation.h"

namespace cupola::intercept {
namespace internal {

std::atomic<bool> has_green{false};

}  // namespace internal

namespace {

HandleMap green_handles;  // streams and contexts: all of these handles are addresses in the driver

void Note(const void* handle) {
  green_handles.Set(handle, 1);
  internal::has_green.store(true);
  RaiseLaunchEpoch();
}

}  // namespace

void MarkGreenStream(CUstream stream) noexcept { Note(stream); }
void MarkGreenContext(CUcontext context) noexcept { Note(context); }

void ForgetGreenStream(CUstream stream) noexcept {
  if (internal::has_green.load(std::memory_order_relaxed)) green_handles.Erase(stream);
}

// The handles of default streams (0, 1 and 2) are no addresses, and never in the map.
bool internal::IsKnownGreen(CUstream stream, CUcontext context) noexcept {
  return green_handles.Find(stream, 0) != 0 || green_handles.Find(context, 0) != 0;
}

void ResetGreenContextsAfterFork() noexcept {
  green_handles.ResetAfterFork();
  internal::has_green.store(false);
}

}  // namespace cupola::intercept
