// Whether a program's kernels can be measured with CUPTI. Looks at files only.
#pragma once

#include <string>

namespace cupola {

struct CuptiChoice {
  std::string library;  ///< absolute path of libcupola_cupti.so; "" = not with CUPTI
  std::string why_not;  ///< one sentence then
};

/// For the program at `path`. Not where Cupola was built without CUPTI's headers, where a tool is
/// at work in the environment, or where the program is linked with CUPTI, since a process has one
/// user of it.
CuptiChoice ChooseCupti(const std::string& path);

}  // namespace cupola
