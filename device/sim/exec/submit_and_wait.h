// Runs one grid to its end, on a device that has threads of its own or on one that the caller
// drives.
#pragma once

#include <optional>

#include "device/sim/exec/device.h"

namespace cupola::sim {

/// Submits the grid and blocks until it has ended. Returns the fault if there was one;
/// FaultKind::kTrap for a kernel that can never end, which only devices that the caller drives find
/// out. May be called from the threads that may call Device::Submit.
std::optional<Fault> SubmitAndWait(Device& device, GridLaunch launch);

}  // namespace cupola::sim
