// An Inspection as tables for people and as JSON for programs. Pure functions; any thread.
#pragma once

#include <string>

#include "cli/inspect.h"

namespace cupola {

struct InspectPrintOptions {
  bool mangled = false;     ///< name kernels by their mangled names
  bool all_images = false;  ///< print a row per image even where there are many
};

/// Tables of images and kernels, and a sentence on what they mean for Cupola. Where a kernel has
/// code for several architectures, the numbers are those of `sm` (90: H100, H200).
std::string InspectionText(const Inspection& inspection, const InspectPrintOptions& options,
                           uint32_t sm = 90);

/// Everything that is known, as one JSON object (docs/formats.md).
std::string InspectionJson(const Inspection& inspection);

}  // namespace cupola
