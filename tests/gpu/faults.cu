// A program that does what it is told, a line at a time, so that faults can be made at chosen
// moments: it launches kernels, waits, resets, forks, leaves. Plain CUDA.
//
//   faults runtime            kernels of this program, in the device's primary context
//   faults context FATBIN     of a module, in a context of its own
//   faults module FATBIN      of a module, in the primary context
//   faults library FATBIN     of a library, likewise
//
// --stream KIND before that: non_blocking (the default), blocking, legacy, per_thread. --devices N: runtime
// only; `launch` launches on each of the first N devices, `wait` waits for all and adds their results up.
// FATBIN is this source compiled with -fatbin. Prints "ready", then one line for each line read:
//   launch BLOCKS NS   a kernel of so many blocks, each of NS nanoseconds      "launched ERROR"
//   fault              a kernel that writes where it must not                  "launched ERROR"
//   wait               for all kernels; their results are compared            "ran ERROR [wrong N]"
//   errors             what some calls return                         "errors NAME=ERROR..."
//   fork               a child that tries CUDA; N of its 6 calls succeed       "child N"
//   reset | destroy | unload   the device, its context, its module             "done ERROR"
//   exit CODE          exit(CODE), whatever runs
// At the end of the input it returns 0. Modules and libraries are unloaded as it exits. A kernel's blocks no longer take time 20 s after its first.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "timed_block.h"

