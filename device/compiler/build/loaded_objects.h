// Finds the shared objects that a program loads at its start, as the dynamic loader finds them: by
// DT_NEEDED, RPATH, RUNPATH, LD_LIBRARY_PATH and ld.so.cache, in its order. It runs the loader
// itself, which runs nothing of the program. Any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cupola::build {

struct LoadedObjects {
  std::vector<std::string> files;  ///< absolute paths, in the order of loading, without the program
  std::vector<std::string> missing;  ///< names that the loader does not find
};

/// The objects that `path` (a program or shared object) needs, and those that these need in turn.
/// None for a program without a dynamic loader. Errors: kNotFound; kUnsupported for files of
/// another machine.
Result<LoadedObjects> FindLoadedObjects(const std::string& path);

/// Parses the loader's listing ("libm.so.6 => /lib/libm.so.6 (0x...)", "libx.so => not found").
LoadedObjects ParseListing(std::string_view listing);

}  // namespace cupola::build
