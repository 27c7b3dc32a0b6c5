#include "cli/cupti_library.h"

#include <cstdlib>

#include <unistd.h>

#include <fmt/format.h>

#include "cli/installation.h"
#include "cli/program.h"

namespace cupola {
namespace {

// As the preloaded library knows them (intercept/device_timing.cpp).
constexpr const char* kTools[] = {"CUDA_INJECTION64_PATH", "NV_COMPUTE_PROFILER_PERFWORKS_DIR",
                                  "NV_NSIGHT_INJECTION_TRANSPORT_TYPE", "NSYS_PROFILING_SESSION_ID",
                                  "NV_SANITIZER_INJECTION_PORT_BASE"};

}  // namespace

CuptiChoice ChooseCupti(const std::string& path) {
  for (const char* tool : kTools) {
    if (std::getenv(tool) != nullptr) {
      return {"", fmt::format("{} is set: a tool uses CUPTI already", tool)};
    }
  }
  const char* home = std::getenv("CUPOLA_HOME");
  const auto installation = FindInstallation(home != nullptr ? home : "");
  if (!installation) return {"", installation.error().message};
  const std::string folder = installation->preload.substr(0, installation->preload.rfind('/'));
  const std::string library = folder + "/libcupola_cupti.so";
  if (access(library.c_str(), R_OK) != 0) {
    return {"", "this Cupola was built without CUPTI's headers"};
  }
  if (LookAtProgram(path).has_cupti) return {"", "the program uses CUPTI itself"};
  return {library, ""};
}

}  // namespace cupola
