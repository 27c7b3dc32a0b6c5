// A BuildReport as a table for people and as JSON for programs. Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "device/compiler/build/build.h"

namespace cupola {

/// Facts about a build that the report does not have.
struct BuildFacts {
  std::string store;     ///< the folder of the store
  std::string compiler;  ///< Compiler::version()
  uint32_t arch = 90;    ///< of the variants: 90 for sm_90
  double seconds = 0;    ///< duration of the whole build
  std::vector<std::string> missing;  ///< libraries that the loader does not find
};

struct BuildPrintOptions {
  bool mangled = false;  ///< name kernels by their mangled names
};

/// A row for each kernel that has PTX; for kernels without, a line per file and reason; then the
/// totals.
std::string BuildText(const build::BuildReport& report, const BuildFacts& facts,
                      const BuildPrintOptions& options);

/// Everything that is known, as one JSON object (docs/variants.md).
std::string BuildJson(const build::BuildReport& report, const BuildFacts& facts);

/// The kernels from which a build would make variants, as one JSON array.
std::string ListJson(const std::vector<build::ListedKernel>& kernels);

/// One line for an image that has been built, such as "built libx.so+0x1000: 3 kernels, 0.4 s".
std::string BuildProgressLine(const build::ImageReport& image);

}  // namespace cupola
