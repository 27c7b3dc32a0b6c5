// A program that knows nothing of tasks: thousands of narrow launches in streams, with what else
// programs do between them, each result compared with what CUDA's order says. Plain CUDA.
//
//   narrow_launches [rounds]
//
// Prints "ok" and returns 0, or says what was wrong and returns 1.
#include <cuda.h>
#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/apps/support/check_runtime.h"
#include "tests/apps/support/driver_call.h"

namespace {

constexpr int kThreads = 96;

__constant__ uint32_t factor;
__device__ uint32_t launches;

// Each launch must see what the one before left: x = x * factor + step.
__global__ void Step(uint32_t* values, uint32_t step) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  values[i] = values[i] * factor + step;
  if (i == 0) atomicAdd(&launches, 1u);
}

// The same for a block of two dimensions, through shared memory, half of the threads gone before
// the second barrier.
__global__ void Turn(uint32_t* values, uint32_t step) {
  __shared__ uint32_t kept[kThreads];
  extern __shared__ uint32_t more[];
  const unsigned i = threadIdx.y * blockDim.x + threadIdx.x, count = blockDim.x * blockDim.y;
  kept[i] = values[i];
  more[count - 1 - i] = kept[i];
  __syncthreads();
  const uint32_t sum = kept[(i + 1) % count] + more[count - 1 - (i + 1) % count];
  if (i % 2 == 1) {
    values[i] = sum + step;
    return;
  }
  __syncthreads();
  values[i] = sum - step;
}

// A partial warp at its end.
__global__ void Sum(const uint32_t* values, uint32_t* sum) {
  uint32_t own = values[threadIdx.x];
  const unsigned lanes = blockDim.x - threadIdx.x / 32 * 32 >= 32 ? 32 : blockDim.x % 32;
  const unsigned mask = lanes == 32 ? 0xffffffffu : (1u << lanes) - 1;
  for (unsigned apart = 16; apart > 0; apart /= 2) {
    const uint32_t other = __shfl_down_sync(mask, own, apart);
    if (threadIdx.x % 32 + apart < lanes) own += other;
  }
  if (threadIdx.x % 32 == 0) atomicAdd(sum, own);
}

__global__ void Note(const uint32_t* value, uint32_t* note) { *note = *value; }

__global__ void Tell(uint32_t* note, uint32_t value) { *note = value; }

struct Line {
  cudaStream_t stream = nullptr;
  uint32_t* device = nullptr;
  uint32_t* host = nullptr;  // pinned
  std::vector<uint32_t> expected;
};

void StepHost(std::vector<uint32_t>& values, uint32_t step) {
  for (uint32_t& value : values) value = value * 3 + step;
}
void TurnHost(std::vector<uint32_t>& values, uint32_t step) {
  const std::vector<uint32_t> old = values;
  for (size_t i = 0; i < old.size(); ++i) {
    const uint32_t sum = 2 * old[(i + 1) % old.size()];
    values[i] = i % 2 == 1 ? sum + step : sum - step;
  }
}

bool Same(const std::vector<uint32_t>& expected, const uint32_t* found, const char* what) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] == found[i]) continue;
    std::printf("%s: value %zu is %u, not %u\n", what, i, found[i], expected[i]);
    return false;
  }
  return true;
}

Line MakeLine(unsigned flags, uint32_t first) {
  Line line;
  CHECK(cudaStreamCreateWithFlags(&line.stream, flags));
  CHECK(cudaMalloc(&line.device, kThreads * sizeof(uint32_t)));
  CHECK(cudaMallocHost(&line.host, kThreads * sizeof(uint32_t)));
  for (int i = 0; i < kThreads; ++i) line.host[i] = first + i;
  line.expected.assign(line.host, line.host + kThreads);
  CHECK(cudaMemcpyAsync(line.device, line.host, kThreads * sizeof(uint32_t), cudaMemcpyHostToDevice,
                        line.stream));
  CHECK(cudaStreamSynchronize(line.stream));
  return line;
}

// By the driver's call, with the arguments in a block.
void LaunchPacked(const Line& line, uint32_t step) {
  static const auto launch = DriverCall<decltype(&cuLaunchKernel)>("cuLaunchKernel", 12000);
  const struct {
    uint32_t* values;
    uint32_t step;
  } packed{line.device, step};
  size_t bytes = sizeof packed.values + sizeof packed.step;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER,
                   const_cast<void*>(static_cast<const void*>(&packed)),
                   CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  static const cudaFunction_t function = [] {
    cudaFunction_t found;
    CHECK(cudaGetFuncBySymbol(&found, reinterpret_cast<const void*>(Step)));
    return found;
  }();
  if (launch(function, 3, 1, 1, kThreads / 3, 1, 1, 0, line.stream, nullptr, extra) !=
      CUDA_SUCCESS) {
    std::printf("a launch with packed arguments failed\n");
    std::exit(1);
  }
}

