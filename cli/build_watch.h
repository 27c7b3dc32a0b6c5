// `cupola build --watch`: builds the variants of what is compiled while programs run, until it is told to end. It looks into
// folders (the caches of Triton and torch.compile) and into the folder `compiled` of the store, in which Cupola keeps, in
// the programs that it runs in, PTX that they load and cubins of NVRTC and nvJitLink (intercept/process/compiled_folder.h).
// Programs that run take up what was built (intercept/images/late_bundles.h).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace cupola {

/// Builds these files; the paths are absolute.
using BuildSome = std::function<void(const std::vector<std::string>& files)>;

/// The cubins below a folder that have their PTX beside them, sorted; empty if there is no such folder.
std::vector<std::string> CubinsBelow(const std::string& folder);

/// The folders in which Triton and torch.compile keep what they compile, for this user, whether or not they exist yet:
/// TRITON_CACHE_DIR, else ~/.triton/cache; TORCHINDUCTOR_CACHE_DIR, else torchinductor_<user> in the temporary folder.
std::vector<std::string> CompileCaches();

/// Watches `folders` and the folder `compiled` of `store`, and calls `build` with what is new, once for each file as it is,
/// until a signal to end comes (end_signals.h). Says on standard output what is watched. Runs with the least claim to processors. Errors: kIo, and kInvalidArgument where another
/// process watches for this store. One call in a process.
Status WatchFolders(const std::string& store, const std::vector<std::string>& folders, const BuildSome& build);

}  // namespace cupola
