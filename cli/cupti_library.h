// Whether a program's kernels can be measured with CUPTI. Main thread, before others are started:
// it forks.
#pragma once

#include <string>

namespace cupola {

struct CuptiChoice {
  std::string library;  ///< absolute path of libcupola_cupti.so; "" = not with CUPTI
  std::string why_not;  ///< one sentence then
};

/// For the program at `path` on the driver `driver`, which a child process starts with our object,
/// to see whether CUPTI is there and takes it (0.1 to 2 s). Not where Cupola was built without
/// CUPTI's headers, where a tool is at work in the environment, or where the program is linked with
/// CUPTI, since a process has one user of it.
CuptiChoice ChooseCupti(const std::string& path, const std::string& driver);

}  // namespace cupola
