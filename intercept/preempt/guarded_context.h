// The guarded launches of a context: makes the context's control slots, accounts for launches that are complete, and
// gives the launches up when the context ends or is beyond repair. Any thread, unless a function says that it is for
// the agent.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "intercept/launch/launch_context.h"

namespace cupola::intercept::preempt {

/// Makes the slots, the status lines and the first helper stream, and registers the board's page.
/// The state becomes kReady, or kPlain with a message in the log. The caller has made the context
/// current and holds a scope, so that none of its launches is guarded. May wait for the device.
void MakeReady(LaunchContext* context) noexcept;

/// Reads what the device wrote and accounts for launches that are complete. Returns how many are
/// outstanding. Makes no driver call.
uint32_t Harvest(LaunchContext& context) noexcept;

/// Whether no guarded launch of the context is under way.
bool NoneIsGuarded(LaunchContext& context) noexcept;

/// Counts launches that had stopped and run again, or are about to.
void CountResumes(LaunchContext& context, uint32_t resumes) noexcept;

/// The context is beyond repair (a sticky error): its launches count as over, and nobody waits for
/// them any more.
void GiveUp(LaunchContext& context) noexcept;

/// Makes one more helper stream. False: the context has as many as it may have, all hardware queues
/// are taken, or the driver refused. The context is current. For MakeReady and the agent.
bool AddHelper(LaunchContext& context) noexcept;

/// Called before a driver call that may end the context, when nothing of it is outstanding: from here
/// on its launches go out plain and the agent leaves it alone. ResumeContextState or EndContextState follows.
void PauseContextState(CUcontext context) noexcept;

}  // namespace cupola::intercept::preempt