void Launch(Line& line, uint32_t step) {
  if (step % 5 == 2) {
    LaunchPacked(line, step);
    StepHost(line.expected, step);
  } else if (step % 5 == 4) {
    Turn<<<1, dim3(8, kThreads / 8), kThreads * 4, line.stream>>>(line.device, step);
    TurnHost(line.expected, step);
  } else {
    Step<<<3, kThreads / 3, 0, line.stream>>>(line.device, step);
    StepHost(line.expected, step);
  }
}

bool ReadBack(Line& line, const char* what) {
  CHECK(cudaMemcpyAsync(line.host, line.device, kThreads * sizeof(uint32_t), cudaMemcpyDeviceToHost,
                        line.stream));
  CHECK(cudaStreamSynchronize(line.stream));
  return Same(line.expected, line.host, what);
}

// The default stream comes after blocking streams only.
bool ReadByDefaultStream(Line& line, const char* what) {
  unsigned flags = 0;
  CHECK(cudaStreamGetFlags(line.stream, &flags));
  if (flags == cudaStreamNonBlocking) CHECK(cudaStreamSynchronize(line.stream));
  CHECK(cudaMemcpy(line.host, line.device, kThreads * sizeof(uint32_t), cudaMemcpyDeviceToHost));
  return Same(line.expected, line.host, what);
}

// Another stream goes on where this one is: by an event.
bool HandOver(Line& from, Line& to, uint32_t step) {
  cudaEvent_t event;
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  for (uint32_t i = 0; i < 20; ++i) Launch(from, step + i);
  CHECK(cudaEventRecord(event, from.stream));
  CHECK(cudaStreamWaitEvent(to.stream, event, 0));
  CHECK(cudaMemcpyAsync(to.device, from.device, kThreads * sizeof(uint32_t),
                        cudaMemcpyDeviceToDevice, to.stream));
  to.expected = from.expected;
  for (uint32_t i = 0; i < 20; ++i) Launch(to, step + i);
  const bool right = ReadBack(to, "behind an event");
  CHECK(cudaEventSynchronize(event));
  CHECK(cudaEventDestroy(event));
  return right;
}

// Memory is set between launches, without waiting.
bool Clear(Line& line, uint32_t step) {
  for (uint32_t i = 0; i < 10; ++i) Launch(line, step + i);
  CHECK(cudaMemsetAsync(line.device, 0, kThreads * sizeof(uint32_t), line.stream));
  line.expected.assign(kThreads, 0);
  for (uint32_t i = 0; i < 10; ++i) Launch(line, step + i);
  return ReadBack(line, "behind a memset");
}

// Pageable memory: what was copied from it may be overwritten at once, what was copied to it is
// there.
bool Pageable(Line& line, uint32_t rounds) {
  constexpr int kParts = 8, kPart = kThreads / kParts;
  std::vector<uint32_t> there(kPart), back(kThreads);
  for (uint32_t round = 0; round < rounds; ++round) {
    for (uint32_t i = 0; i < 10; ++i) Launch(line, round + i);
    for (int part = 0; part < kParts; ++part) {
      for (int i = 0; i < kPart; ++i) {
        line.expected[part * kPart + i] = there[i] = round * 1000 + part * 100 + i;
      }
      CHECK(cudaMemcpyAsync(line.device + part * kPart, there.data(), kPart * sizeof(uint32_t),
                            cudaMemcpyHostToDevice, line.stream));
    }
    for (uint32_t i = 0; i < 10; ++i) Launch(line, round + i);
    CHECK(cudaMemcpyAsync(back.data(), line.device, kThreads * sizeof(uint32_t),
                          cudaMemcpyDeviceToHost, line.stream));
    if (!Same(line.expected, back.data(), "pageable memory")) return false;
  }
  return true;
}

bool AskedOnly(Line& line, uint32_t step) {
  for (uint32_t i = 0; i < 40; ++i) Launch(line, step + i);
  cudaError_t state;
  while ((state = cudaStreamQuery(line.stream)) == cudaErrorNotReady) std::this_thread::yield();
  CHECK(state);
  return ReadByDefaultStream(line, "behind a query");
}

