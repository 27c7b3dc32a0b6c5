// A program that knows nothing of tasks and works in several contexts: narrow launches, copies and
// events in each, by a thread each and by one thread in turns; contexts end, and others come. Each
// result is compared with what CUDA's order says. Plain CUDA.
//
//   narrow_contexts [rounds]
//   narrow_contexts ends      a context ends as soon as its launch has run, for which a thread of
//                             another context waits
//   narrow_contexts again     the device's own context ends and comes again, and one of two that hold it gives it back
//                             before anything is launched in it
//
// Prints "ok" and returns 0, or says what was wrong and returns 1.
#include <cuda.h>
#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/apps/support/check_runtime.h"
#include "tests/apps/support/driver_contexts.h"

namespace {

constexpr int kThreads = 64;
constexpr size_t kBytes = kThreads * sizeof(uint32_t);

__device__ uint32_t launches;

__global__ void Step(uint32_t* values, uint32_t step) {
  values[threadIdx.x] = values[threadIdx.x] * 3 + step;
  if (threadIdx.x == 0) atomicAdd(&launches, 1u);
}

__global__ void TellLater(uint32_t* told, uint64_t after_ns) {
  uint64_t start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - start < after_ns);
  *told = 1;
}

// A stream of a context, with an array. That context is current whenever a function is called.
struct Line {
  cudaStream_t stream = nullptr;
  uint32_t* device = nullptr;
  uint32_t expected = 0, steps = 0;

  Line() {
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&device, kBytes));
    CHECK(cudaMemset(device, 0, kBytes));
    CHECK(cudaMemcpyToSymbol(launches, &steps, sizeof steps));
    CHECK(cudaDeviceSynchronize());
  }
  void Launch(uint32_t step) {
    Step<<<1, kThreads, 0, stream>>>(device, step);
    expected = expected * 3 + step;
    ++steps;
  }
  // To pageable memory.
  bool Read(const char* what) const {
    std::vector<uint32_t> found(kThreads);
    CHECK(cudaMemcpyAsync(found.data(), device, kBytes, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < kThreads; ++i) {
      if (found[i] == expected) continue;
      std::printf("%s: value %d is %u, not %u\n", what, i, found[i], expected);
      return false;
    }
    return true;
  }
  bool Counted(const char* what) const {
    uint32_t found = 0;
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpyFromSymbol(&found, launches, sizeof found));
    if (found != steps) std::printf("%s: %u launches, not %u\n", what, found, steps);
    return found == steps;
  }
  // From pageable memory, which changes at once; by an event to another stream and back.
  bool Turn(uint32_t round) {
    for (uint32_t i = 0; i < 12; ++i) Launch(round + i);
    if (!Read("launches")) return false;
    std::vector<uint32_t> there(kThreads, round);
    CHECK(cudaMemcpyAsync(device, there.data(), kBytes, cudaMemcpyHostToDevice, stream));
    there.assign(kThreads, 0xeeeeeeee);
    expected = round;
    for (uint32_t i = 0; i < 12; ++i) Launch(round + 2 * i);
    return Read("behind a copy");
  }
  void End() {
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(device));
  }
};

bool InOneContext(CUcontext context, uint32_t rounds) {
  SetContext(context);
  Line line;
  bool right = true;
  for (uint32_t round = 0; round < rounds && right; ++round) right = line.Turn(round);
  right = right && line.Counted("a thread");
  line.End();
  return right;
}

