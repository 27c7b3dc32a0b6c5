#include "intercept/record/launch_features.h"

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>
#include <unordered_map>
#include <vector>

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "base/standard_error.h"
#include "intercept/facts/allocations.h"
#include "intercept/process/mutex_lock.h"

namespace cupola::intercept {
namespace {

constexpr size_t kMostParameters = InputBytes::kMost;  // the parameters of a kernel that are described
constexpr uint64_t kMostBytes = 256u << 20;            // of the file
constexpr uint32_t kAllOfTheFirst = 4096;  // launches of a kernel that are all described
constexpr uint32_t kThenEvery = 16;        // one in so many is described after them
constexpr int kFirstDescriptor = 200;  // above the low numbers, which programs count on and close in bulk

struct Parameter {
  size_t offset;
  size_t bytes;
};

struct Kernel {
  uint32_t number = 0;
  std::string name;  // the driver may give the same handle to another kernel later
  std::vector<Parameter> parameters;
  uint32_t launches = 0;
};

pthread_mutex_t features_mutex = PTHREAD_MUTEX_INITIALIZER;
std::atomic<int> feature_file{-1};
FileIdentity identity;  // of the file behind `feature_file`; written before `feature_file` is
std::atomic<uint64_t> written{0};
FeatureCalls feature_calls;
std::unordered_map<const void*, Kernel>* kernels = nullptr;  // never destroyed: threads may launch at exit
uint32_t next_number = 0;

void Append(FeatureLine* line, const char* format, ...) __attribute__((format(printf, 2, 3)));
void Append(FeatureLine* line, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const size_t room = sizeof(line->text) - line->bytes;
  const int bytes = vsnprintf(line->text + line->bytes, room, format, arguments);
  va_end(arguments);
  if (bytes > 0) line->bytes += std::min(static_cast<size_t>(bytes), room - 1);
}

// The descriptor of the file; -1 if there is none. A program may close all descriptors that it does not
// know, and the next file that it opens may get the number of ours; then nothing is written any more.
int OpenFile() {
  const int to = feature_file.load(std::memory_order_acquire);
  return to >= 0 && IdentityOf(to) == identity ? to : -1;
}

// Writes each line by one call, so that lines of several threads, and of a process that is killed, stay
// whole.
void Write(const char* text, size_t bytes) {
  const int to = OpenFile();
  if (to < 0 || written.fetch_add(bytes) > kMostBytes) return;
  const WithoutWriteSignals quiet;
  [[maybe_unused]] const ssize_t ignored = write(to, text, bytes);
}

int DeviceAttribute(CUdevice_attribute attribute, CUdevice device) {
  int value = 0;
  return feature_calls.device_attribute(&value, attribute, device) == CUDA_SUCCESS ? value : 0;
}

// Only launches take a CUkernel in place of a CUfunction, so both calls are tried.
int FunctionAttribute(CUfunction_attribute attribute, const void* handle, CUdevice device) {
  int value = 0;
  void* const either = const_cast<void*>(handle);
  if (feature_calls.func_attribute(&value, attribute, static_cast<CUfunction>(either)) == CUDA_SUCCESS ||
      feature_calls.kernel_attribute(&value, attribute, static_cast<CUkernel>(either), device) ==
          CUDA_SUCCESS) {
    return value;
  }
  return 0;
}

void WriteDevice(CUdevice device) {
  char name[256] = "";
  int version = 0;
  feature_calls.device_name(name, sizeof(name) - 1, device);
  feature_calls.driver_version(&version);
  FeatureLine line;
  Append(&line, "G %d %d %d %d %d %d %d.%d %s\n",
         DeviceAttribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) * 10 +
             DeviceAttribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device),
         DeviceAttribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device),
         DeviceAttribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, device),
         DeviceAttribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, device),
         DeviceAttribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, device),
         DeviceAttribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, device),
         version / 1000, version % 1000 / 10, name);
  Write(line.text, line.bytes);
}

// Asks for the layout of a kernel's parameters and writes the kernel's line.
void Learn(const FeatureLaunch& launch, Kernel* kernel) {
  CUdevice device = 0;
  feature_calls.current_device(&device);
  if (next_number == 0) WriteDevice(device);
  kernel->number = ++next_number;
  kernel->name = launch.name;
  kernel->launches = 0;
  kernel->parameters.clear();
  void* const handle = const_cast<void*>(launch.function);
  for (size_t i = 0; i < kMostParameters; ++i) {
    Parameter one{};
    if (feature_calls.func_param_info(static_cast<CUfunction>(handle), i, &one.offset, &one.bytes) !=
            CUDA_SUCCESS &&
        feature_calls.kernel_param_info(static_cast<CUkernel>(handle), i, &one.offset, &one.bytes) !=
            CUDA_SUCCESS) {
      break;
    }
    kernel->parameters.push_back(one);
  }
  FeatureLine line;
  Append(&line, "K %u %d %d %zu", kernel->number,
         FunctionAttribute(CU_FUNC_ATTRIBUTE_NUM_REGS, launch.function, device),
         FunctionAttribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, launch.function, device),
         kernel->parameters.size());
  for (const Parameter& one : kernel->parameters) Append(&line, " %zu:%zu", one.offset, one.bytes);
  std::string text(line.text, line.bytes);
  text.append(" ").append(kernel->name).append("\n");  // a name may be longer than a FeatureLine
  Write(text.data(), text.size());
}

