// libcupola_cupti.so: measures the kernels of a process with CUPTI, for `cupola profile`. The driver
// loads it at cuInit (CUDA_INJECTION64_PATH) and calls InitializeInjection. It writes lines of a
// feature file (profiles/feature_file.h) into the folder CUPOLA_CUPTI_RECORDS. It describes each
// launch call as the preloaded library does (intercept/record/launch_features.h), under CUPTI's
// correlation id of the call, and writes for each kernel that has run a T line with the same id and
// the duration. CUPTI is opened at run time; if it cannot be opened, or is in use already, the
// library writes an X line that says so and does nothing else. CUPTI documentation, "CUPTI Callback
// API" and "CUPTI Activity API". Callbacks come from any thread.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <cupti.h>
#include <dlfcn.h>
#include <time.h>

#include "base/settings/variables.h"
#include "intercept/record/launch_features.h"

namespace {

using cupola::intercept::FeatureCalls;
using cupola::intercept::FeatureLaunch;
using cupola::intercept::FeatureLine;

constexpr size_t kBufferBytes = 1u << 20;
constexpr size_t kBufferAlignment = 8;

/// CUPTI's functions that are used, found in the library at run time.
struct Cupti {
  decltype(&cuptiSubscribe) subscribe;
  decltype(&cuptiEnableCallback) enable_callback;
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks;
  decltype(&cuptiActivityEnable) enable_activity;
  decltype(&cuptiActivityGetNextRecord) next_record;
  decltype(&cuptiActivityFlushAll) flush;
  decltype(&cuptiGetResultString) result_string;
};
Cupti cupti;

/// Writes an X line: why nothing is measured.
void Remark(const char* what, const char* why) {
  char text[400];
  snprintf(text, sizeof(text), "X %s%s%s", what, *why != '\0' ? ": " : "", why);
  cupola::intercept::WriteFeatureText(text);
}

template <typename Function>
bool Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

/// Tries the places where CUPTI may be until dlopen with `mode` opens one. With RTLD_NOLOAD: whether
/// the process has loaded it already. Null: none was opened.
void* OpenCupti(int mode) {
  const char* named = cupola::settings::TextIfAny("CUPOLA_CUPTI");
  for (const char* place : {named, "libcupti.so.13", "libcupti.so.12", "libcupti.so",
                            "/usr/local/cuda/lib64/libcupti.so",
                            "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so"}) {
    if (place == nullptr) continue;
    if (void* library = dlopen(place, mode)) return library;
  }
  return nullptr;
}

bool FindCupti() {
  void* library = OpenCupti(RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    Remark("libcupti is not to be found; CUPOLA_CUPTI may name it", "");
    return false;
  }
  const bool complete = Find(library, "cuptiSubscribe", &cupti.subscribe) &&
                        Find(library, "cuptiEnableCallback", &cupti.enable_callback) &&
                        Find(library, "cuptiActivityRegisterCallbacks",
                             &cupti.register_callbacks) &&
                        Find(library, "cuptiActivityEnable", &cupti.enable_activity) &&
                        Find(library, "cuptiActivityGetNextRecord", &cupti.next_record) &&
                        Find(library, "cuptiActivityFlushAll", &cupti.flush) &&
                        Find(library, "cuptiGetResultString", &cupti.result_string);
  if (!complete) Remark("libcupti lacks a function", "");
  return complete;
}

bool FindDriver(FeatureCalls* calls) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return driver != nullptr && Find(driver, "cuFuncGetParamInfo", &calls->func_param_info) &&
         Find(driver, "cuKernelGetParamInfo", &calls->kernel_param_info) &&
         Find(driver, "cuFuncGetAttribute", &calls->func_attribute) &&
         Find(driver, "cuKernelGetAttribute", &calls->kernel_attribute) &&
         Find(driver, "cuMemGetAddressRange_v2", &calls->address_range) &&
         Find(driver, "cuCtxGetDevice", &calls->current_device) &&
         Find(driver, "cuDeviceGetAttribute", &calls->device_attribute) &&
         Find(driver, "cuDeviceGetName", &calls->device_name) &&
         Find(driver, "cuDriverGetVersion", &calls->driver_version);
}

/// Describes a plain or cooperative launch by the parameters of its call.
template <typename Params>
FeatureLaunch FromPlain(const Params& call) {
  FeatureLaunch launch{.function = call.f,
                       .grid = {call.gridDimX, call.gridDimY, call.gridDimZ},
                       .block = {call.blockDimX, call.blockDimY, call.blockDimZ},
                       .shared_bytes = call.sharedMemBytes, .params = call.kernelParams};
  return launch;
}

/// Describes a launch whose call has its grid and block in a CUlaunchConfig.
template <typename Params>
FeatureLaunch FromConfig(const Params& call) {
  FeatureLaunch launch{.function = call.f, .params = call.kernelParams, .extra = call.extra};
  if (call.config == nullptr) return FeatureLaunch{};  // the driver refuses the call
  const CUlaunchConfig& config = *call.config;
  const uint32_t grid[3] = {config.gridDimX, config.gridDimY, config.gridDimZ};
  const uint32_t block[3] = {config.blockDimX, config.blockDimY, config.blockDimZ};
  memcpy(launch.grid, grid, sizeof(grid));
  memcpy(launch.block, block, sizeof(block));
  launch.shared_bytes = config.sharedMemBytes;
  return launch;
}

