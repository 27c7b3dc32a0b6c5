// Which arguments of a kernel are integers that its duration may depend on. Pure functions.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "models/plan.h"
#include "profiles/profile.h"

namespace cupola::models {

/// What a parameter is, as far as the kernel's C++ name tells.
enum class ParameterKind : uint8_t { kUnknown, kInteger, kUnsigned, kPointer, kOther };

/// The parameters of a mangled C++ name, in order; empty where the name is not one, or where its
/// parameter list cannot be taken apart.
std::vector<ParameterKind> KindsFromName(std::string_view mangled);

/// The integer arguments that differ between launches; the first kMostIntegers by how well they
/// follow the duration. Where the name says nothing, an argument is taken for an integer if all its
/// values are below 2^28 (4 bytes; a float of 1.0 is above) or 2^40 (8 bytes).
std::vector<PlanArgument> ChooseIntegers(std::string_view mangled,
                                         const profiles::KernelProfile& kernel);

/// The value of an argument as the launch path reads it.
int64_t IntegerValue(const PlanArgument& argument, uint64_t bits);

}  // namespace cupola::models
