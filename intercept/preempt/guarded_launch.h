// The launch path of a process that takes part in preemption: every launch tells the board of
// demand; one that is worth it goes out as its preemptible variant with a guard behind it, the
// others as the program made them. Called by the launch hooks; any thread. Fails open: whatever is
// in doubt goes out plain, counted by reason.
#pragma once

#include <cstdint>

#include <cuda.h>

#include "intercept/preempt/launch_slots.h"
#include "intercept/preempt/preemption.h"

namespace cupola::intercept {
struct LaunchFacts;
}

namespace cupola::intercept::preempt {

struct PreemptContext;

/// What of a launch call its facts do not hold.
struct LaunchCall {
  void** params = nullptr;
  void** extra = nullptr;
  const CUlaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
  CUresult (*make)(void* data) = nullptr;  ///< the program's own call
  void* data = nullptr;
};

/// Makes the launch, preemptible or plain; returns what the driver said.
CUresult LaunchUnderBoard(const LaunchFacts& facts, const LaunchCall& call) noexcept;

/// Launches `physical` of a slot's variant on its helper stream, with the arguments that the slot
/// keeps. For the agent; the context is current.
CUresult LaunchPhysical(PreemptContext& context, LaunchSlot& slot, uint32_t physical) noexcept;

}  // namespace cupola::intercept::preempt
