// A program whose kernel runs until it is told to end, and that waits for nothing: how long it
// wants the GPU is for others to find out. demand_app KIND: "ready" once the kernel was launched
// before, then a line of input launches it ("kernel launched"), the next lets it end ("told"), the
// next ends the program. KIND: legacy, blocking, non-blocking; many: two streams; copied: a thread copies its result meanwhile; device-copied:
// it is copied on the device; beside: another context is waited for; fault: the kernel
// faults instead; preempted-fault: after one that has a variant. row: each line of input launches
// two short kernels, each waited for ("first N.", "synced N."), until its input ends; behind-many:
// the same behind 51 launches that are waited for together. one-by-one: a line launches on two streams
// and waits for the first ("first N."), the next lets the second end and waits for that ("synced N.").
// eager: bursts of short kernels that the host issues slowly, each burst waited for; "done".
// copies: a line launches and copies the result to the host, in three ways by turns ("copied N.").
#include <cuda.h>
#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "tests/apps/support/check_runtime.h"

extern "C" {

// Has no variant.
__global__ void Running(volatile uint32_t* flag, uint32_t* value) {
  while (*flag == 0) __nanosleep(20000);
  atomicAdd(value, 1u);
}

// Has one.
__global__ void Holding(volatile uint32_t* flag, uint32_t* value) { *value += *flag; }

}  // extern "C"

namespace {

void Say(const char* text) {
  std::printf("%s\n", text);
  std::fflush(stdout);
}

cudaStream_t MakeStream(const std::string& kind) {
  cudaStream_t stream = nullptr;
  if (kind == "legacy" || kind == "beside" || kind.find("cop") != std::string::npos) return stream;
  CHECK(cudaStreamCreateWithFlags(
      &stream, kind == "blocking" ? cudaStreamDefault : cudaStreamNonBlocking));
  return stream;
}

// With a kind, without, and as rows.
void CopyIn(int way, void* to, const void* from, cudaMemcpyKind kind) {
  if (way == 0) CHECK(cudaMemcpy(to, from, 4, kind));
  if (way == 1) CHECK(cudaMemcpy(to, from, 4, cudaMemcpyDefault));
  if (way == 2) CHECK(cudaMemcpy2D(to, 4, from, 4, 4, 1, kind));
}

template <typename Function>
Function Driver(const char* name) {
  return reinterpret_cast<Function>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), name));
}

// Another context on the GPU that has launched; the current one stays that.
CUcontext MakeBeside(volatile uint32_t* flag, uint32_t* value) {
  CUcontext current = nullptr, made = nullptr;
  Driver<CUresult (*)(CUcontext*)>("cuCtxGetCurrent")(&current);
  Driver<CUresult (*)(CUcontext*, unsigned, CUdevice)>("cuCtxCreate_v2")(&made, 0, 0);
  Running<<<1, 1>>>(flag, value);
  CHECK(cudaDeviceSynchronize());
  Driver<CUresult (*)(CUcontext)>("cuCtxSetCurrent")(current);
  return made;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string kind = argc > 1 ? argv[1] : "legacy";
  const cudaStream_t stream = MakeStream(kind), second = MakeStream("non-blocking");
  volatile uint32_t* flag;
  uint32_t* value;
  CHECK(cudaMallocHost(const_cast<uint32_t**>(&flag), 4));
  CHECK(cudaMalloc(&value, 8));
  *flag = 1;
  if (kind == "preempted-fault") {
    Holding<<<1, 1, 0, stream>>>(flag, value);
  } else {
    Running<<<1, 1, 0, stream>>>(flag, value);
  }
  for (int i = 1; i < 51 && kind == "behind-many"; ++i) Running<<<1, 1, 0, stream>>>(flag, value);
  CHECK(cudaStreamSynchronize(stream));
  const CUcontext beside = kind == "beside" ? MakeBeside(flag, value) : nullptr;
  Say("ready");
  if (kind == "row" || kind == "behind-many") {
    for (int row = 0; std::getchar() != EOF; ++row) {
      for (int i = 0; i < 2; ++i) {
        Running<<<1, 1, 0, stream>>>(flag, value);
        CHECK(cudaStreamSynchronize(stream));
        if (i == 0) Say(("first " + std::to_string(row) + ".").c_str());
      }
      Say(("synced " + std::to_string(row) + ".").c_str());
    }
    return 0;
  }
  if (kind == "eager") {
    constexpr int kBursts = 60, kLaunches = 10;
    for (int burst = 0; burst < kBursts; ++burst) {
      for (int i = 0; i < kLaunches; ++i) {
        Running<<<1, 1, 0, stream>>>(flag, value);
        std::this_thread::sleep_for(std::chrono::microseconds(400));
      }
      CHECK(cudaStreamSynchronize(stream));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // longer than gaps that are short
    }
    Say("done");
    return 0;
  }
  if (kind == "one-by-one") {
    volatile uint32_t* other;
    CHECK(cudaMallocHost(const_cast<uint32_t**>(&other), 4));
    for (int row = 0; std::getchar() != EOF; ++row) {
      *other = 0;
      Running<<<1, 1, 0, stream>>>(flag, value);
      Running<<<1, 1, 0, second>>>(other, value);
      Running<<<1, 1, 0, stream>>>(flag, value);
      CHECK(cudaStreamSynchronize(stream));
      Say(("first " + std::to_string(row) + ".").c_str());
      (void)std::getchar();
      *other = 1;
      CHECK(cudaStreamSynchronize(second));
      Say(("synced " + std::to_string(row) + ".").c_str());
    }
    return 0;
  }
  if (kind == "copies") {
    for (int row = 0; std::getchar() != EOF; ++row) {
      uint32_t result = 0;
      Running<<<1, 1, 0, stream>>>(flag, value);
      CopyIn(row % 3, &result, value, cudaMemcpyDeviceToHost);
      Say(("copied " + std::to_string(row) + ".").c_str());
    }
    return 0;
  }
  (void)std::getchar();
  *flag = 0;
  const bool faults = kind == "fault" || kind == "preempted-fault";
  Running<<<1, 1, 0, stream>>>(faults ? nullptr : flag, value);
  CHECK(cudaGetLastError());
  if (kind == "many") Running<<<1, 1, 0, second>>>(flag, value);
  std::thread copying([&] {
    uint32_t result = 0;
    if (kind == "copied") CHECK(cudaMemcpy(&result, value, 4, cudaMemcpyDeviceToHost));
  });
  for (int way = 0; kind == "device-copied" && way < 3; ++way) {
    CopyIn(way, value + 1, value, cudaMemcpyDeviceToDevice);
  }
  if (beside != nullptr) Driver<CUresult (*)(CUcontext)>("cuCtxSynchronize_v2")(beside);
  Say("kernel launched");
  (void)std::getchar();
  *flag = 1;
  Say("told");
  copying.join();
  (void)std::getchar();
  return 0;
}
