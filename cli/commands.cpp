#include "cli/commands.h"

#include <cstdio>

namespace cupola {

void PrintError(const Error& error) {
  // fputs, as fmt::print throws where standard error is closed.
  std::fputs(("cupola: " + error.ToString() + "\n").c_str(), stderr);
}

}  // namespace cupola
