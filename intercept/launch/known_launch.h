// Known launches: when a launch has gone out preemptible, the launching thread keeps in which form it did, by kernel,
// shape and stream. The thread's next launch of the same kind goes out in the same form, without being looked at
// (path/launch_path.cpp). That holds until the launch epoch is raised (process/participation.h), and for kMostUses
// launches: whether it pays to make a launch preemptible depends on times, which change. Each thread keeps its own, in
// its ThreadMemory; there is no lock and no allocation but that of the ThreadMemory.
#pragma once

#include <cstdint>

#include <cuda.h>

#include "intercept/launch/launch.h"
#include "intercept/process/thread_state.h"

namespace cupola::intercept {

struct LaunchContext;
struct Variant;

/// How a launch goes out as a preemptible variant. Handles are of the launch's context.
struct PreemptibleForm {
  LaunchContext* context = nullptr;
  Variant* variant = nullptr;
  CUfunction function = nullptr;  ///< the preemptible variant
  uint64_t stream = 0;            ///< id of the stream (StreamKey::stream)
  uint64_t epoch = 0;             ///< the launch epoch when this was found out
  uint32_t total_blocks = 0;      ///< blocks of the program's grid
  uint32_t workers = 0;           ///< blocks of the variant's grid
  uint32_t batch = 0;             ///< word of profiles/claim_word.h
  uint32_t carveout = 0;          ///< LaunchSlot::carveout
  bool is_blocking = false;       ///< the stream is ordered with the legacy default stream
  bool passes_tasks_by = false;   ///< counts as a launch that can never be a task (ThreadState::never_passed)
};

/// A kind of launch, and its form.
struct KnownLaunch {
  const void* function;  ///< null: the place is free
  CUstream stream;
  uint32_t grid[3], block[3];
  uint32_t shared_bytes;
  uint16_t flags;
  bool per_thread;
  uint32_t uses_left;
  PreemptibleForm form;
};

/// One place for each hash of a kind: of two kinds with the same hash only the last one is known.
struct KnownLaunches {
  static constexpr uint32_t kPlaceBits = 5;
  KnownLaunch places[1u << kPlaceBits];

  KnownLaunch& PlaceOf(const Launch& launch) noexcept {
    const uint64_t mixed = reinterpret_cast<uintptr_t>(launch.function) ^
                           reinterpret_cast<uintptr_t>(launch.stream) * 3 ^
                           (uint64_t{launch.grid[0]} << 32 | launch.block[0]);
    return places[mixed * 0x9e3779b97f4a7c15 >> (64 - kPlaceBits)];
  }
};

/// Whether FindKnown has to be asked: most threads know no launches, and most launches of the others are known.
inline bool MayBeKnown(const Launch& launch) noexcept {
  return this_thread.knows_launches && thread_memory != nullptr &&
         KeptIn<KnownLaunches>(thread_memory->known_launches)->PlaceOf(launch).function == launch.function;
}

/// The form in which a launch is known to go out, for this time; null: it is not known, or has to be found out anew. Only
/// for a launch that MayBeKnown. Valid until the thread's next launch. Makes at most one call of the driver, which does not
/// wait.
const PreemptibleForm* FindKnown(const Launch& launch) noexcept;

/// Keeps the form for the thread's next launches like this one, which has no attributes. The stream may be a default
/// stream: then the form is for launches while the same context is current.
void RememberLaunch(const Launch& launch, const PreemptibleForm& form) noexcept;

}  // namespace cupola::intercept
