// A program that knows nothing of tasks: several host threads launch narrow kernels into their own
// default streams (--default-stream per-thread), beside the legacy stream and streams that they
// make; each result is compared with what CUDA's order says. Plain CUDA.
//
//   narrow_threads [rounds]
//
// Prints "ok" and returns 0, or says what was wrong and returns 1.
#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "tests/apps/support/check_runtime.h"

namespace {

constexpr int kThreads = 96, kHostThreads = 4;
constexpr size_t kBytes = kThreads * sizeof(uint32_t);

__global__ void Step(uint32_t* values, uint32_t step) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  values[i] = values[i] * 3 + step;
}

uint32_t StepHost(uint32_t value, uint32_t step) { return value * 3 + step; }

/// Values that all launches of one host thread work on; all of them are equal.
struct Line {
  uint32_t* device = nullptr;
  uint32_t* host = nullptr;  // pinned
  uint32_t expected = 1;

  Line() {
    CHECK(cudaMalloc(&device, kBytes));
    CHECK(cudaMallocHost(&host, kBytes));
    for (int i = 0; i < kThreads; ++i) host[i] = expected;
    CHECK(cudaMemcpy(device, host, kBytes, cudaMemcpyHostToDevice));
  }
  ~Line() {
    CHECK(cudaFree(device));
    CHECK(cudaFreeHost(host));
  }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  void Launch(uint32_t step, cudaStream_t stream) {
    Step<<<3, kThreads / 3, 0, stream>>>(device, step);
    expected = StepHost(expected, step);
  }
  // What the copy has brought, when the stream is through.
  bool Compare(const char* what) const {
    for (int i = 0; i < kThreads; ++i) {
      if (host[i] == expected) continue;
      std::printf("%s: value %d is %u, not %u\n", what, i, host[i], expected);
      return false;
    }
    return true;
  }
  bool ReadBack(cudaStream_t stream, const char* what) {
    CHECK(cudaMemcpyAsync(host, device, kBytes, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    return Compare(what);
  }
};

// Handle 0 and the name of the thread's stream are the same.
bool OwnStream(Line& line, uint32_t rounds) {
  for (uint32_t round = 0; round < rounds; ++round) {
    for (uint32_t i = 0; i < 24; ++i) line.Launch(round + i, i % 3 == 0 ? cudaStreamPerThread : 0);
    const cudaStream_t stream = round % 2 == 0 ? cudaStreamPerThread : 0;
    if (!line.ReadBack(stream, "a thread's own stream")) return false;
  }
  return true;
}

// Other work between launches: memory is set, an event hands over to a stream and back.
bool OtherWork(Line& line) {
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  for (uint32_t i = 0; i < 10; ++i) line.Launch(i, 0);
  CHECK(cudaMemsetAsync(line.device, 0, kBytes, 0));
  line.expected = 0;
  for (uint32_t i = 0; i < 10; ++i) line.Launch(i, 0);
  CHECK(cudaEventRecord(event, cudaStreamPerThread));
  CHECK(cudaStreamWaitEvent(stream, event, 0));
  for (uint32_t i = 0; i < 10; ++i) line.Launch(i, stream);
  CHECK(cudaEventRecord(event, stream));
  CHECK(cudaStreamWaitEvent(0, event, 0));
  for (uint32_t i = 0; i < 10; ++i) line.Launch(i, 0);
  while (cudaStreamQuery(0) == cudaErrorNotReady) std::this_thread::yield();
  const bool right = line.ReadBack(0, "behind an event");
  CHECK(cudaEventDestroy(event));
  CHECK(cudaStreamDestroy(stream));
  return right;
}

// The legacy stream, of this thread, comes behind what another thread has launched into its own and
// not waited for, also when that thread has ended; and what comes there then comes behind it.
bool BehindAnother(bool ends_first, uint32_t steps) {
  Line line;
  std::atomic<int> stage{0};
  const auto await = [&](int wanted) {
    while (stage.load() != wanted) std::this_thread::yield();
  };
  std::thread other([&] {
    for (uint32_t i = 0; i < steps; ++i) line.Launch(i, 0);
    stage.store(1);
    if (ends_first) return;
    await(2);
    for (uint32_t i = 0; i < steps; ++i) line.Launch(2 * i, 0);
    stage.store(3);
  });
  if (ends_first) other.join();
  await(1);
  for (uint32_t i = 0; i < 3; ++i) line.Launch(7 + i, cudaStreamLegacy);
  if (!ends_first) {
    stage.store(2);
    await(3);
  }
  line.Launch(5, cudaStreamLegacy);
  const bool right = line.ReadBack(cudaStreamLegacy, "behind another thread");
  if (!ends_first) other.join();
  return right;
}

bool InThreads(const std::function<bool()>& work) {
  std::atomic<bool> right{true};
  std::vector<std::thread> threads;
  for (int i = 0; i < kHostThreads; ++i) {
    threads.emplace_back([&] {
      if (!work()) right.store(false);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return right.load();
}

}  // namespace

int main(int argc, char** argv) {
  const uint32_t rounds = argc > 1 ? static_cast<uint32_t>(std::atoi(argv[1])) : 20;
  bool right = true;
  {
    // Nobody has launched into a stream of its own so far.
    Line line;
    for (uint32_t i = 0; i < 64; ++i) line.Launch(i, cudaStreamLegacy);
    line.Launch(9, 0);
    right = line.ReadBack(0, "behind the legacy stream");
  }
  for (uint32_t turn = 0; turn < 2 && right; ++turn) {
    right = InThreads([&] {
      Line line;
      return OwnStream(line, rounds) && OtherWork(line);
    });
  }
  for (uint32_t round = 0; round < rounds && right; ++round) {
    right = BehindAnother(round % 2 == 0, 8 + round % 40);
  }
  CHECK(cudaDeviceSynchronize());
  if (right) std::printf("ok\n");
  return right ? 0 : 1;
}
