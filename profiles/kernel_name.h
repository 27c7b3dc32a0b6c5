// The names by which people call a kernel and a launch call: the C++ name behind a mangled symbol,
// and the name of the driver call. Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>

namespace cupola {

/// "reduce(float const*, int)" for "_Z6reducePKfi"; the symbol itself where it is no C++ name;
/// "(unknown kernel)" for an empty symbol. Allocates, so it is not for the launch path.
std::string KernelDisplayName(std::string_view symbol);

/// The name of the driver call behind `door` (LaunchDoor), such as "cuLaunchKernel"; "launch" for
/// an unknown value.
const char* DoorName(uint8_t door);

}  // namespace cupola
