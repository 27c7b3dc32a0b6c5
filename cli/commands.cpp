#include "cli/commands.h"

#include <fmt/format.h>

namespace cupola {

void PrintError(const Error& error) { fmt::print(stderr, "cupola: {}\n", error.ToString()); }

}  // namespace cupola