// The block of packed arguments in `extra`, or null (CUDA Driver API, cuLaunchKernel).
const char* PackedBlock(void** extra, size_t* bytes) {
  const char* block = nullptr;
  *bytes = 0;
  for (; extra != nullptr && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) block = static_cast<const char*>(extra[1]);
    if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) *bytes = *static_cast<const size_t*>(extra[1]);
  }
  return block;
}

// The allocation that an argument points into, if it is such an address.
Allocation AllocationAt(uint64_t address) {
  CUdeviceptr base = 0;
  size_t bytes = 0;
  if (address == 0 || feature_calls.address_range(&base, &bytes, address) != CUDA_SUCCESS) return {};
  return {.base = base, .bytes = bytes};
}

void AppendArguments(const FeatureLaunch& launch, const std::vector<Parameter>& parameters,
                     FeatureLine* line) {
  size_t packed_bytes = 0;
  const char* const packed = PackedBlock(launch.extra, &packed_bytes);
  FeatureLine values;
  InputBytes input;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& one = parameters[i];
    const void* from = nullptr;
    if (launch.params != nullptr) {
      from = launch.params[i];
    } else if (packed != nullptr && one.offset + one.bytes <= packed_bytes) {
      from = packed + one.offset;
    }
    uint64_t value = 0;
    if (from == nullptr || one.bytes > sizeof(value)) {
      Append(&values, " -");
      continue;
    }
    memcpy(&value, from, one.bytes);
    const Allocation allocation =
        one.bytes == sizeof(value) ? AllocationAt(value) : Allocation{};
    if (allocation.bytes != 0) {
      input.Add(allocation);
      Append(&values, " p");
    } else {
      Append(&values, " %llu", static_cast<unsigned long long>(value));
    }
  }
  Append(line, " %llu%.*s\n", static_cast<unsigned long long>(input.sum()),
         static_cast<int>(values.bytes), values.text);
}

}  // namespace

bool OpenFeatures(const char* folder, uint64_t start_ns, const FeatureCalls& given) noexcept {
  char path[4096];
  const int bytes = snprintf(path, sizeof(path), "%s/.%d.%llu.features", folder, getpid(),
                             static_cast<unsigned long long>(start_ns));
  if (bytes < 0 || static_cast<size_t>(bytes) >= sizeof(path)) return false;
  const int made =
      open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (made < 0) return false;
  const int moved = fcntl(made, F_DUPFD_CLOEXEC, kFirstDescriptor);
  if (moved >= 0) close(made);
  const int descriptor = moved >= 0 ? moved : made;
  identity = IdentityOf(descriptor);
  feature_calls = given;
  kernels = new std::unordered_map<const void*, Kernel>;
  next_number = 0;
  written = 0;
  feature_file.store(descriptor, std::memory_order_release);
  WriteFeatureText("cupola-features 1");
  return true;
}

bool FeaturesOn() noexcept { return feature_file.load(std::memory_order_relaxed) >= 0; }

bool KnowsKernelOf(const FeatureLaunch& launch) noexcept {
  if (launch.function == nullptr || launch.name == nullptr) return true;
  const MutexLock lock(features_mutex);
  const auto found = kernels->find(launch.function);
  return found != kernels->end() && found->second.name == launch.name;
}

void DescribeFeatures(const FeatureLaunch& launch, FeatureLine* line) noexcept {
  line->bytes = 0;
  if (launch.function == nullptr || launch.name == nullptr || *launch.name == '\0') return;
  std::vector<Parameter> parameters;
  uint32_t number = 0;
  {
    const MutexLock lock(features_mutex);
    Kernel& kernel = (*kernels)[launch.function];
    if (kernel.name != launch.name) Learn(launch, &kernel);
    if (++kernel.launches > kAllOfTheFirst && kernel.launches % kThenEvery != 0) return;
    parameters = kernel.parameters;
    number = kernel.number;
  }
  Append(line, "%u %u %u %u %u %u %u %u", number, launch.grid[0], launch.grid[1], launch.grid[2],
         launch.block[0], launch.block[1], launch.block[2], launch.shared_bytes);
  AppendArguments(launch, parameters, line);
  // The line was too long. Cut in the middle of a number it would show another number, so the launch is
  // left out.
  if (line->text[line->bytes - 1] != '\n') line->bytes = 0;
}

void WriteFeatures(FeatureLine* line, uint64_t ticket) noexcept {
  if (line->bytes == 0) return;
  char text[sizeof(line->text) + 32];
  const int bytes = snprintf(text, sizeof(text), "L %llu %.*s",
                             static_cast<unsigned long long>(ticket),
                             static_cast<int>(line->bytes), line->text);
  if (bytes > 0) Write(text, static_cast<size_t>(bytes));
}

void WriteFeatureText(const char* text) noexcept {
  char line[512];
  const int bytes = snprintf(line, sizeof(line), "%s\n", text);
  if (bytes > 0) Write(line, std::min(static_cast<size_t>(bytes), sizeof(line) - 1));
}

void ResetFeaturesAfterFork() noexcept {
  features_mutex = PTHREAD_MUTEX_INITIALIZER;
  kernels = nullptr;  // not freed: another thread of the parent may have been changing it
  const int old = OpenFile();
  feature_file.store(-1);
  if (old >= 0) close(old);
}

}  // namespace cupola::intercept
