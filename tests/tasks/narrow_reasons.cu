// A program that knows nothing of tasks: narrow launches that can be tasks, and, by name, some that
// cannot, each for another reason, with results as CUDA's order says. Plain CUDA.
//
//   narrow_reasons none | body | wide | inexact | attribute | arguments | capturing | stream |
//                  work | blocked | scope | dead | mixed | warps | paced | green | green-context |
//                  copies BYTES
//
// Prints what it found, which does not depend on who runs it. unmodified_test.py looks at what is
// said of each.
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/apps/support/check_runtime.h"
#include "tests/apps/support/driver_call.h"

namespace {

constexpr int kThreads = 64, kLaunches = 100, kTimes = 10;

__global__ void Step(uint32_t* values, uint32_t step) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  values[i % kThreads] = values[i % kThreads] * 3 + step;
}
__global__ void Count(uint32_t* total) { atomicAdd(total, 1u); }
__global__ void Tell(uint32_t* word, uint32_t value) { *word = value; }
__global__ void TrapIf(bool traps) {
  if (traps) __trap();
}

// More bytes than a task's parameters may have.
struct Many {
  uint32_t words[48];
};
__global__ void AddMany(uint32_t* values, Many many) {
  uint32_t sum = 0;
  for (const uint32_t word : many.words) sum += word;
  values[threadIdx.x] += sum;
}

// Of two products with sums the machine code that the program ships fuses one; what is made of the PTX beside it
// may fuse both, or, told not to, none.
__global__ void Round(uint32_t* values, float factor) {
  float value = static_cast<float>(values[threadIdx.x] % 1000), product;
#if __CUDA_ARCH__ == 900
  asm("mul.rn.f32 %0, %1, %2;" : "=f"(product) : "f"(value), "f"(factor));
  asm("add.rn.f32 %0, %1, %2;" : "=f"(value) : "f"(product), "f"(value));
  asm("fma.rn.f32 %0, %0, %1, %0;" : "+f"(value) : "f"(factor));
#else
  for (int i = 0; i < 2; ++i) {
    asm("mul.f32 %0, %1, %2;" : "=f"(product) : "f"(value), "f"(factor));
    asm("add.f32 %0, %1, %2;" : "=f"(value) : "f"(product), "f"(value));
  }
#endif
  values[threadIdx.x] = static_cast<uint32_t>(value);
}

struct Bed {
  cudaStream_t stream = nullptr, other = nullptr;
  uint32_t* values = nullptr;
  uint32_t* word = nullptr;  // pinned

  Bed() {
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&values, kThreads * sizeof(uint32_t)));
    CHECK(cudaMallocHost(&word, sizeof *word));
    CHECK(cudaMemset(values, 0, kThreads * sizeof(uint32_t)));
    CHECK(cudaDeviceSynchronize());
    *word = 0;
  }
  void Narrow(int count = kLaunches) { NarrowIn(stream, count); }
  void NarrowIn(cudaStream_t any, int count = kLaunches) {
    for (int i = 0; i < count; ++i) Step<<<1, kThreads, 0, any>>>(values, i);
  }
  // Until somebody writes the word.
  void Block(cudaStream_t blocked) {
    static const auto wait =
        DriverCall<decltype(&cuStreamWaitValue32)>("cuStreamWaitValue32", 12000);
    *static_cast<volatile uint32_t*>(word) = 0;
    CheckDriver(wait(blocked, reinterpret_cast<CUdeviceptr>(word), 1, CU_STREAM_WAIT_VALUE_GEQ),
                "cuStreamWaitValue32");
  }
  void Unblock() { *static_cast<volatile uint32_t*>(word) = 1; }
  void Print() {
    CHECK(cudaStreamSynchronize(stream));
    uint32_t found[kThreads];
    CHECK(cudaMemcpy(found, values, sizeof found, cudaMemcpyDeviceToHost));
    std::printf("%u %u\n", found[0], found[kThreads - 1]);
  }
};

void Bodies(Bed& bed) {
  Many many;
  for (uint32_t& word : many.words) word = 7;
  for (int i = 0; i < kTimes; ++i) AddMany<<<1, kThreads, 0, bed.stream>>>(bed.values, many);
}

// Blocks whose threads write the same words: by blocks of the count only.
void Wide(Bed& bed) {
  for (int i = 0; i < kTimes; ++i) Count<<<40, kThreads, 0, bed.stream>>>(bed.values);
}

void Inexact(Bed& bed) {
  for (int i = 0; i < kTimes; ++i) Round<<<1, kThreads, 0, bed.stream>>>(bed.values, 1.1f);
}

