// The real driver. It is opened once, at the process's first CUDA call, and never closed. Any thread.
#pragma once

#include "intercept/process/calls.h"
#include "intercept/process/notice.h"

namespace cupola::intercept {

/// Opens the driver and fills cupola_real, once. Needs little of the caller's stack. It holds no lock of ours while
/// the dynamic linker works, because another thread may be inside a constructor that calls CUDA. Two threads that
/// come together both open it, with the same result. Returns false when there is no driver.
bool OpenDriver() noexcept;

/// True once OpenDriver has found a driver.
bool IsDriverOpen() noexcept;

/// True once OpenDriver has found the driver of the simulated device, which runs only PTX.
bool IsDriverSimulated() noexcept;

/// Whether the driver lacks a call. Cupola's own work looks before it relies on a call that came after the oldest
/// supported driver (base/later_calls.h). Only after OpenDriver has found a driver.
bool IsLacking(Call call) noexcept;

/// Says that the driver lacks `call`, which is a row of kLaterCalls, its version, and what is off without it.
void SayLacking(Level level, Call call) noexcept;

/// True for functions that stand in for calls that the driver lacks (see calls.h).
bool IsStandIn(const void* function) noexcept;

/// Whether the door was preloaded (process/door.h). Without it Cupola only passes calls on.
bool HasDoor() noexcept;

}  // namespace cupola::intercept
