// Examines a program before it is started: where it is, whether it can be executed, and whether the
// dynamic loader will preload a library into it. `cupola run`, `profile` and `tune` call it before
// they start a program (prepare_run.cpp). It only reads files; any thread.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace cupola {

/// Finds `name` as execvp(3) does: by PATH unless it has a slash. Errors: kNotFound when there is
/// no such file, kIo when it cannot be executed. The message has the name and the reason.
Result<std::string> FindProgram(const std::string& name);

/// Facts about the executable file that runs when a program is started: the program itself, or the
/// interpreter of a script.
struct ProgramFacts {
  std::string file;          ///< the executable, after following "#!" lines
  bool secure = false;       ///< it gets other rights than its caller's, so nothing is preloaded
  bool is_static = false;    ///< it has no dynamic loader, so nothing is preloaded
  /// It uses the C library musl, under which a preloaded Cupola does nothing.
  bool is_musl = false;
  bool foreign = false;      ///< it is for another machine, for which our library does not fit
  bool has_kernels = false;  ///< it has device code of its own (.nv_fatbin)
  bool has_static_cudart = false;  ///< it has kernels, and NVIDIA's runtime is linked into it
  bool has_cupti = false;    ///< it is linked with CUPTI
  /// The CUDA runtime that it needs, such as "libcudart.so.13"; "": none.
  std::string cudart;
};

/// Examines the program in `path`. For a damaged or unknown file all facts are false; starting it
/// is left to the operating system's kernel, which refuses it.
ProgramFacts LookAtProgram(const std::string& path);

}  // namespace cupola
