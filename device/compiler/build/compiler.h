// Compiles PTX to machine code, ahead of time and without a GPU: by the toolkit's ptxas, or where
// there is no toolkit by nvJitLink, in a process of its own. Any number of threads may share a
// compiler.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cupola::build {

struct CompileInput {
  std::string_view ptx;
  uint32_t arch = 90;                        ///< 90 for sm_90
  char arch_suffix = 0;                      ///< 'a', 'f' or 0
  std::vector<std::string> options;          ///< in the form of ptxas' arguments
  std::chrono::milliseconds limit{120'000};  ///< the compiler is killed after this time
};

class Compiler {
 public:
  virtual ~Compiler() = default;
  /// Name and version, "ptxas cuda_13.0.r13.0/compiler.36424714_0". It is part of every key of the
  /// store.
  virtual const std::string& version() const = 0;
  /// Returns the cubin. Errors: kUnsupported with the compiler's first complaint; kExhausted at the
  /// time limit; kIo and kInternal where the compiler could not do its work.
  virtual Result<std::vector<uint8_t>> Compile(const CompileInput& input) const = 0;
};

/// Where FindCompiler looks.
struct CompilerPlaces {
  std::string ptxas;      ///< where set, the only place
  std::string cuda_home;  ///< value of CUDA_HOME
  std::string path;       ///< value of PATH
  std::string worker;     ///< the program that runs RunJitLinkWorker for `build-worker`; "": none
};

/// The places of this process; `worker` is the running program.
CompilerPlaces DefaultCompilerPlaces();

/// Finds the ptxas of CUDA_HOME, of PATH or of /usr/local/cuda, else the nvJitLink of the same
/// toolkit folders or of the loader's path. Errors: kNotFound with what the user can do.
Result<std::unique_ptr<Compiler>> FindCompiler(const CompilerPlaces& places);

/// Finds nvJitLink alone. `library` "": where FindCompiler looks for it.
Result<std::unique_ptr<Compiler>> FindJitLink(const CompilerPlaces& places,
                                              const std::string& library);

/// The part of a fatbin's option string that changes machine code, as arguments of ptxas. Words
/// that are not known to be harmless are left out, since they come from the program's file.
std::vector<std::string> KnownOptions(std::string_view options);

/// The worker's exit code where it could not do its work, and the compiler has refused nothing.
inline constexpr int kWorkerFailed = 2;

/// The work of the worker process. `arguments` are library, PTX file, cubin file and options of
/// nvJitLink; without a PTX file it prints the version. Returns an exit code: 0 = done, 1 = the
/// compiler refuses the PTX or an option, kWorkerFailed. Complaints go to standard output.
int RunJitLinkWorker(const std::vector<std::string>& arguments);

}  // namespace cupola::build