__host__ __device__ inline uint32_t Mix(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

extern "C" {

// A block that ran twice, or not at all, or out of turn has another result.
__global__ void fold_blocks(uint32_t* results, uint32_t tag, unsigned long long nanoseconds,
                            unsigned long long* start_ns) {
  SpendTime(nanoseconds, start_ns);
  if (threadIdx.x == 0) results[blockIdx.x] = results[blockIdx.x] * 31 + Mix(blockIdx.x ^ tag);
}

__global__ void write_nowhere(uint32_t* address) { address[blockIdx.x] = 1; }

}  // extern "C"

namespace {

constexpr uint32_t kMostBlocks = 1 << 22, kThreads = 256;
constexpr uintptr_t kNowhere = 0x10;

template <typename Function>
Function Driver(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  return reinterpret_cast<Function>(dlsym(library, name));
}

// Ends the program where a fault is not what is looked at.
void Must(bool good, const char* what) {
  if (good) return;
  std::printf("failed: %s (%s)\n", what, cudaGetErrorName(cudaPeekAtLastError()));
  std::fflush(stdout);
  _exit(4);
}
#define MUST(call) Must((call) == cudaSuccess, #call)
#define MUST_DRIVER(call) Must((call) == CUDA_SUCCESS, #call)

void Say(const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

const char* NameOf(CUresult result) {
  const char* name = "?";
  Driver<PFN_cuGetErrorName_v6000>("cuGetErrorName")(result, &name);
  return name;
}

cudaStream_t MakeStream(const std::string& kind) {
  if (kind == "legacy") return cudaStreamLegacy;
  if (kind == "per_thread") return cudaStreamPerThread;
  cudaStream_t stream = nullptr;
  MUST(cudaStreamCreateWithFlags(
      &stream, kind == "blocking" ? cudaStreamDefault : cudaStreamNonBlocking));
  return stream;
}

class Program {
 public:
  Program(std::string kind, const char* file, std::string stream_kind, int device)
      : kind_(std::move(kind)), stream_kind_(std::move(stream_kind)), device_(device) {
    if (file == nullptr) return;
    std::ifstream in(file, std::ios::binary);
    image_.assign(std::istreambuf_iterator<char>(in), {});
    Must(!image_.empty(), "reading the fatbin");
  }

  void Prepare() {
    context_ = nullptr;
    Use();
    if (kind_ == "context") {
      MUST_DRIVER(Driver<PFN_cuInit_v2000>("cuInit")(0));
      MUST_DRIVER(Driver<PFN_cuCtxCreate_v3020>("cuCtxCreate_v2")(&context_, 0, 0));
    } else {
      MUST(cudaFree(nullptr));
    }
    LoadCode();
    stream_ = MakeStream(stream_kind_);
    MUST(cudaMalloc(&results_, kMostBlocks * sizeof(uint32_t)));
    MUST(cudaMalloc(&start_ns_, sizeof(*start_ns_)));
    MUST(cudaMalloc(&spare_, 1 << 16));
    expected_.assign(kMostBlocks, 0);
    most_ = 0;
    MUST(cudaMemset(results_, 0, kMostBlocks * sizeof(uint32_t)));
    MUST(cudaDeviceSynchronize());
    Launch(1, 1000);
    MUST(cudaStreamSynchronize(stream_));
  }

  // Makes the device the thread's, which a context of the program's own already is.
  void Use() const {
    if (context_ == nullptr) MUST(cudaSetDevice(device_));
  }

  std::string Launch(uint32_t blocks, unsigned long long nanoseconds) {
    const uint32_t tag = ++tag_;
    if (blocks == 0 || blocks > kMostBlocks) return "usage";
    (void)cudaMemsetAsync(start_ns_, 0, sizeof(*start_ns_), stream_);
    void* arguments[] = {&results_, const_cast<uint32_t*>(&tag), &nanoseconds, &start_ns_};
    const std::string error = LaunchWith("fold_blocks", blocks, kThreads, arguments);
    for (uint32_t i = 0; i < blocks; ++i) expected_[i] = expected_[i] * 31 + Mix(i ^ tag);
    if (blocks > most_) most_ = blocks;
    return error;
  }

  std::string Fault() {
    auto* address = reinterpret_cast<uint32_t*>(kNowhere);
    void* arguments[] = {&address};
    return LaunchWith("write_nowhere", 4096, 32, arguments);
  }

  std::string Wait() const {
    const cudaError_t waited = cudaStreamSynchronize(stream_);
    std::vector<uint32_t> host(most_);
    const cudaError_t copied =
        waited != cudaSuccess ? waited
                              : cudaMemcpy(host.data(), results_, most_ * sizeof(uint32_t),
                                           cudaMemcpyDeviceToHost);
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < most_; ++i) wrong += host[i] != expected_[i];
    if (copied != cudaSuccess) return cudaGetErrorName(copied);
    return "cudaSuccess wrong " + std::to_string(wrong);
  }

  std::string Errors() {
    void* memory = nullptr;
    std::string text;
    const auto add = [&text](const char* call, cudaError_t error) {
      text += std::string(text.empty() ? "" : " ") + call + "=" + cudaGetErrorName(error);
    };
    add("wait", cudaStreamSynchronize(stream_));
    add("query", cudaStreamQuery(stream_));
    add("last", cudaGetLastError());
    add("malloc", cudaMalloc(&memory, 4096));
    add("free", cudaFree(spare_));
    add("memset", cudaMemset(results_, 0, 4096));
    add("device", cudaDeviceSynchronize());
    return text + " launch=" + Launch(64, 1000);
  }

  // How many calls succeed in a child.
  int CallAfterFork() const {
    void* memory = nullptr;
    uint32_t value = 0;
    int successes = cudaMalloc(&memory, 4096) == cudaSuccess;
    successes += cudaMemcpy(&value, results_, sizeof(value), cudaMemcpyDeviceToHost) == cudaSuccess;
    successes += cudaFree(spare_) == cudaSuccess;
    successes += cudaStreamSynchronize(stream_) == cudaSuccess;
    successes += cudaStreamQuery(stream_) == cudaSuccess;
    return successes + (cudaDeviceSynchronize() == cudaSuccess);
  }

  // Of what Prepare() made.
  std::string End(const std::string& what) {
    if (what == "reset") return cudaGetErrorName(cudaDeviceReset());
    if (what == "destroy") {
      return NameOf(Driver<PFN_cuCtxDestroy_v4000>("cuCtxDestroy_v2")(context_));
    }
    if (library_ != nullptr) {
      return NameOf(Driver<PFN_cuLibraryUnload_v12000>("cuLibraryUnload")(library_));
    }
    return NameOf(Driver<PFN_cuModuleUnload_v2000>("cuModuleUnload")(module_));
  }

  void UnloadAtExit() {
    if (module_ != nullptr || library_ != nullptr) (void)End("unload");
  }

  void LoadCode() {
    module_ = nullptr;
    library_ = nullptr;
    if (kind_ == "module" || kind_ == "context") {
      MUST_DRIVER(Driver<PFN_cuModuleLoadData_v2000>("cuModuleLoadData")(&module_, image_.data()));
    } else if (kind_ == "library") {
      MUST_DRIVER(Driver<PFN_cuLibraryLoadData_v12000>("cuLibraryLoadData")(
          &library_, image_.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
    }
  }

 private:
  std::string LaunchWith(const char* name, uint32_t blocks, uint32_t threads, void** arguments) {
    if (kind_ == "runtime") {
      const void* const kernel = std::string(name) == "fold_blocks"
                                     ? reinterpret_cast<const void*>(fold_blocks)
                                     : reinterpret_cast<const void*>(write_nowhere);
      return cudaGetErrorName(cudaLaunchKernel(kernel, blocks, threads, arguments, 0, stream_));
    }
    CUfunction function = nullptr;
    if (library_ != nullptr) {
      CUkernel kernel = nullptr;
      MUST_DRIVER(Driver<PFN_cuLibraryGetKernel_v12000>("cuLibraryGetKernel")(&kernel, library_,
                                                                              name));
      function = reinterpret_cast<CUfunction>(kernel);
    } else {
      MUST_DRIVER(Driver<PFN_cuModuleGetFunction_v2000>("cuModuleGetFunction")(&function, module_,
                                                                               name));
    }
    return NameOf(Driver<PFN_cuLaunchKernel_v4000>("cuLaunchKernel")(
        function, blocks, 1, 1, threads, 1, 1, 0, stream_, arguments, nullptr));
  }

  std::string kind_, stream_kind_;
  std::vector<char> image_;
  std::vector<uint32_t> expected_;
  CUcontext context_ = nullptr;
  CUmodule module_ = nullptr;
  CUlibrary library_ = nullptr;
  cudaStream_t stream_ = nullptr;
  uint32_t* results_ = nullptr;
  unsigned long long* start_ns_ = nullptr;
  void* spare_ = nullptr;
  int device_ = 0;
  uint32_t tag_ = 0, most_ = 0;
};

// Where there are several, all do the same: the first error of any, and the wrong blocks of all.
std::string LaunchOnAll(std::vector<Program>& programs, uint32_t blocks,
                        unsigned long long nanoseconds) {
  std::string first;
  for (Program& program : programs) {
    program.Use();
    const std::string error = program.Launch(blocks, nanoseconds);
    if (first.empty() || first == "cudaSuccess") first = error;
  }
  return first;
}

std::string WaitForAll(std::vector<Program>& programs) {
  static constexpr char kGood[] = "cudaSuccess wrong ";
  unsigned long wrong = 0;
  for (Program& program : programs) {
    program.Use();
    const std::string found = program.Wait();
    if (found.rfind(kGood, 0) != 0) return found;
    wrong += std::stoul(found.substr(sizeof(kGood) - 1));
  }
  return kGood + std::to_string(wrong);
}

std::string Fork(const Program& program) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(5);  // whatever its calls do
    _exit(program.CallAfterFork());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return std::to_string(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

void Obey(std::vector<Program>& programs, const std::string& line) {
  Program& program = programs.front();
  std::istringstream words(line);
  std::string command;
  unsigned long long first = 0, second = 0;
  words >> command >> first >> second;
  if (command == "launch") {
    Say("launched " + LaunchOnAll(programs, static_cast<uint32_t>(first), second));
  } else if (command == "fault") {
    Say("launched " + program.Fault());
  } else if (command == "wait") {
    Say("ran " + WaitForAll(programs));
  } else if (command == "errors") {
    Say("errors " + program.Errors());
  } else if (command == "fork") {
    Say("child " + Fork(program));
  } else if (command == "exit") {
    std::exit(static_cast<int>(first));
  } else if (command == "reset" || command == "destroy" || command == "unload") {
    const std::string error = program.End(command);
    if (error == "cudaSuccess" || error == "CUDA_SUCCESS") {
      command == "unload" ? program.LoadCode() : program.Prepare();
    }
    Say("done " + error);
  } else {
    Say("what? " + command);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  std::string stream_kind = "non_blocking";
  int devices = 1;
  while (words.size() > 2 && words[0].rfind("--", 0) == 0) {
    if (words[0] == "--stream") stream_kind = words[1];
    if (words[0] == "--devices") devices = std::atoi(words[1].c_str());
    words.erase(words.begin(), words.begin() + 2);
  }
  const bool is_runtime = !words.empty() && words[0] == "runtime";
  if (words.size() != (is_runtime ? 1 : 2) || devices < 1 || (devices > 1 && !is_runtime)) {
    std::fprintf(stderr,
                 "usage: faults [--stream KIND] [--devices N] runtime\n"
                 "       faults [--stream KIND] context|module|library FATBIN\n");
    return 2;
  }
  static std::vector<Program> programs;
  for (int device = 0; device < devices; ++device) {
    programs.emplace_back(words[0], is_runtime ? nullptr : words[1].c_str(), stream_kind, device);
  }
  std::atexit([] { programs.front().UnloadAtExit(); });
  for (Program& program : programs) program.Prepare();
  Say("ready");
  for (std::string line; std::getline(std::cin, line);) Obey(programs, line);
  return 0;
}