void Attribute(Bed& bed) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributePriority;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1);
  config.blockDim = dim3(kThreads);
  config.stream = bed.stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  for (uint32_t i = 0; i < kTimes; ++i) CHECK(cudaLaunchKernelEx(&config, Step, bed.values, i));
}

// In a block, and one by one as well: the driver refuses that.
void Arguments(Bed& bed) {
  static const auto launch = DriverCall<decltype(&cuLaunchKernel)>("cuLaunchKernel", 12000);
  cudaFunction_t function;
  CHECK(cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(Step)));
  uint32_t step = 5;
  void* arguments[] = {&bed.values, &step};
  struct {
    uint32_t* values;
    uint32_t step;
  } packed{bed.values, step};
  size_t bytes = sizeof packed.values + sizeof packed.step;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  for (int i = 0; i < kTimes; ++i) {
    const CUresult result =
        launch(function, 1, 1, 1, kThreads, 1, 1, 0, bed.stream, arguments, extra);
    if (i == 0) std::printf("both kinds of arguments: %d\n", static_cast<int>(result));
  }
}

void Capturing(Bed& bed) {
  cudaGraph_t graph;
  CHECK(cudaStreamBeginCapture(bed.other, cudaStreamCaptureModeRelaxed));
  Step<<<1, kThreads, 0, bed.other>>>(bed.values, 1);
  bed.Narrow(kTimes);
  CHECK(cudaStreamEndCapture(bed.other, &graph));
  CHECK(cudaGraphDestroy(graph));
}

void DefaultStream(Bed& bed) {
  for (uint32_t i = 0; i < kTimes; ++i) Step<<<1, kThreads>>>(bed.values, i);
}

// The stream waits for a word: what is launched behind it cannot be ahead of that.
void Work(Bed& bed) {
  bed.Block(bed.stream);
  bed.Narrow(kTimes);
  bed.Unblock();
}

// Another stream waits for a word before the first launch can be a task, and while a row of them is
// made; then none does.
void Blocked(Bed& bed) {
  bed.Narrow(1);
  CHECK(cudaStreamSynchronize(bed.stream));
  bed.Block(bed.other);
  bed.Narrow();
  CHECK(cudaStreamSynchronize(bed.stream));
  bed.Unblock();
  CHECK(cudaStreamSynchronize(bed.other));
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
}

// Another thread waits for the device for as long as this one likes, and launches go on.
void Scope(Bed& bed) {
  std::atomic<bool> waits{false};
  // To load a kernel waits for the device.
  Count<<<1, 32, 0, bed.stream>>>(bed.values + kThreads / 2);
  CHECK(cudaStreamSynchronize(bed.stream));
  bed.Block(bed.other);
  std::thread thread([&] {
    waits.store(true);
    CHECK(cudaDeviceSynchronize());
  });
  while (!waits.load()) std::this_thread::yield();
  // From saying so to being there takes it a moment, and a launch may take as long where others want
  // the machine.
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  for (int i = 0; i < kLaunches || std::chrono::steady_clock::now() < until; ++i) {
    Count<<<1, 32, 0, bed.stream>>>(bed.values + kThreads / 2);
    CHECK(cudaStreamSynchronize(bed.stream));
  }
  bed.Unblock();
  thread.join();
  CHECK(cudaMemset(bed.values + kThreads / 2, 0, sizeof(uint32_t)));
}

void Dead(Bed& bed) {
  TrapIf<<<1, 32, 0, bed.stream>>>(true);
  const cudaError_t waited = cudaStreamSynchronize(bed.stream);
  bed.Narrow(kTimes);
  std::printf("%s, then %s\n", cudaGetErrorName(waited), cudaGetErrorName(cudaPeekAtLastError()));
  std::exit(0);
}

void Mixed(Bed& bed) {
  for (int i = 0; i < 100; ++i) {
    bed.Narrow(1);
    Count<<<40, kThreads, 0, bed.stream>>>(bed.values);
    CHECK(cudaStreamSynchronize(bed.stream));
  }
}

// Launches of two and of forty warps, by turns in rows.
void Warps(Bed& bed) {
  for (int row = 0; row < 4; ++row) {
    bed.Narrow(kTimes);
    for (int i = 0; i < kTimes; ++i) Count<<<20, kThreads, 0, bed.stream>>>(bed.values);
  }
}

// At first never more than two launches on their way, and nothing is waited for by a call; then many.
void Paced(Bed& bed) {
  constexpr uint32_t kPaced = 1500;
  for (uint32_t i = 1; i <= kPaced; ++i) {
    Tell<<<1, 1, 0, bed.stream>>>(bed.word, i);
    while (*static_cast<volatile uint32_t*>(bed.word) + 1 < i) {
    }
  }
  bed.Narrow();
}

