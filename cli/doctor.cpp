#include "cli/doctor.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <optional>

#include <dlfcn.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/later_calls.h"
#include "base/settings/problems.h"
#include "base/settings/variables.h"
#include "cli/arbiter_connection.h"
#include "cli/commands.h"
#include "cli/installation.h"
#include "cli/program.h"
#include "device/compiler/build/compiler.h"
#include "device/compiler/store/store_writer.h"

namespace cupola {
namespace {

namespace fs = std::filesystem;
using State = Finding::State;

constexpr int kMajor = 9, kMinor = 0;  // the compute capability that variants are made for
constexpr unsigned kDriverSeconds = 20;

Finding Good(std::string name, std::string text) { return {std::move(name), State::kGood, std::move(text), ""}; }
Finding Note(std::string name, std::string text, std::string remedy) {
  return {std::move(name), State::kNote, std::move(text), std::move(remedy)};
}
Finding Trouble(std::string name, std::string text, std::string remedy) {
  return {std::move(name), State::kTrouble, std::move(text), std::move(remedy)};
}

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

Finding OfInstallation(const Result<Installation>& installation) {
  if (!installation) {
    return Trouble("cupola", installation.error().message, "build it, or install it again (docs/install.md)");
  }
  return Good("cupola", installation->preload);
}

Finding OfSystem() {
  utsname system{};
  uname(&system);
  return Good("system", fmt::format("{} {} {}, glibc {}", system.sysname, system.release, system.machine,
                                    gnu_get_libc_version()));
}

Finding OfDeviceFile() {
  constexpr char kControl[] = "/dev/nvidiactl";
  if (access(kControl, F_OK) != 0) {
    return Note("device", "there is no NVIDIA device here: programs run on the simulated device",
                "on a machine with a GPU load NVIDIA's kernel module; start a container with --gpus all");
  }
  const int fd = open(kControl, O_RDWR | O_CLOEXEC);
  if (fd < 0) {
    return Trouble("device", fmt::format("{} cannot be opened: {}", kControl, std::strerror(errno)),
                   "give this user access to /dev/nvidia* (its group, or the container's device rules)");
  }
  close(fd);
  return Good("device", kControl);
}

/// What a process of its own learns of the driver.
struct DriverFacts {
  int problem = 0;  ///< 1: it cannot be loaded; 2: cuInit failed with `error`
  int error = 0;
  int version = 0;
  int count = 0;
  int major = 0, minor = 0;  ///< of the first device
  char name[96] = {};        ///< of the first device
  bool lacks[std::size(kLaterCalls)] = {};  ///< which of kLaterCalls the driver does not have
};

/// Runs in the child.
DriverFacts AskDriver(const std::string& path) {
  DriverFacts facts;
  void* const driver = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  const auto init = driver == nullptr ? nullptr : reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  const auto find = [driver](const char* name) { return dlsym(driver, name); };
  if (init == nullptr) {
    facts.problem = 1;
    return facts;
  }
  if (const auto version = reinterpret_cast<int (*)(int*)>(find("cuDriverGetVersion"))) version(&facts.version);
  for (size_t i = 0; i < std::size(kLaterCalls); ++i) facts.lacks[i] = find(kLaterCalls[i].name) == nullptr;
  facts.error = init(0);
  if (facts.error != 0) {
    facts.problem = 2;
    return facts;
  }
  const auto count = reinterpret_cast<int (*)(int*)>(find("cuDeviceGetCount"));
  const auto name = reinterpret_cast<int (*)(char*, int, int)>(find("cuDeviceGetName"));
  const auto attribute = reinterpret_cast<int (*)(int*, int, int)>(find("cuDeviceGetAttribute"));
  if (count == nullptr || count(&facts.count) != 0 || facts.count == 0) return facts;
  if (name != nullptr) name(facts.name, sizeof(facts.name) - 1, 0);
  if (attribute != nullptr) {  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR
    attribute(&facts.major, 75, 0);
    attribute(&facts.minor, 76, 0);
  }
  return facts;
}

/// Asks the driver in a child, because starting it takes memory and may hang. Nothing: it did not answer.
std::optional<DriverFacts> FactsOfDriver(const std::string& path) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  const pid_t child = fork();
  if (child == 0) {
    const int nowhere = open("/dev/null", O_WRONLY);
    if (nowhere >= 0) dup2(nowhere, STDERR_FILENO);
    alarm(kDriverSeconds);
    const DriverFacts facts = AskDriver(path);
    _exit(write(ends[1], &facts, sizeof(facts)) == sizeof(facts) ? 0 : 1);
  }
  close(ends[1]);
  DriverFacts facts;
  const bool has_answered = child > 0 && TEMP_FAILURE_RETRY(read(ends[0], &facts, sizeof(facts))) == sizeof(facts);
  close(ends[0]);
  if (child > 0) TEMP_FAILURE_RETRY(waitpid(child, nullptr, 0));
  if (!has_answered) return std::nullopt;
  facts.name[sizeof(facts.name) - 1] = '\0';
  return facts;
}

std::string VersionText(int version) { return fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10); }

