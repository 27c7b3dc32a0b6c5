#include "cli/cupti_library.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/private_folder.h"
#include "base/settings/variables.h"
#include "cli/installation.h"
#include "cli/program.h"
#include "profiles/feature_file.h"

namespace cupola {
namespace {

namespace fs = std::filesystem;
constexpr unsigned kProbeSeconds = 20;

// The environment variables of tools that use CUPTI, the same as in
// intercept/record/device_timing.cpp.
constexpr const char* kTools[] = {"CUDA_INJECTION64_PATH", "NV_COMPUTE_PROFILER_PERFWORKS_DIR",
                                  "NV_NSIGHT_INJECTION_TRANSPORT_TYPE", "NSYS_PROFILING_SESSION_ID",
                                  "NV_SANITIZER_INJECTION_PORT_BASE"};

/// Runs in the child: calls cuInit, at which the driver loads our object, and exits with 0 on
/// success.
[[noreturn]] void StartDriver(const std::string& driver, const std::string& library,
                              const std::string& folder) {
  setenv("CUDA_INJECTION64_PATH", library.c_str(), 1);
  setenv(settings::Name("CUPOLA_CUPTI_RECORDS"), folder.c_str(), 1);
  const int nowhere = open("/dev/null", O_WRONLY);
  if (nowhere >= 0) dup2(nowhere, STDERR_FILENO);
  alarm(kProbeSeconds);
  void* opened = dlopen(driver.c_str(), RTLD_NOW | RTLD_GLOBAL);
  const auto initialize =
      opened != nullptr ? reinterpret_cast<int (*)(unsigned)>(dlsym(opened, "cuInit")) : nullptr;
  _exit(initialize != nullptr && initialize(0) == 0 ? 0 : 1);
}

/// Tries CUPTI in a child process. Returns why it cannot be used; "" if it can.
std::string Probe(const std::string& driver, const std::string& library) {
  const auto made = PrivateFolder::Make(PrivateFolder::First::kMemory);
  if (!made) return made.error().message;
  const std::string& folder = made->path();
  const pid_t child = fork();
  if (child == 0) StartDriver(driver, library, folder);
  int status = 0;
  const bool ended = child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
                     WEXITSTATUS(status) == 0;
  std::string text;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    std::stringstream stream;
    stream << std::ifstream(entry.path()).rdbuf();
    text += stream.str();
  }
  if (!ended) return "the driver did not start with CUPTI";
  if (text.empty()) return "the driver did not load Cupola's CUPTI object";
  profiles::Profile none;
  return profiles::AddFeatures(text, 0, [](uint64_t) { return std::nullopt; }, &none).why_untimed;
}

}  // namespace

CuptiChoice ChooseCupti(const std::string& path, const std::string& driver) {
  for (const char* tool : kTools) {
    if (std::getenv(tool) != nullptr) {
      return {"", fmt::format("{} is set: a tool uses CUPTI already", tool)};
    }
  }
  const char* home = settings::Text("CUPOLA_HOME");
  const auto installation = FindInstallation(home != nullptr ? home : "");
  if (!installation) return {"", installation.error().message};
  const std::string folder = installation->preload.substr(0, installation->preload.rfind('/'));
  const std::string library = folder + "/libcupola_cupti.so";
  if (access(library.c_str(), R_OK) != 0) {
    return {"", "this Cupola was built without CUPTI's headers"};
  }
  if (!IsWholeObject(library)) return {"", library + " is not a whole shared object"};
  if (LookAtProgram(path).has_cupti) return {"", "the program uses CUPTI itself"};
  if (std::string why = Probe(driver, library); !why.empty()) return {"", std::move(why)};
  return {library, ""};
}

}  // namespace cupola
