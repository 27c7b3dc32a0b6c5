// Chooses the form of a launch in a process that takes part in preemption: preemptible, in slices, or as it is. Called by the
// launch path (path/launch_path.cpp), from any thread. On any doubt a launch stays as it is, and is counted by reason.
#pragma once

#include <cstdint>

#include "intercept/launch/launch_counters.h"

namespace cupola::intercept::preempt {

struct Attempt;

/// The forms in which a launch of a process that takes part may go to the driver.
enum class Form : uint8_t { kPreemptible, kSliced, kPlain };

/// Chooses the form that is worth most for this launch. If that is kPlain, `*why` is the reason. The first launch of a
/// kernel in a context with a block shape prepares the variant, and may wait for the device.
Form ChooseForm(Attempt* attempt, Reason* why) noexcept;

/// The expected time, in nanoseconds, of the launch that begins a demand; the arbiter weighs it against others of the
/// same priority. 0: not known, or not needed, because demand has begun already or nobody may ask this process to
/// yield. The arbiter judges a burst by its first launch, and by its age once that time has passed.
uint64_t ExpectForDemand(Attempt* attempt) noexcept;

}  // namespace cupola::intercept::preempt