/// `text`: the driver's path and version. A driver that started.
Finding OfDriver(const std::string& text, const DriverFacts& facts) {
  if (facts.version < kOldestDriver) {
    return Trouble("driver", text, fmt::format("install a driver of {} or later", VersionText(kOldestDriver)));
  }
  std::string off;
  int wanted = 0;
  for (size_t i = 0; i < std::size(kLaterCalls); ++i) {
    if (!facts.lacks[i]) continue;
    off += fmt::format("; it lacks {}: {}", kLaterCalls[i].name, kLaterCalls[i].without);
    wanted = std::max(wanted, kLaterCalls[i].since);
  }
  if (off.empty()) return Good("driver", text);
  return Note("driver", text + off, fmt::format("install a driver of {} or later", VersionText(wanted)));
}

void AddDriver(const Installation& installation, std::vector<Finding>* findings) {
  const DriverPlaces places = DefaultDriverPlaces();
  const Result<std::string> driver = FindDriver(places, installation);
  if (!driver) {
    const bool is_named = !places.named.empty();
    const Result<DeviceChoice> chosen = ChooseDevice("auto", places, installation);
    if (is_named && chosen && chosen->simulated) {
      findings->push_back(Good("driver", "CUPOLA_DRIVER names the simulated device"));
      return;
    }
    const std::string remedy = "install NVIDIA's driver, or use --device sim";
    findings->push_back(is_named ? Trouble("driver", driver.error().message, "name a driver, or unset CUPOLA_DRIVER")
                                 : Note("driver", driver.error().message, remedy));
    return;
  }
  const std::optional<DriverFacts> facts = FactsOfDriver(*driver);
  if (!facts || facts->problem == 1) {
    findings->push_back(Trouble("driver", fmt::format("{} {}", *driver, facts ? "cannot be loaded" : "does not answer"),
                                "see what nvidia-smi says, and install the driver again"));
    return;
  }
  const std::string text = fmt::format("{}, {}", *driver, VersionText(facts->version));
  if (facts->problem == 2) {
    findings->push_back(Trouble("driver", fmt::format("{}: cuInit returns {}", text, facts->error),
                                "see what nvidia-smi says"));
    return;
  }
  findings->push_back(OfDriver(text, *facts));
  if (facts->count == 0) return;
  const std::string gpu = fmt::format("{} of them; the first: {}, compute capability {}.{}", facts->count, facts->name,
                                      facts->major, facts->minor);
  findings->push_back(facts->major == kMajor && facts->minor == kMinor
                          ? Good("GPUs", gpu)
                          : Note("GPUs", gpu, "none: kernels there run as without Cupola, since variants are made for "
                                              "compute capability 9.0"));
}

Finding OfSimulatedDevice(const Installation& installation) {
  if (!installation.sim_folder.empty()) return Good("simulated device", installation.sim_folder);
  return Note("simulated device", "not here: without a GPU nothing can run", "build or install sim/libcuda.so.1");
}

Finding OfCompiler() {
  const auto compiler = build::FindCompiler(build::DefaultCompilerPlaces());
  if (compiler) return Good("compiler", (*compiler)->version());
  return Note("compiler", fmt::format("`cupola build` cannot make variants: {}", compiler.error().message),
              "install a CUDA 12 or 13 toolkit, or set CUDA_HOME");
}

Finding OfCupti(const Installation& installation) {
  const fs::path library = fs::path(installation.preload).parent_path() / "libcupola_cupti.so";
  if (IsWholeObject(library.string())) return Good("CUPTI", library.string());
  return Note("CUPTI", "not built in: `cupola profile` measures kernels by events",
              "build Cupola with a toolkit that has CUPTI's headers");
}

