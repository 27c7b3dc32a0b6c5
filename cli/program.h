// What can be known of a program before it is started: where it is, whether it can be executed, and
// whether the dynamic loader will preload a library into it. Reads files only. Any thread.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace cupola {

/// Finds `name` as execvp(3) does: by PATH unless it has a slash. kNotFound: there is no such file;
/// kIo: it cannot be executed. The message has the name and the reason.
Result<std::string> FindProgram(const std::string& name);

/// The executable file that starting a program runs: itself, or the interpreter of a script.
struct ProgramFacts {
  std::string file;          ///< the executable, after following "#!" lines
  bool secure = false;       ///< gets other rights than its caller's: nothing is preloaded
  bool is_static = false;    ///< has no dynamic loader: nothing is preloaded into it
  bool is_musl = false;      ///< of the C library musl: what is preloaded into it does nothing
  bool foreign = false;      ///< of another machine: our library does not fit it
  bool has_kernels = false;  ///< carries device code of its own (.nv_fatbin)
  bool has_static_cudart = false;  ///< has kernels, and NVIDIA's runtime linked in
  bool has_cupti = false;    ///< is linked with CUPTI
  std::string cudart;        ///< the CUDA runtime that it needs, as "libcudart.so.13"; "" = none
};

/// Looks at the program in `path`. What is damaged or unknown is left to the kernel: all facts
/// false.
ProgramFacts LookAtProgram(const std::string& path);

}  // namespace cupola