// A few of the device's SMs, and a stream that is bound to them.
struct Green {
  CUgreenCtx context = nullptr;
  CUstream stream = nullptr;

  Green() {
    const auto resource =
        DriverCall<decltype(&cuDeviceGetDevResource)>("cuDeviceGetDevResource", 12040);
    const auto split =
        DriverCall<decltype(&cuDevSmResourceSplitByCount)>("cuDevSmResourceSplitByCount", 12040);
    const auto describe =
        DriverCall<decltype(&cuDevResourceGenerateDesc)>("cuDevResourceGenerateDesc", 12040);
    const auto create = DriverCall<decltype(&cuGreenCtxCreate)>("cuGreenCtxCreate", 12040);
    const auto make_stream =
        DriverCall<decltype(&cuGreenCtxStreamCreate)>("cuGreenCtxStreamCreate", 12050);
    CUdevResource all{}, some{};
    CUdevResourceDesc description{};
    unsigned groups = 1;
    CheckDriver(resource(0, &all, CU_DEV_RESOURCE_TYPE_SM), "cuDeviceGetDevResource");
    CheckDriver(split(&some, &groups, &all, nullptr, 0, 1), "cuDevSmResourceSplitByCount");
    CheckDriver(describe(&description, &some, 1), "cuDevResourceGenerateDesc");
    CheckDriver(create(&context, description, 0, CU_GREEN_CTX_DEFAULT_STREAM), "cuGreenCtxCreate");
    CheckDriver(make_stream(&stream, context, CU_STREAM_NON_BLOCKING, 0), "cuGreenCtxStreamCreate");
  }
};

void InGreenStream(Bed& bed) {
  const Green green;
  bed.NarrowIn(green.stream);
  CHECK(cudaStreamSynchronize(green.stream));
}

void InGreenContext(Bed&) {
  const Green green;
  CUcontext before = nullptr, context = nullptr;
  const auto convert = DriverCall<decltype(&cuCtxFromGreenCtx)>("cuCtxFromGreenCtx", 12040);
  const auto current = DriverCall<decltype(&cuCtxGetCurrent)>("cuCtxGetCurrent", 12000);
  const auto change = DriverCall<decltype(&cuCtxSetCurrent)>("cuCtxSetCurrent", 12000);
  CheckDriver(current(&before), "cuCtxGetCurrent");
  CheckDriver(convert(&context, green.context), "cuCtxFromGreenCtx");
  CheckDriver(change(context), "cuCtxSetCurrent");
  Bed there;
  there.Narrow();
  there.Print();
  CheckDriver(change(before), "cuCtxSetCurrent");
}

void Copies(Bed& bed, size_t bytes) {
  std::vector<uint32_t> there(1 + bytes / sizeof(uint32_t), 3);
  char* to = nullptr;
  CHECK(cudaMalloc(&to, bytes));
  for (int i = 0; i < kTimes; ++i) {
    bed.Narrow(kTimes);
    CHECK(cudaMemcpyAsync(to, there.data(), bytes, cudaMemcpyHostToDevice, bed.stream));
    CHECK(cudaStreamSynchronize(bed.stream));
  }
  // A box is never a task.
  const size_t most = std::min(bytes, kThreads * sizeof(uint32_t));
  CHECK(
      cudaMemcpy2DAsync(bed.values, most, to, most, most, 1, cudaMemcpyDeviceToDevice, bed.stream));
}

}  // namespace

int main(int argc, char** argv) {
  const size_t bytes = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1024;
  const std::map<std::string, std::function<void(Bed&)>> ways = {
      {"none", [](Bed&) {}},
      {"body", Bodies},
      {"wide", Wide},
      {"inexact", Inexact},
      {"attribute", Attribute},
      {"arguments", Arguments},
      {"capturing", Capturing},
      {"stream", DefaultStream},
      {"work", Work},
      {"blocked", Blocked},
      {"scope", Scope},
      {"dead", Dead},
      {"mixed", Mixed},
      {"warps", Warps},
      {"paced", Paced},
      {"green", InGreenStream},
      {"green-context", InGreenContext},
      {"copies", [&](Bed& bed) { Copies(bed, bytes); }}};
  const auto way = ways.find(argc > 1 ? argv[1] : "");
  if (way == ways.end()) {
    for (const auto& [name, run] : ways) std::printf("narrow_reasons %s\n", name.c_str());
    return 2;
  }
  Bed bed;
  const bool does_all = way->first == "blocked" || way->first == "paced";
  if (!does_all) bed.Narrow();
  CHECK(cudaStreamSynchronize(bed.stream));
  way->second(bed);
  bed.Narrow();
  bed.Print();
  return 0;
}
