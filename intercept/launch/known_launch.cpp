#include "intercept/launch/known_launch.h"

#include <algorithm>

#include "intercept/facts/streams.h"
#include "intercept/launch/launch_context.h"
#include "intercept/process/participation.h"

namespace cupola::intercept {
namespace {

constexpr uint32_t kMostUses = 32;

bool IsOfKind(const KnownLaunch& known, const Launch& launch) {
  return known.function == launch.function && known.stream == launch.stream &&
         std::ranges::equal(known.grid, launch.grid) && std::ranges::equal(known.block, launch.block) &&
         known.shared_bytes == launch.shared_bytes && known.flags == launch.flags &&
         known.per_thread == launch.per_thread;
}

// A default stream is that of the current context.
bool IsInContext(const Launch& launch, const PreemptibleForm& form) {
  return reinterpret_cast<uintptr_t>(launch.stream) > 2 ||
         CurrentContext() == form.context->context.load(std::memory_order_relaxed);
}

}  // namespace

const PreemptibleForm* FindKnown(const Launch& launch) noexcept {
  KnownLaunch& known = KeptIn<KnownLaunches>(thread_memory->known_launches)->PlaceOf(launch);
  const bool is_it = known.function != nullptr && launch.attribute_count == 0 && IsOfKind(known, launch);
  if (!is_it) return nullptr;
  const bool holds = known.form.epoch == launch_epoch.load(std::memory_order_acquire) && known.uses_left != 0;
  if (!holds || !IsInContext(launch, known.form)) return nullptr;
  --known.uses_left;
  return &known.form;
}

void RememberLaunch(const Launch& launch, const PreemptibleForm& form) noexcept {
  ThreadMemory* const memory = MemoryOfThread();
  if (memory == nullptr) return;
  this_thread.knows_launches = true;
  KeptIn<KnownLaunches>(memory->known_launches)->PlaceOf(launch) = {
      .function = launch.function,
      .stream = launch.stream,
      .grid = {launch.grid[0], launch.grid[1], launch.grid[2]},
      .block = {launch.block[0], launch.block[1], launch.block[2]},
      .shared_bytes = launch.shared_bytes,
      .flags = launch.flags,
      .per_thread = launch.per_thread,
      .uses_left = kMostUses,
      .form = form};
}

}  // namespace cupola::intercept