bool ByThreads(const std::vector<CUcontext>& contexts, uint32_t rounds) {
  std::vector<int> right(contexts.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < contexts.size(); ++i) {
    threads.emplace_back([&, i] { right[i] = InOneContext(contexts[i], rounds); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int each : right) {
    if (each == 0) return false;
  }
  return true;
}

// What was launched in one context is waited for while another is current.
bool InTurns(const std::vector<CUcontext>& contexts, uint32_t rounds) {
  std::vector<Line> lines;
  for (const CUcontext context : contexts) {
    SetContext(context);
    lines.emplace_back();
  }
  bool right = true;
  for (uint32_t round = 0; round < rounds && right; ++round) {
    for (size_t i = 0; i < lines.size(); ++i) {
      SetContext(contexts[i]);
      for (uint32_t step = 0; step < 8; ++step) lines[i].Launch(round + step);
    }
    if (round % 4 == 3) CHECK(cudaDeviceSynchronize());
    for (size_t i = 0; i < lines.size() && right; ++i) {
      SetContext(contexts[i]);
      right = lines[i].Read("in turns");
    }
  }
  for (size_t i = 0; i < lines.size(); ++i) {
    SetContext(contexts[i]);
    right = right && lines[i].Counted("in turns");
    lines[i].End();
  }
  return right;
}

// The device's own context is given back by one of those that hold it, behind `work`, and goes on.
template <typename Work>
void WithSecondHolder(Work&& work) {
  static const auto retain =
      DriverCall<decltype(&cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain", 13000);
  static const auto release =
      DriverCall<decltype(&cuDevicePrimaryCtxRelease)>("cuDevicePrimaryCtxRelease", 13000);
  CUcontext context = nullptr;
  CheckDriver(retain(&context, 0), "cuDevicePrimaryCtxRetain");
  work();
  CheckDriver(release(0), "cuDevicePrimaryCtxRelease");
}

bool InPrimary(uint32_t rounds) {
  SetContext(nullptr);
  CHECK(cudaSetDevice(0));
  Line line;
  bool right = true;
  for (uint32_t round = 0; round < rounds && right; ++round) {
    WithSecondHolder([&] {
      for (uint32_t i = 0; i < 10; ++i) line.Launch(i);
    });
    right = line.Turn(round);
  }
  right = right && line.Counted("the device's own context");
  line.End();
  return right;
}

// The device's own context ends and comes again, and nothing was launched in it when a second holder gives it back.
bool ComesAgain() {
  for (uint32_t life = 0; life < 3; ++life) {
    CHECK(cudaSetDevice(0));
    CHECK(cudaFree(nullptr));
    WithSecondHolder([] {});
    Line line;
    if (!line.Turn(life) || !line.Counted("the device's own context")) return false;
    line.End();
    CHECK(cudaDeviceReset());
  }
  return true;
}

// Whoever waits for all launches may still look at those of a context that has ended meanwhile.
bool EndsWhileWaitedFor(CUcontext context) {
  constexpr uint64_t kAfterNs = 300'000'000;
  SetContext(context);
  Line line;
  uint32_t* told = nullptr;
  CHECK(cudaMallocHost(&told, sizeof *told));
  bool right = true;
  for (int round = 0; round < 3; ++round) {
    *told = 0;
    std::atomic<bool> is_launched{false};
    std::thread other([&] {
      const CUcontext own = MakeContext();
      SetContext(own);
      Line ending;
      ending.Launch(1);
      TellLater<<<1, 1, 0, ending.stream>>>(told, kAfterNs);
      is_launched.store(true);
      while (*static_cast<volatile uint32_t*>(told) == 0) std::this_thread::yield();
      EndContext(own);
    });
    while (!is_launched.load()) std::this_thread::yield();
    line.Launch(round);
    CHECK(cudaDeviceSynchronize());
    other.join();
    right = right && line.Read("beside a context that ends");
  }
  CHECK(cudaFreeHost(told));
  line.End();
  return right;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && argv[1] == std::string("ends")) {
    CHECK(cudaFree(nullptr));
    const CUcontext context = MakeContext();
    const bool right = EndsWhileWaitedFor(context);
    EndContext(context);
    if (right) std::printf("ok\n");
    return right ? 0 : 1;
  }
  if (argc > 1 && argv[1] == std::string("again")) {
    const bool right = ComesAgain();
    if (right) std::printf("ok\n");
    return right ? 0 : 1;
  }
  const auto rounds = static_cast<uint32_t>(argc > 1 ? std::atoi(argv[1]) : 20);
  CHECK(cudaFree(nullptr));
  std::vector<CUcontext> contexts = {MakeContext(), MakeContext(), MakeContext()};
  bool right = InTurns(contexts, rounds) && ByThreads(contexts, rounds);
  // One ends, with all its streams, while another has launches under way; one comes in its place.
  if (right) {
    SetContext(contexts[0]);
    std::vector<Line> left(8);
    for (Line& line : left) line.Launch(1);
    SetContext(contexts[1]);
    Line line;
    for (uint32_t i = 0; i < 40; ++i) line.Launch(i);
    EndContext(contexts[0]);
    SetContext(contexts[1]);
    right = line.Read("beside a context that ended");
    line.End();
    contexts[0] = MakeContext();
    right = right && ByThreads(contexts, rounds) && InTurns(contexts, rounds) && InPrimary(rounds);
  }
  for (const CUcontext context : contexts) EndContext(context);
  if (!right) return 1;
  std::printf("ok\n");
  return 0;
}
