// Runs one grid to its end, on a device with threads of its own or on one that the caller drives.
#pragma once

#include <optional>

#include "device/sim/exec/device.h"

namespace cupola::sim {

/// Submits and waits; the fault if there was one, FaultKind::kTrap for a kernel that can never end
/// (found by devices that the caller drives only). Thread rule: that of Device::Submit.
std::optional<Fault> SubmitAndWait(Device& device, GridLaunch launch);

}  // namespace cupola::sim