bool SumUp(Line& line) {
  uint32_t* sum = nullptr;
  uint32_t found = 0, expected = 0;
  CHECK(cudaMalloc(&sum, sizeof *sum));
  CHECK(cudaMemset(sum, 0, sizeof *sum));
  CHECK(cudaDeviceSynchronize());
  constexpr int kSummed = 83;
  for (int i = 0; i < kSummed; ++i) expected += line.expected[i];
  Sum<<<1, kSummed, 0, line.stream>>>(line.device, sum);
  CHECK(cudaStreamSynchronize(line.stream));
  CHECK(cudaMemcpy(&found, sum, sizeof found, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(sum));
  if (found == expected) return true;
  std::printf("sum of a partial warp: %u, not %u\n", found, expected);
  return false;
}

// One thread gives the stream other work; as soon as its call has returned, the other launches what
// comes behind it, and narrow kernels all the time before.
bool TwoThreads(Line& line, int turns) {
  constexpr size_t kWords = 1 << 23;  // so many that it is not over at once
  uint32_t *notes = nullptr, *filled = nullptr;
  CHECK(cudaMalloc(&notes, (turns + 1) * sizeof(uint32_t)));
  CHECK(cudaMalloc(&filled, kWords * sizeof(uint32_t)));
  std::atomic<int> given{0}, noted{0};
  std::thread other([&] {
    for (int turn = 1; turn <= turns; ++turn) {
      CHECK(cudaMemsetAsync(filled, turn % 251, kWords * sizeof(uint32_t), line.stream));
      given.store(turn);
      while (noted.load() != turn) std::this_thread::yield();
    }
  });
  for (int turn = 1; turn <= turns; ++turn) {
    do {
      Note<<<1, 1, 0, line.stream>>>(filled + kWords - 1, notes);
      while (given.load() != turn && cudaStreamQuery(line.stream) == cudaErrorNotReady) {
      }
    } while (given.load() != turn);
    Note<<<1, 1, 0, line.stream>>>(filled + kWords - 1, notes + turn);
    CHECK(cudaStreamSynchronize(line.stream));
    noted.store(turn);
  }
  other.join();
  std::vector<uint32_t> found(turns + 1), expected(turns + 1);
  CHECK(cudaStreamSynchronize(line.stream));
  CHECK(cudaMemcpy(found.data(), notes, found.size() * sizeof(uint32_t), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(notes));
  CHECK(cudaFree(filled));
  expected[0] = found[0];
  for (int turn = 1; turn <= turns; ++turn) expected[turn] = turn % 251 * 0x01010101u;
  return Same(expected, found.data(), "behind another thread's work");
}

// Two copies at once.
void CopyBatch(char* to, char* from, size_t bytes, cudaStream_t stream) {
  using Call = CUresult (*)(CUdeviceptr*, CUdeviceptr*, size_t*, size_t, CUmemcpyAttributes*, size_t*, size_t,
                            CUstream);
  static const auto call = DriverCall<Call>("cuMemcpyBatchAsync", 13000);
  const auto address = [](char* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); };
  CUdeviceptr tos[] = {address(to), address(to + bytes / 2)};
  CUdeviceptr froms[] = {address(from), address(from + bytes / 2)};
  size_t sizes[] = {bytes / 2, bytes / 2}, indices[] = {0};
  CUmemcpyAttributes attributes{};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  CheckDriver(call(tos, froms, sizes, 2, &attributes, indices, 1, stream), "a batch of copies");
}

// A thread whose stream never runs dry holds up nobody who waits for what was launched before,
// there or elsewhere.
bool Flood(Line& line, Line& other) {
  constexpr uint32_t kAhead = 40, kTimes = 3;
  constexpr size_t kLarge = 1 << 20, kPitch = 1 << 10;  // bytes: the driver copies them
  char* large = nullptr;
  CHECK(cudaMalloc(&large, 2 * kLarge));
  uint32_t* told = nullptr;
  CHECK(cudaMallocHost(&told, sizeof *told));
  *told = 0;
  cudaStream_t batches[kTimes];
  for (cudaStream_t& stream : batches) CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::atomic<uint32_t> given{0};
  std::atomic<bool> is_over{false}, begins_anew{false};
  std::thread flood([&] {
    for (uint32_t step = 1; !is_over.load(); ++step) {
      Launch(line, step);
      Tell<<<1, 1, 0, line.stream>>>(told, step);
      given.store(step);
      while (step - *static_cast<volatile uint32_t*>(told) > kAhead) std::this_thread::yield();
      if (!begins_anew.load()) continue;
      unsigned flags = 0;
      CHECK(cudaStreamGetFlags(line.stream, &flags));
      CHECK(cudaStreamSynchronize(line.stream));
      CHECK(cudaStreamDestroy(line.stream));
      CHECK(cudaStreamCreateWithFlags(&line.stream, flags));
      begins_anew.store(false);
    }
  });
  // Launches behind kernels are kernels: in another stream the flood is one of tasks again, and when it flows
  // what was waited for before is known to be over.
  const auto flow_as_tasks = [&] {
    begins_anew.store(true);
    while (begins_anew.load()) std::this_thread::yield();
    const uint32_t before = given.load();
    while (given.load() - before < 2 * kAhead) std::this_thread::yield();
  };
  flow_as_tasks();
  bool right = true;
  for (uint32_t i = 0; i < kTimes && right; ++i) {
    Launch(other, i);
    CHECK(cudaStreamSynchronize(other.stream));
    right = ReadByDefaultStream(other, "beside a flood");
    // None of these is over when its call returns.
    flow_as_tasks();
    CHECK(cudaMemcpyAsync(large, large + kLarge, kLarge, cudaMemcpyDeviceToDevice, other.stream));
    CHECK(cudaStreamSynchronize(other.stream));
    flow_as_tasks();
    // In a stream that nothing else was given: what is known of it is known of this call alone.
    CopyBatch(large, large + kLarge, kLarge, batches[i]);
    CHECK(cudaStreamSynchronize(batches[i]));
    flow_as_tasks();
    CHECK(cudaMemcpy(large, large + kLarge, kLarge, cudaMemcpyDeviceToDevice));
    CHECK(cudaStreamSynchronize(cudaStreamLegacy));
    flow_as_tasks();
    CHECK(cudaMemset2D(large, 2 * kPitch, 0, kPitch, kLarge / kPitch / 2));
    CHECK(cudaStreamSynchronize(cudaStreamLegacy));
    const uint32_t before = given.load();
    CHECK(cudaStreamSynchronize(line.stream));
    if (*static_cast<volatile uint32_t*>(told) < before) {
      std::printf("a flood: waited for, and a launch before has not run\n");
      right = false;
    }
  }
  is_over.store(true);
  flood.join();
  right = right && ReadBack(line, "a flood");
  for (cudaStream_t stream : batches) CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFreeHost(told));
  CHECK(cudaFree(large));
  return right;
}

