// A BuildReport as a table for people and as JSON for programs. Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "device/compiler/build/build.h"

namespace cupola {

/// What is known of a run beside the report.
struct BuildFacts {
  std::string store;     ///< its folder
  std::string compiler;  ///< Compiler::version()
  uint32_t arch = 90;
  double seconds = 0;                ///< of the whole
  std::vector<std::string> missing;  ///< libraries that the loader does not find
};

struct BuildPrintOptions {
  bool mangled = false;  ///< kernels by their mangled names
};

/// A row for each kernel that has PTX; what has none in a line per file and reason; the totals.
std::string BuildText(const build::BuildReport& report, const BuildFacts& facts,
                      const BuildPrintOptions& options);

/// Everything that is known, as one JSON object (docs/variants.md).
std::string BuildJson(const build::BuildReport& report, const BuildFacts& facts);

/// The kernels that a build would look at, as one JSON array.
std::string ListJson(const std::vector<build::ListedKernel>& kernels);

/// One line for an image that is done: "built libx.so+0x1000: 3 kernels, 0.4 s".
std::string BuildProgressLine(const build::ImageReport& image);

}  // namespace cupola
