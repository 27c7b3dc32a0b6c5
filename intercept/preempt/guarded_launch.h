// Preemptible launches: chooses the form of a launch in a process that takes part in preemption, and launches the
// preemptible variant with its guard. Called by the launch path (path/launch_path.cpp), from any thread. It fails open:
// a launch goes out plain on any doubt, and is counted by reason.
#pragma once

#include <cstdint>

#include <cuda.h>

#include "intercept/launch/known_launch.h"
#include "intercept/launch/launch_counters.h"
#include "intercept/launch/launch_slots.h"

namespace cupola::intercept {
struct Launch;
struct LaunchContext;
}  // namespace cupola::intercept

namespace cupola::intercept::preempt {

struct Attempt;

/// The forms in which a launch of a process that takes part may go to the driver.
enum class Form : uint8_t { kPreemptible, kSliced, kPlain };

/// Chooses the form that is worth most for this launch. If that is kPlain, `*why` is the reason. The first launch of a
/// kernel in a context with a block shape prepares the variant, and may wait for the device.
Form ChooseForm(Attempt* attempt, Reason* why) noexcept;

/// Launches the preemptible variant with a guard behind it. False: nothing was launched, the launch must go out plain,
/// and `*why` is the reason. May wait for room in the stream, and for a free control slot.
bool LaunchPreemptible(const Attempt& attempt, CUresult* result, Reason* why) noexcept;

/// Whether further launches like this one, which has gone out preemptible, may go out in the same form without being
/// looked at (launch/known_launch.h).
bool MayBeRemembered(const Attempt& attempt) noexcept;
/// The form of a launch that has gone out preemptible.
PreemptibleForm FormOf(const Attempt& attempt) noexcept;

/// LaunchPreemptible for a launch that is known to go out in that form.
bool LaunchAgain(const PreemptibleForm& form, const Launch& launch, CUresult* result, Reason* why) noexcept;

/// The expected time, in nanoseconds, of the launch that begins a demand; the arbiter weighs it against others of the
/// same priority. 0: not known, or not needed, because demand has begun already or nobody may ask this process to
/// yield. The arbiter judges a burst by its first launch, and by its age once that time has passed.
uint64_t ExpectForDemand(Attempt* attempt) noexcept;

/// Launches `physical` of a slot's variant on its helper stream, with the arguments that the slot
/// keeps. For the agent; the context is current.
CUresult LaunchPhysical(LaunchContext& context, LaunchSlot& slot, uint32_t physical) noexcept;

}  // namespace cupola::intercept::preempt
