// Finds the integer arguments of a kernel on which its duration may depend. Pure functions.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "models/plan.h"
#include "profiles/profile.h"

namespace cupola::models {

/// What a parameter is, as far as the kernel's C++ name tells it.
enum class ParameterKind : uint8_t { kUnknown, kInteger, kUnsigned, kPointer, kOther };

/// The parameters of a mangled C++ name, in order. Empty where it is no such name or its parameter
/// list cannot be parsed.
std::vector<ParameterKind> KindsFromName(std::string_view mangled);

/// The integer arguments that differ between launches; of these the first kMostIntegers by how well
/// they follow the duration. Where the name does not tell, an argument counts as an integer if all
/// its values are below 2^28 (4 bytes; a float of 1.0 is above that) or 2^40 (8 bytes).
std::vector<PlanArgument> ChooseIntegers(std::string_view mangled,
                                         const profiles::KernelProfile& kernel);

/// The value of an argument as the launch path reads it.
int64_t IntegerValue(const PlanArgument& argument, uint64_t bits);

}  // namespace cupola::models