// Copies that the driver makes in another stream: no launch of this one waits for them.
bool Batches(Line& line) {
  constexpr uint32_t kTimes = 20, kLaunches = 10;
  constexpr size_t kLarge = 1 << 20;  // bytes
  char* large = nullptr;
  CHECK(cudaMalloc(&large, 2 * kLarge));
  cudaStream_t other;
  CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  for (uint32_t i = 0; i < kTimes; ++i) {
    for (uint32_t step = 0; step < kLaunches; ++step) Launch(line, step);
    CopyBatch(large, large + kLarge, kLarge, other);
  }
  const bool right = ReadBack(line, "beside batches of copies");
  CHECK(cudaStreamDestroy(other));
  CHECK(cudaFree(large));
  return right;
}

}  // namespace

int main(int argc, char** argv) {
  const uint32_t rounds = argc > 1 ? static_cast<uint32_t>(std::atoi(argv[1])) : 20;
  const uint32_t three = 3, none = 0;
  CHECK(cudaMemcpyToSymbol(factor, &three, sizeof three));
  CHECK(cudaMemcpyToSymbol(launches, &none, sizeof none));
  std::vector<Line> lines;
  for (uint32_t i = 0; i < 8; ++i) {
    lines.push_back(MakeLine(i % 3 == 0 ? cudaStreamNonBlocking : cudaStreamDefault, 100 * i));
  }
  bool right = true;
  if (argc > 2 && std::strcmp(argv[2], "batches") == 0) {
    right = Batches(lines[0]);
    if (right) std::printf("ok\n");
    return right ? 0 : 1;
  }
  uint32_t steps = 0;
  for (uint32_t round = 0; round < rounds && right; ++round) {
    for (uint32_t i = 0; i < 64; ++i) {
      Launch(lines[i % lines.size()], round + i);
      steps += (round + i) % 5 != 4;
    }
    right = ReadBack(lines[round % lines.size()], "a stream");
  }
  for (Line& line : lines) right = right && ReadByDefaultStream(line, "at the end");
  uint32_t counted = 0;
  CHECK(cudaMemcpyFromSymbol(&counted, launches, sizeof counted));
  if (right && counted != steps) {
    std::printf("%u launches counted of %u\n", counted, steps);
    right = false;
  }
  right = right && HandOver(lines[0], lines[1], 7) && HandOver(lines[1], lines[4], 9);
  right = right && Clear(lines[2], 3) && Clear(lines[3], 4) && AskedOnly(lines[4], 5);
  right = right && Pageable(lines[5], rounds) && Pageable(lines[6], rounds);
  for (Line& line : lines) right = right && SumUp(line);
  for (int i = 0; i < 2; ++i) right = right && TwoThreads(lines[i], 5 * static_cast<int>(rounds));
  right = right && Flood(lines[0], lines[3]) && Flood(lines[1], lines[2]);
  for (Line& line : lines) {
    CHECK(cudaStreamDestroy(line.stream));
    CHECK(cudaFree(line.device));
    CHECK(cudaFreeHost(line.host));
  }
  CHECK(cudaDeviceSynchronize());
  if (right) std::printf("ok\n");
  return right ? 0 : 1;
}
