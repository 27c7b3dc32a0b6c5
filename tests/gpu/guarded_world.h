// What the calls of guarded_calls.cu are made with: kernels, streams, memory, modules, and a
// context beside the one whose kernel is stopped.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "timed_block.h"

namespace {

#define MUST(call)                                                     \
  do {                                                                 \
    const cudaError_t error = (call);                                  \
    if (error != cudaSuccess) {                                        \
      std::printf("error %s in %s\n", cudaGetErrorName(error), #call); \
      std::fflush(stdout);                                             \
      _exit(3);                                                        \
    }                                                                  \
  } while (0)

__device__ int written_by_host;

/// What the host and the blocks of note_blocks tell each other: mapped memory.
struct Pace {
  volatile unsigned long long block_ns;  ///< what a block that begins now takes, about
  volatile unsigned has_begun;           ///< the grid's first block says so
};

// Each block notes that it ran. Gives up 20 s after `start_ns`.
__global__ void note_blocks(unsigned* runs, Pace* pace, unsigned long long* start_ns) {
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) pace->has_begun = 1;
  SpendTime(pace->block_ns, start_ns);
  runs[blockIdx.x] += 1;
}

__global__ void small_kernel(float* out) { out[threadIdx.x] = 1.0f; }
__global__ void count_launch(unsigned* launches) { *launches += 1; }
__global__ void never_launched_before(float* out) { out[threadIdx.x] = 2.0f; }
__global__ void never_asked_parameters(float* out) { out[threadIdx.x] = 3.0f; }
__global__ void never_asked_name(float* out) { out[threadIdx.x] = 4.0f; }
__global__ void never_asked_registers(float* out) { out[threadIdx.x] = 5.0f; }
__global__ void never_asked_function(float* out) { out[threadIdx.x] = 6.0f; }
__global__ void deep_stack(float* out, int depth) {
  float local[2048];
  for (int i = 0; i < 2048; ++i) local[i] = out[(i * depth) & 31];
  out[threadIdx.x] = local[(depth * 37) & 2047];
}

constexpr char kOtherModule[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n.visible .global .align 4 .u32 word;\n"
    ".visible .entry other()\n{\n  ret;\n}\n";

template <typename Function>
Function Driver(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  return reinterpret_cast<Function>(dlsym(library, name));
}
#define DRIVER(name) Driver<decltype(&name)>(#name)
#define MUST_DRIVER(call)                                               \
  do {                                                                  \
    const CUresult result = (call);                                     \
    if (result != CUDA_SUCCESS) {                                       \
      std::printf("error %d in %s\n", static_cast<int>(result), #call); \
      std::fflush(stdout);                                              \
      _exit(3);                                                         \
    }                                                                   \
  } while (0)

/// A context beside the one whose kernel is stopped, with an idle stream. One for all calls of the
/// process: to make one takes seconds where others have the GPU.
struct OtherContext {
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  CUmodule module = nullptr;
  CUlibrary library = nullptr;
  CUdeviceptr memory = 0;
};
OtherContext beside;

struct World {
  cudaStream_t guarded = nullptr, other = nullptr, idle = nullptr, other_blocking = nullptr;
  cudaEvent_t after = nullptr, second = nullptr;
  float* data = nullptr;
  void *spare = nullptr, *pinned = nullptr, *spare_pinned = nullptr, *registered = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;  // of it, and launched before
  CUmodule module = nullptr;
  CUdevice device = 0;
  unsigned* launches = nullptr;  // by count_launch
  std::thread capturing;         // of capture_across
  std::atomic<int> capture_step{0};
  std::vector<char> pageable = std::vector<char>(1 << 20);
  std::vector<cudaStream_t> more;  // that calls have made
};

void Prepare(World* w, const std::string& stream) {
  MUST(cudaSetDevice(0));
  MUST(cudaFree(nullptr));
  if (stream == "non_blocking") {
    MUST(cudaStreamCreateWithFlags(&w->guarded, cudaStreamNonBlocking));
  } else if (stream == "blocking") {
    MUST(cudaStreamCreate(&w->guarded));
  } else {
    w->guarded = stream == "legacy" ? cudaStreamLegacy : cudaStreamPerThread;
  }
  MUST(cudaStreamCreateWithFlags(&w->other, cudaStreamNonBlocking));
  MUST(cudaStreamCreateWithFlags(&w->idle, cudaStreamNonBlocking));
  MUST(cudaStreamCreate(&w->other_blocking));
  MUST(cudaEventCreateWithFlags(&w->after, cudaEventDisableTiming));
  MUST(cudaEventCreateWithFlags(&w->second, cudaEventDisableTiming));
  MUST(cudaMalloc(&w->data, 1 << 22));
  MUST(cudaMalloc(&w->spare, 1 << 20));
  MUST(cudaMallocHost(&w->pinned, 1 << 16));
  MUST(cudaMallocHost(&w->spare_pinned, 1 << 16));
  w->registered = std::aligned_alloc(4096, 1 << 16);
  std::memset(w->registered, 0, 1 << 16);
  MUST(cudaHostRegister(w->registered, 1 << 16, 0));
  MUST(cudaMalloc(&w->launches, sizeof(unsigned)));
  MUST(cudaMemset(w->launches, 0, sizeof(unsigned)));
  MUST(cudaDeviceSynchronize());  // `other` does not wait for it
  count_launch<<<1, 1, 0, w->other>>>(w->launches);
  small_kernel<<<1, 32, 0, w->other>>>(w->data);
  MUST(cudaStreamBeginCapture(w->other, cudaStreamCaptureModeThreadLocal));
  small_kernel<<<1, 32, 0, w->other>>>(w->data);
  MUST(cudaStreamEndCapture(w->other, &w->graph));
  MUST(cudaGraphInstantiate(&w->executable, w->graph, 0));
  MUST(cudaGraphLaunch(w->executable, w->other));
  DRIVER(cuModuleLoadData)(&w->module, kOtherModule);
  DRIVER(cuCtxGetDevice)(&w->device);
  MUST(cudaDeviceSynchronize());
}

void MakeOtherContext(CUdevice device) {
  CUcontext popped = nullptr;
  if (beside.library == nullptr) {
    MUST_DRIVER(DRIVER(cuLibraryLoadData)(&beside.library, kOtherModule, nullptr, nullptr, 0,
                                          nullptr, nullptr, 0));
  }
  if (beside.context == nullptr) {
    MUST_DRIVER(Driver<CUresult (*)(CUcontext*, unsigned, CUdevice)>("cuCtxCreate_v2")(
        &beside.context, 0, device));
    MUST_DRIVER(DRIVER(cuStreamCreate)(&beside.stream, CU_STREAM_NON_BLOCKING));
    MUST_DRIVER(DRIVER(cuModuleLoadData)(&beside.module, kOtherModule));
    beside.memory = 0;
  } else {
    MUST_DRIVER(DRIVER(cuCtxPushCurrent)(beside.context));
  }
  if (beside.memory == 0) MUST_DRIVER(DRIVER(cuMemAlloc_v2)(&beside.memory, 1 << 20));
  MUST_DRIVER(DRIVER(cuCtxSynchronize)());
  MUST_DRIVER(DRIVER(cuCtxPopCurrent)(&popped));
}

void CleanUp(World* w, const std::string& stream) {
  if (stream == "non_blocking" || stream == "blocking") w->more.push_back(w->guarded);
  for (cudaStream_t each : {w->other, w->idle, w->other_blocking}) w->more.push_back(each);
  for (cudaStream_t each : w->more) {
    if (each != nullptr) MUST(cudaStreamDestroy(each));
  }
  MUST(cudaEventDestroy(w->after));
  MUST(cudaEventDestroy(w->second));
  MUST(cudaGraphExecDestroy(w->executable));
  MUST(cudaGraphDestroy(w->graph));
  for (void* each : {static_cast<void*>(w->data), w->spare, static_cast<void*>(w->launches)}) {
    MUST(cudaFree(each));
  }
  for (void* each : {w->pinned, w->spare_pinned}) {
    if (each != nullptr) MUST(cudaFreeHost(each));
  }
  if (w->registered != nullptr) MUST(cudaHostUnregister(w->registered));
  if (w->module != nullptr) DRIVER(cuModuleUnload)(w->module);
}

}  // namespace