FeatureLaunch FromCall(CUpti_CallbackId id, const void* params) {
  switch (id) {
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel:
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz: {
      const auto& call = *static_cast<const cuLaunchKernel_params*>(params);
      FeatureLaunch launch = FromPlain(call);
      launch.extra = call.extra;
      return launch;
    }
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx:
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz:
      return FromConfig(*static_cast<const cuLaunchKernelEx_params*>(params));
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel:
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz:
      return FromPlain(*static_cast<const cuLaunchCooperativeKernel_params*>(params));
    default: return {};
  }
}

/// Called by CUPTI before and after each launch call, on the thread that makes the call. The line is
/// written before the call, because it needs no result of it.
void CUPTIAPI OnCall(void*, CUpti_CallbackDomain, CUpti_CallbackId id, const void* data) {
  const auto& call = *static_cast<const CUpti_CallbackData*>(data);
  if (call.callbackSite != CUPTI_API_ENTER || call.functionParams == nullptr) return;
  FeatureLaunch launch = FromCall(id, call.functionParams);
  launch.name = call.symbolName;
  FeatureLine line;
  cupola::intercept::DescribeFeatures(launch, &line);
  cupola::intercept::WriteFeatures(&line, call.correlationId);
}

void CUPTIAPI OnBufferRequested(uint8_t** buffer, size_t* bytes, size_t* most) {
  *buffer = static_cast<uint8_t*>(aligned_alloc(kBufferAlignment, kBufferBytes));
  *bytes = *buffer != nullptr ? kBufferBytes : 0;
  *most = 0;  // as many records as fit
}

// The record type of this toolkit's headers. The fields that are read have had the same offsets since
// CUpti_ActivityKernel4, so an older or newer libcupti gives the same.
using KernelRecord = CUpti_ActivityKernel10;

/// Called by CUPTI, on any thread, with a buffer of activity records: writes a T line for each kernel,
/// with the correlation id of its launch, its duration and its start, both in nanoseconds.
void CUPTIAPI OnBufferCompleted(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  CUpti_Activity* record = nullptr;
  while (valid != 0 && cupti.next_record(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
    const auto& kernel = *reinterpret_cast<const KernelRecord*>(record);
    if (kernel.end <= kernel.start) continue;  // CUPTI could not measure it
    char text[96];
    snprintf(text, sizeof(text), "T %u %llu %llu", kernel.correlationId,
             static_cast<unsigned long long>(kernel.end - kernel.start),
             static_cast<unsigned long long>(kernel.start));
    cupola::intercept::WriteFeatureText(text);
  }
  free(buffer);
}

void AtExit() { cupti.flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED); }

bool Succeeds(CUptiResult result, const char* what) {
  if (result == CUPTI_SUCCESS) return true;
  const char* why = "";
  cupti.result_string(result, &why);
  Remark(what, why);
  return false;
}

/// Subscribes to the launch calls and has kernels measured until the process ends.
void Start() {
  CUpti_SubscriberHandle subscriber = nullptr;
  // A process has one subscriber. If the program or a tool is it, this library does not take its place.
  if (!Succeeds(cupti.subscribe(&subscriber, &OnCall, nullptr), "CUPTI is in use")) return;
  for (const CUpti_CallbackId id :
       {CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
        CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz,
        CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel,
        CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz}) {
    if (!Succeeds(cupti.enable_callback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, id),
                  "CUPTI refuses callbacks")) {
      return;
    }
  }
  if (!Succeeds(cupti.register_callbacks(&OnBufferRequested, &OnBufferCompleted),
                "CUPTI refuses buffers") ||
      !Succeeds(cupti.enable_activity(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL),
                "CUPTI refuses kernel records")) {
    return;
  }
  atexit(&AtExit);
}

}  // namespace

/// Called by the driver, once, inside cuInit (CUPTI documentation, "CUDA_INJECTION64_PATH"). It always
/// returns 1, that is, success, because the program is to run even if nothing can be measured. The file is
/// opened in any case, for the X line.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  static bool started = false;
  const char* folder = cupola::settings::TextIfAny("CUPOLA_CUPTI_RECORDS");
  if (started || folder == nullptr) return 1;
  started = true;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  FeatureCalls calls{};
  const bool has_driver = FindDriver(&calls);
  if (!cupola::intercept::OpenFeatures(
          folder, static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 +
                      static_cast<uint64_t>(now.tv_nsec), calls)) {
    return 1;
  }
  if (!has_driver) {
    Remark("the driver is too old: it lacks cuFuncGetParamInfo (CUDA 12.4)", "");
  } else if (OpenCupti(RTLD_NOW | RTLD_NOLOAD) != nullptr) {
    Remark("the program uses CUPTI itself", "");
  } else if (FindCupti()) {
    Start();
  }
  return 1;
}
