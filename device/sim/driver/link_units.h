// Links the PTX of an -rdc program's units by text: what nvlink does with their code. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace cupola::sim {

/// One module of several. Declarations that another unit defines are dropped where a definition
/// stands; names that are local to a unit and occur in another one, too, are an error (nvcc gives
/// them unique names). Errors: those of the parser; kDamaged for a symbol defined twice.
Result<std::string> LinkUnits(const std::vector<std::string>& units);

}  // namespace cupola::sim
