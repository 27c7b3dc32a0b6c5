// A program whose streams, captures and contexts end in every way there is, and whose threads have
// streams of their own: contexts_app SCENARIO [ROUNDS]. Prints "ready" before what is to be
// stopped, and "done". Plain CUDA.
#include <cuda.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include "tests/apps/support/driver_contexts.h"
#include "tests/preempt/app_parts.h"

namespace {

constexpr int kFewRounds = 4;

cudaStream_t NonBlocking() {
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

// A small kernel that has a variant: whether each block ran once.
int LaunchOne(cudaStream_t stream) {
  constexpr int kFew = 64;
  const Arrays arrays;
  std::array<uint32_t, kFew> ran;
  Fold<<<kFew, kThreads, 0, stream>>>(arrays.runs, arrays.value, 1, kFewRounds);
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaMemcpy(ran.data(), arrays.runs, sizeof(ran), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(arrays.runs));
  CHECK(cudaFree(arrays.value));
  CHECK(cudaFree(arrays.other));
  for (const uint32_t times : ran) {
    if (times != 1) return std::printf("a block ran %u times\n", times), 1;
  }
  return 0;
}

// Four streams that the program leaves to the end of the device's context.
int Resets(int rounds) {
  int wrong = 0;
  for (int round = 0; round < rounds; ++round) {
    std::array<cudaStream_t, 4> streams;
    for (cudaStream_t& stream : streams) stream = NonBlocking();
    wrong += LaunchOne(streams[3]);
    CHECK(cudaDeviceReset());
  }
  return wrong + LaunchOne(NonBlocking());
}

// The same, of contexts that it makes.
int Contexts(int rounds) {
  CHECK(cudaFree(nullptr));
  int wrong = 0;
  for (int round = 0; round < rounds; ++round) {
    const CUcontext context = MakeContext();
    std::array<cudaStream_t, 4> streams;
    for (cudaStream_t& stream : streams) stream = NonBlocking();
    wrong += LaunchOne(streams[3]);
    EndContext(context);
  }
  CHECK(cudaSetDevice(0));
  return wrong + LaunchOne(NonBlocking());
}

// A context that ends while one of its streams captures.
int Captures(int) {
  CHECK(cudaFree(nullptr));
  const CUcontext context = MakeContext();
  CHECK(cudaStreamBeginCapture(NonBlocking(), cudaStreamCaptureModeRelaxed));
  EndContext(context);
  CHECK(cudaSetDevice(0));
  return LaunchOne(NonBlocking());
}

// Each thread launches on its default stream, which is there as long as the thread is: all at the
// same time, behind a kernel that is stopped.
int Threads(int count) {
  const Arrays arrays;
  Plain<<<1, 32, 0, cudaStreamPerThread>>>(arrays.other);
  arrays.Launch(1, cudaStreamPerThread, kFewRounds);
  CHECK(cudaStreamSynchronize(cudaStreamPerThread));
  SayAndWait("ready");
  arrays.Launch(2, cudaStreamPerThread);
  Say("kernel launched");
  std::vector<std::thread> threads;
  std::atomic<int> calling{0}, launched{0};
  for (int i = 1; i < count; ++i) {
    threads.emplace_back([&] {
      if (++calling == count - 1) Say("all threads launch");
      Plain<<<1, 32, 0, cudaStreamPerThread>>>(arrays.other);
      CHECK(cudaGetLastError());
      for (++launched; launched < count - 1;) usleep(1000);  // others need the processor
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(cudaDeviceSynchronize());
  return arrays.Check(2);
}

// The same, one thread after the other.
int ThreadsInTurn(int count) {
  const Arrays arrays;
  for (int i = 0; i < count; ++i) {
    std::thread([&] {
      Plain<<<1, 32, 0, cudaStreamPerThread>>>(arrays.other);
      CHECK(cudaStreamSynchronize(cudaStreamPerThread));
    }).join();
  }
  return LaunchOne(cudaStreamPerThread);
}

// The device's context is given back by one of those that hold it, and goes on. No memory of the
// device goes with that.
int Releases(int rounds) {
  static const auto retain =
      DriverCall<decltype(&cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain", 13000);
  static const auto release =
      DriverCall<decltype(&cuDevicePrimaryCtxRelease)>("cuDevicePrimaryCtxRelease", 13000);
  CHECK(cudaFree(nullptr));
  const cudaStream_t stream = NonBlocking();
  int wrong = LaunchOne(stream);
  size_t before, after, total;
  CHECK(cudaMemGetInfo(&before, &total));
  for (int round = 0; round < rounds; ++round) {
    CUcontext context = nullptr;
    CheckDriver(retain(&context, 0), "cuDevicePrimaryCtxRetain");
    wrong += LaunchOne(stream);
    CheckDriver(release(0), "cuDevicePrimaryCtxRelease");
    wrong += LaunchOne(stream);
  }
  CHECK(cudaMemGetInfo(&after, &total));
  if (before != after) return std::printf("%zu bytes are gone\n", before - after), 1;
  return wrong;
}

// As many contexts at the same time, each with a launch.
int AtOnce(int count) {
  CHECK(cudaFree(nullptr));
  const int wrong = LaunchOne(nullptr);
  for (int i = 1; i < count; ++i) {
    (void)MakeContext();
    uint32_t* value;
    CHECK(cudaMalloc(&value, 4));
    Plain<<<1, 32>>>(value);
    CHECK(cudaDeviceSynchronize());
  }
  SayAndWait("ready");
  return wrong;
}

/// A context with a kernel that is stopped, and the stream that it is on.
struct Stopped {
  CUcontext context;
  cudaStream_t stream;
  Arrays arrays;

  explicit Stopped(CUdevice device) : context(MakeContext(device)), stream(Blocking()) {
    arrays.Launch(1, stream, kFewRounds);
    CHECK(cudaStreamSynchronize(stream));
  }
  static cudaStream_t Blocking() {
    cudaStream_t made;
    CHECK(cudaStreamCreate(&made));
    return made;
  }
  void Launch() const {
    SayAndWait("ready");
    arrays.Launch(2, stream);
    Say("kernel launched");
  }
  int Check() const {
    SetContext(context);
    CHECK(cudaStreamSynchronize(stream));
    return arrays.Check(2);
  }
};

// A call that concerns the stopped kernel's context, while another is current.
int FromAnother(void (*call)(const Stopped& stopped)) {
  CHECK(cudaFree(nullptr));
  const Stopped stopped(0);
  stopped.Launch();
  CHECK(cudaSetDevice(0));
  call(stopped);
  Say("called");
  return stopped.Check();
}

int CopyFromAnother(int) {
  return FromAnother([](const Stopped& stopped) {
    static std::array<uint32_t, 64> values;
    CHECK(cudaMemcpyAsync(values.data(), stopped.arrays.other, sizeof(values),
                          cudaMemcpyDeviceToHost, stopped.stream));
  });
}

int SetFromAnother(int) {
  return FromAnother([](const Stopped& stopped) {
    for (int i = 0; i < 900; ++i) {
      CHECK(cudaMemsetAsync(stopped.arrays.other, 0, 64, stopped.stream));
    }
  });
}

// The simulated device refuses it, and would have it waited for all the same.
int CopyBetween(int) {
  return FromAnother([](const Stopped& stopped) {
    static const auto copy = DriverCall<decltype(&cuMemcpyPeer)>("cuMemcpyPeer", 13000);
    static const auto get = DriverCall<decltype(&cuCtxGetCurrent)>("cuCtxGetCurrent", 13000);
    CUcontext own = nullptr;
    CheckDriver(get(&own), "cuCtxGetCurrent");
    uint32_t* to;
    CHECK(cudaMalloc(&to, 64));
    (void)copy(reinterpret_cast<CUdeviceptr>(to), own,
               reinterpret_cast<CUdeviceptr>(stopped.arrays.other), stopped.context, 64);
  });
}

// A copy on the first GPU comes behind a small kernel, which waits for one of the second that is
// stopped.
int TwoGpus(int) {
  CHECK(cudaFree(nullptr));
  const Arrays arrays;
  const cudaStream_t stream = Stopped::Blocking();
  Plain<<<1, 32, 0, stream>>>(arrays.other);
  CHECK(cudaDeviceSynchronize());
  const Stopped stopped(1);
  cudaEvent_t event;
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  stopped.Launch();
  CHECK(cudaEventRecord(event, stopped.stream));
  CHECK(cudaSetDevice(0));
  CHECK(cudaStreamWaitEvent(stream, event));
  Plain<<<1, 32, 0, stream>>>(arrays.other);
  return FirstOf(arrays.other) == 64 ? stopped.Check() : 1;
}

// As many streams as have hardware queues, a wait behind a long kernel, another stream in place of one of them and
// one more at last, as many rounds.
int AfterALongWait(int rounds) {
  std::array<cudaStream_t, 4> streams;
  for (cudaStream_t& stream : streams) stream = NonBlocking();
  int wrong = 0;
  for (int round = 0; round < rounds; ++round) {
    const Arrays arrays;
    void* spare;
    CHECK(cudaMalloc(&spare, 64));
    Fold<<<kBlocks / 4, kThreads, 0, streams[0]>>>(arrays.runs, arrays.value, 1, 40 * kRounds);
    CHECK(cudaFree(spare));  // waits
    const cudaStream_t another = NonBlocking();
    wrong += LaunchOne(another);
    CHECK(cudaStreamDestroy(another));
  }
  return wrong;
}

int RunNamed(const std::string& scenario, int rounds) {
  static const std::map<std::string, int (*)(int)> scenarios{
      {"resets", Resets}, {"contexts", Contexts}, {"captures", Captures}, {"threads", Threads},
      {"threads-in-turn", ThreadsInTurn}, {"releases", Releases}, {"at-once", AtOnce},
      {"copy-from-another", CopyFromAnother}, {"set-from-another", SetFromAnother},
      {"copy-between", CopyBetween}, {"two-gpus", TwoGpus}, {"after-a-long-wait", AfterALongWait}};
  const auto found = scenarios.find(scenario);
  return found != scenarios.end() ? found->second(rounds) : 2;
}

}  // namespace

int main(int argc, char** argv) {
  const int wrong = RunNamed(argc > 1 ? argv[1] : "", argc > 2 ? std::atoi(argv[2]) : 1);
  if (wrong == 0) Say("done");
  return wrong;
}
