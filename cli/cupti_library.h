// Decides whether a program's kernels can be measured with CUPTI. `cupola profile` calls it on the
// main thread, before it starts other threads, because it forks.
#pragma once

#include <string>

namespace cupola {

struct CuptiChoice {
  std::string library;  ///< absolute path of libcupola_cupti.so; "": CUPTI cannot be used
  std::string why_not;  ///< if it cannot be used: one sentence that says why
};

/// Chooses for the program at `path` on the driver `driver`. A child process starts the driver with
/// libcupola_cupti.so, to see whether CUPTI is there and works (0.1 to 2 s). CUPTI cannot be used
/// where Cupola was built without CUPTI's headers, where the environment shows that another tool
/// uses it, or where the program is linked with it, because a process can have only one user of
/// CUPTI.
CuptiChoice ChooseCupti(const std::string& path, const std::string& driver);

}  // namespace cupola
