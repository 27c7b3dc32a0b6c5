// cuInit, cuDriverGetVersion and the checks that every call begins with.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "base/settings/problems.h"
#include "base/settings/variables.h"
#include "base/standard_error.h"
#include "device/sim/driver/api.h"
#include "device/sim/token/token.h"

namespace cupola::sim {
namespace {

constexpr int kDriverVersion = 13000;

// Leaked on purpose: the threads of streams and SMs may still be running when the process ends, and
// nothing that they use may be destroyed.
std::atomic<Driver*> the_driver{nullptr};
std::atomic<bool> is_forked_child{false};
std::atomic<bool> has_exited{false};  // set by an exit handler, as a GPU's driver registers one
std::mutex init_mutex;

/// The token through which this process shares the device with the user's other processes; null where
/// the environment says that it is not to be shared. Leaked on purpose, like the driver.
Token* MakeToken() {
  const char* path = settings::TextIfAny("CUPOLA_SIM_TOKEN");
  if (SharesContext() || (path != nullptr && std::strcmp(path, "off") == 0)) return nullptr;
  TokenOptions options;
  if (path != nullptr) options.path = path;
  options.slice_ns = settings::Number("CUPOLA_SIM_SLICE_US") * 1000;
  return new Token(std::move(options));
}

}  // namespace

bool SharesContext() { return settings::Flag("CUPOLA_SIM_MPS"); }

CUresult Initialize(uint32_t flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (is_forked_child.load()) return CUDA_ERROR_NOT_INITIALIZED;
  std::lock_guard lock(init_mutex);
  if (the_driver.load() != nullptr) return CUDA_SUCCESS;
  settings::ForEachProblem(environ, settings::kSimulated, [](settings::Problem problem, const char* line) {
    if (problem == settings::Problem::kBadValue) Say(line);
  });
  DeviceConfig config;
  config.sm_count = static_cast<uint32_t>(settings::Number("CUPOLA_SIM_SMS"));
  config.memory_bytes = settings::Number("CUPOLA_SIM_MEMORY_MB") << 20;
  if (Token* token = MakeToken()) config.gate = &token->gate();
  sigset_t all, before;  // all signals are blocked, as the SMs' threads must not take the program's signals
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::unique_ptr<Device> device = Device::Create(config);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_atfork(nullptr, nullptr, [] { is_forked_child.store(true); });
  std::atexit([] { has_exited.store(true); });
  the_driver.store(new Driver(std::move(device)));
  return CUDA_SUCCESS;
}

CUresult Enter(Driver** driver) {
  *driver = the_driver.load(std::memory_order_acquire);
  if (has_exited.load(std::memory_order_relaxed)) return CUDA_ERROR_DEINITIALIZED;
  const bool is_usable = *driver != nullptr && !is_forked_child.load(std::memory_order_relaxed);
  return is_usable ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult Enter(Driver** driver, Context** context) {
  SIM_TRY(Enter(driver));
  *context = (*driver)->Current();
  if (*context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if ((*context)->destroyed.load()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return (*context)->sticky();
}

CUresult Enter(Driver** driver, Context** context, CUstream handle, DefaultStream null_means,
               std::shared_ptr<Stream>* stream) {
  SIM_TRY(Enter(driver));
  // A created stream acts in its own context, whichever is current.
  *stream = (*driver)->streams.Find(handle);
  if (*stream) {
    *context = (*stream)->context;
    return (*context)->sticky();
  }
  SIM_TRY(Enter(driver, context));
  *stream = (*driver)->Resolve(**context, handle, null_means);
  return *stream ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

int DeviceCount() {
  static const auto count = static_cast<int>(settings::Number("CUPOLA_SIM_DEVICES"));
  return count;
}

CUresult CheckDevice(CUdevice device) {
  return device >= 0 && device < DeviceCount() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult CheckHasPrimary(CUdevice device) {
  SIM_TRY(CheckDevice(device));
  if (device == 0) return CUDA_SUCCESS;
  SayLacks("a primary context of a second device");
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace cupola::sim

/// Called by the generated stubs of the calls that the simulated device lacks (exports.cmake).
extern "C" __attribute__((visibility("hidden"))) CUresult cupola_sim_lacks(const char* name) {
  cupola::sim::SayLacks(name);
  return CUDA_ERROR_NOT_SUPPORTED;
}

/// Called by the library that opens this one, before any other call (base/standard_error.h).
extern "C" __attribute__((visibility("default"))) void cupola_take_standard_error(
    const cupola::FileIdentity* at_start) {
  cupola::TakeStandardError(*at_start);
}

using namespace cupola::sim;  // NOLINT: the exported calls are outside the namespace

SIM_EXPORT CUresult cuInit(unsigned int flags) { return Initialize(flags); }

SIM_EXPORT CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = kDriverVersion;
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuGetExportTable(const void** table, const CUuuid*) {
  static std::atomic_flag said;
  if (!said.test_and_set()) {
    Say("the program, or a library that it uses, has NVIDIA's CUDA runtime linked in, which cannot run "
        "on the simulated device: build it with nvcc -cudart shared, or run it on a GPU");
  }
  if (table != nullptr) *table = nullptr;
  return CUDA_ERROR_NOT_FOUND;
}

SIM_EXPORT CUresult cuProfilerStart(void) { return CUDA_SUCCESS; }
SIM_EXPORT CUresult cuProfilerStop(void) { return CUDA_SUCCESS; }
