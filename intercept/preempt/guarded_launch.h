// Preemptible launches: launches the preemptible variant with its guard (form_choice.h chooses the form of a launch). Called
// by the launch path (path/launch_path.cpp), from any thread. It fails open: a launch goes out plain on any doubt, and is
// counted by reason.
#pragma once

#include <cstdint>

#include <cuda.h>

#include "intercept/launch/known_launch.h"
#include "intercept/launch/launch_counters.h"
#include "intercept/launch/launch_slots.h"

namespace cupola::intercept {
struct KeptAttributes;
struct Launch;
struct LaunchContext;
}  // namespace cupola::intercept

namespace cupola::intercept::preempt {

struct Attempt;

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

/// The same for a kernel of a graph, among the graph's pieces. The caller holds launch_mutex, has counted itself in
/// half_made, and sees to the room in the stream. Waits for nothing. False: nothing was launched.
bool LaunchAmongPieces(const PreemptibleForm& form, const Launch& launch, const KeptAttributes& attributes,
                       CUresult* result) noexcept;

/// Launches `physical` of a slot's variant on its helper stream, with the arguments that the slot
/// keeps. For the agent; the context is current.
CUresult LaunchPhysical(LaunchContext& context, LaunchSlot& slot, uint32_t physical) noexcept;

}  // namespace cupola::intercept::preempt
