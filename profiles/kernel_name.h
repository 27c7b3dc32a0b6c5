// What people call a kernel: the C++ name behind a mangled symbol.
#pragma once

#include <string>
#include <string_view>

namespace cupola {

/// "reduce(float const*, int)" for "_Z6reducePKfi"; the symbol itself where it is not a C++ one;
/// "(unknown kernel)" for an empty one. Allocates; not for the launch path.
std::string KernelDisplayName(std::string_view symbol);

/// The name of the driver call behind `door`, as "cuLaunchKernel"; an unknown value gives "launch".
const char* DoorName(uint8_t door);

}  // namespace cupola