Finding OfStore() {
  if (const std::string why = WhyNotUsed("CUPOLA_STORE"); !why.empty()) {
    return Trouble("store", why, "set CUPOLA_STORE to an absolute path, or unset it");
  }
  const std::string folder = store::VariantStore::DefaultFolder();
  const Result<store::VariantStore> opened = store::VariantStore::Open(folder);
  if (!opened && opened.error().code == ErrorCode::kNotFound) {
    return Note("store", fmt::format("{} is not there: no kernel has variants", folder), "cupola build ./app");
  }
  if (!opened) return Trouble("store", opened.error().ToString(), fmt::format("see who may write to {}", folder));
  uint64_t bundles = 0;
  std::error_code ignored;
  for (const auto& entry : fs::recursive_directory_iterator(folder, ignored)) bundles += entry.is_regular_file(ignored);
  return Good("store", fmt::format("{}, {} files", folder, bundles));
}

Finding OfArbiter() {
  Result<ArbiterConnection> connection = ArbiterConnection::Open("");
  if (!connection) {
    const bool is_absent = connection.error().code == ErrorCode::kNotFound;
    return is_absent ? Note("arbiter", "none is running: programs do not give way to one another", "cupola serve")
                     : Trouble("arbiter", connection.error().ToString(), "see `cupola serve --help`, and CUPOLA_SOCKET");
  }
  const Result<nlohmann::json> shown = connection->Ask({{"command", "show"}});
  if (!shown) return Trouble("arbiter", shown.error().ToString(), "start `cupola serve` again");
  size_t programs = 0;
  for (const nlohmann::json& gpu : shown->value("gpus", nlohmann::json::array())) {
    programs += gpu.value("clients", nlohmann::json::array()).size();
  }
  return Good("arbiter", fmt::format("it runs, with {} programs", programs));
}

Finding OfMps() {
  const Result<std::string> control = FindProgram("nvidia-cuda-mps-control");
  if (!control) {
    return Note("MPS", "nvidia-cuda-mps-control is not in PATH: programs take turns on the GPU",
                "install it with NVIDIA's driver, then: cupola serve --mps");
  }
  std::string folder = Environment("CUDA_MPS_PIPE_DIRECTORY");
  if (folder.empty()) folder = "/tmp/nvidia-mps";
  if (access((folder + "/control").c_str(), F_OK) == 0) return Good("MPS", fmt::format("its control is at {}", folder));
  return Note("MPS", fmt::format("{} is there and does not run", *control), "cupola serve --mps starts it");
}

Finding OfRealTime() {
  rlimit limit{};
  getrlimit(RLIMIT_RTPRIO, &limit);
  const sched_param lowest{.sched_priority = sched_get_priority_min(SCHED_FIFO)};
  // In a child, so that this process stays as it is.
  const pid_t child = fork();
  if (child == 0) _exit(sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &lowest) == 0 ? 0 : 1);
  int status = 1;
  if (child > 0) TEMP_FAILURE_RETRY(waitpid(child, &status, 0));
  if (status == 0) return Good("priority", "`cupola serve` may decide at a real-time priority");
  return Note("priority", "`cupola serve` may not take a real-time priority: decisions may wait for busy programs",
              "LimitRTPRIO=1 in its unit, or `rtprio 1` in /etc/security/limits.conf (docs/daemon.md)");
}

/// Variables that concern Cupola, for the report.
void AddEnvironment(std::vector<Finding>* findings) {
  std::string own;
  for (char* const* entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, "CUPOLA_", 7) == 0) own += (own.empty() ? "" : " ") + std::string(*entry);
  }
  findings->push_back(Good("environment", own.empty() ? "no CUPOLA_ variable is set" : own));
  settings::ForEachProblem(environ, UINT8_MAX, [findings](settings::Problem, const char* line) {
    findings->push_back(Note("settings", line, "`cupola settings` lists the variables and what is allowed"));
  });
  for (const char* name : {"LD_AUDIT", "LD_PRELOAD", "CUDA_INJECTION64_PATH", "CUDA_VISIBLE_DEVICES"}) {
    if (const std::string value = Environment(name); !value.empty()) {
      findings->push_back(Good(name, value));
    }
  }
}

}  // namespace

std::vector<Finding> ExamineMachine() {
  std::vector<Finding> findings;
  const char* const home = settings::Text("CUPOLA_HOME");
  const Result<Installation> installation = FindInstallation(home != nullptr ? home : "");
  findings.push_back(OfInstallation(installation));
  findings.push_back(OfSystem());
  findings.push_back(OfDeviceFile());
  AddDriver(installation ? *installation : Installation{}, &findings);
  if (installation) findings.push_back(OfSimulatedDevice(*installation));
  findings.push_back(OfCompiler());
  if (installation) findings.push_back(OfCupti(*installation));
  findings.push_back(OfStore());
  findings.push_back(OfArbiter());
  findings.push_back(OfMps());
  findings.push_back(OfRealTime());
  AddEnvironment(&findings);
  return findings;
}

}  // namespace cupola
