// What programs do while narrow launches are under way, one a run; what it prints must not depend
// on whether launches become tasks. Plain CUDA.
//
//   narrow_faults trap | exit | reset | capture | threads | legacy | fork | modules | memory |
//                 wide | unload
//   narrow_faults trap HOW   as trap, and first asks until it is told: HOW is ask (the stream),
//                            default (the default stream) or event
//   narrow_faults lurk       as trap, and then calls nothing until its input ends
//   narrow_faults killed     launches until it is killed; a line for each thousand
//   narrow_faults long HOW   behind a launch of LONG_MS ms: HOW is wait, ask, default, apart,
//                            device, full or event
#include <cuda.h>
#include <cuda_runtime.h>
#include <sys/wait.h>
#include <unistd.h>

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

#include "narrow_loaded_fatbin.h"
#include "tests/apps/support/check_runtime.h"
#include "tests/apps/support/driver_call.h"

namespace {

constexpr int kThreads = 64, kLaunches = 200;

__global__ void Add(uint32_t* values, uint32_t step) { values[threadIdx.x] += step; }
__global__ void Count(uint32_t* total) {
  if (threadIdx.x == 0) atomicAdd(total, 1u);
}
__global__ void TrapIf(bool traps) {
  if (traps) __trap();
}

__device__ uint64_t NowNs() {
  uint64_t ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}
__global__ void Tell(uint32_t* told, uint32_t value) { *told = value; }
__global__ void Many(uint32_t* total) { atomicAdd(total, 1u); }
// Ends by the clock.
__global__ void Long(uint32_t* ended, uint64_t ns) {
  const uint64_t start = NowNs();
  while (NowNs() - start < ns) {
  }
  if (threadIdx.x == 0) *ended += 1;
}

struct Streams {
  explicit Streams(int count, unsigned flags = cudaStreamDefault) : all(count) {
    for (cudaStream_t& stream : all) CHECK(cudaStreamCreateWithFlags(&stream, flags));
  }
  std::vector<cudaStream_t> all;
};

uint32_t* Zeroed() {
  uint32_t* values = nullptr;
  CHECK(cudaMalloc(&values, kThreads * sizeof(uint32_t)));
  CHECK(cudaMemset(values, 0, kThreads * sizeof(uint32_t)));
  CHECK(cudaDeviceSynchronize());
  return values;
}

void Print(const char* what, const uint32_t* values) {
  uint32_t found[kThreads];
  CHECK(cudaMemcpy(found, values, sizeof found, cudaMemcpyDeviceToHost));
  std::printf("%s: %u %u\n", what, found[0], found[kThreads - 1]);
}

void LaunchMany(cudaStream_t stream, uint32_t* values, int launches = kLaunches) {
  for (int i = 0; i < launches; ++i) Add<<<1, kThreads, 0, stream>>>(values, i % 7);
}

// Of who launches without an end: not every driver lets the host wait for room.
void KeepUp(cudaStream_t stream, uint32_t launched) {
  if (launched % 200 == 0) CHECK(cudaStreamSynchronize(stream));
}

// Asks until there is an answer, or for 20 s.
template <typename AskOnce>
cudaError_t Ask(AskOnce&& ask) {
  const auto start = std::chrono::steady_clock::now();
  cudaError_t state;
  while ((state = ask()) == cudaErrorNotReady &&
         std::chrono::steady_clock::now() - start < std::chrono::seconds(20)) {
    std::this_thread::yield();
  }
  return state;
}

cudaError_t AskAbout(cudaStream_t stream) {
  return Ask([&] { return cudaStreamQuery(stream); });
}

cudaError_t AskByEvent(cudaStream_t stream) {
  cudaEvent_t event;
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  const cudaError_t recorded = cudaEventRecord(event, stream);
  return recorded != cudaSuccess ? recorded : Ask([&] { return cudaEventQuery(event); });
}

// A launch that fails: every call behind it says so, whatever stream it is for.
void Trap(bool lurks, const std::string& how) {
  Streams streams(3);
  uint32_t* values = Zeroed();
  for (int i = 0; i < kLaunches; ++i) {
    Add<<<1, kThreads, 0, streams.all[i % 2]>>>(values, 0);
    TrapIf<<<1, 32, 0, streams.all[2]>>>(i == kLaunches - 1);
  }
  if (lurks) {
    std::puts("launched");
    std::fflush(stdout);
    while (std::getchar() != EOF) {
    }
  }
  if (how == "event") {
    std::printf("event: %s\n", cudaGetErrorName(AskByEvent(streams.all[2])));
  } else if (how != "") {
    const cudaError_t state = AskAbout(how == "ask" ? streams.all[2] : 0);
    std::printf("asked: %s\n", cudaGetErrorName(state));
  }
  std::printf("stream: %s\n", cudaGetErrorName(cudaStreamSynchronize(streams.all[2])));
  std::printf("device: %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
  std::printf("malloc: %s\n", cudaGetErrorName(cudaMalloc(&values, 4)));
}

void Reset() {
  for (int round = 0; round < 2; ++round) {
    Streams streams(2);
    uint32_t* values = Zeroed();
    LaunchMany(streams.all[round], values);
    CHECK(cudaStreamSynchronize(streams.all[round]));
    Print("before the reset", values);
    LaunchMany(streams.all[round], values);
    CHECK(cudaDeviceReset());
  }
}

// One stream is captured while launches go on in another.
void Capture() {
  Streams streams(2);
  uint32_t *values = Zeroed(), *captured = Zeroed();
  LaunchMany(streams.all[0], values);
  cudaGraph_t graph;
  CHECK(cudaStreamBeginCapture(streams.all[1], cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < 10; ++i) Add<<<1, kThreads, 0, streams.all[1]>>>(captured, 1);
  std::thread([&] { LaunchMany(streams.all[0], values); }).join();
  CHECK(cudaStreamEndCapture(streams.all[1], &graph));
  LaunchMany(streams.all[0], values);
  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  LaunchMany(streams.all[1], captured);
  CHECK(cudaGraphLaunch(exec, streams.all[1]));
  LaunchMany(streams.all[1], captured);
  CHECK(cudaDeviceSynchronize());
  Print("launched", values);
  Print("captured", captured);
}

// Threads share streams.
void Threads() {
  Streams streams(3);
  uint32_t* total = Zeroed();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kLaunches; ++i) Count<<<1, 32, 0, streams.all[(i + t) % 3]>>>(total);
      CHECK(cudaStreamSynchronize(streams.all[t % 3]));
      void* memory = nullptr;
      CHECK(cudaMalloc(&memory, 1 << 16));
      for (int i = 0; i < kLaunches; ++i) Count<<<1, 32, 0, streams.all[(i + t) % 3]>>>(total);
      CHECK(cudaFree(memory));
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(cudaDeviceSynchronize());
  Print("counted", total);
}

// The default stream, first alone, then beside one that waits for it and for which it waits.
void Legacy() {
  uint32_t* values = Zeroed();
  LaunchMany(nullptr, values);
  Print("default stream", values);
  Streams streams(2);
  for (int i = 0; i < 40; ++i) {
    LaunchMany(streams.all[i % 2], values);
    Add<<<1, kThreads>>>(values, 1);
    CHECK(cudaMemsetAsync(values + kThreads / 2, i, 4, nullptr));
  }
  Print("by turns", values);
}

int CodeOf(pid_t child) {
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Children with launches in flight: one asks the driver, which tells it that it may not, and leaves
// by exit(), so that handlers run, some of which ask as well; of those that are forked while
// another thread launches, which may hold any lock, by _exit() only.
void Fork() {
  constexpr int kChildren = 4, kRounds = 20;
  Streams streams(2);
  uint32_t *values = Zeroed(), *others = Zeroed();
  LaunchMany(streams.all[0], values);
  std::fflush(stdout);
  const auto create = DriverCall<decltype(&cuStreamCreate)>("cuStreamCreate", 12000);
  pid_t child = fork();
  if (child == 0) {
    CUstream stream = nullptr;
    std::exit(create(&stream, 0) == CUDA_SUCCESS ? 6 : 5);
  }
  LaunchMany(streams.all[0], values);
  std::printf("exit: %d\n", CodeOf(child));
  Print("behind the first", values);
  std::atomic<int> round{0};
  std::thread other([&] {
    for (; round.load() < kRounds; ++round) {
      LaunchMany(streams.all[1], others);
      if (round.load() % 4 == 3) CHECK(cudaStreamSynchronize(streams.all[1]));
    }
  });
  for (int i = 0; i < kChildren; ++i) {
    while (round.load() < i * kRounds / kChildren) std::this_thread::yield();
    child = fork();
    if (child == 0) {
      volatile uint32_t sum = 0;
      for (uint32_t at = 0; at < 1000; ++at) sum = sum + at;
      _exit(sum == 499'500 ? 10 + i : 1);
    }
    LaunchMany(streams.all[0], values);
    std::printf("_exit: %d\n", CodeOf(child));
  }
  other.join();
  CHECK(cudaDeviceSynchronize());
  Print("beside forks", values);
  Print("of the other thread", others);
}

[[noreturn]] void UntilKilled() {
  Streams streams(3);
  uint32_t* values = Zeroed();
  for (int thousands = 1;; ++thousands) {
    for (int i = 0; i < 1000; ++i) Add<<<1, kThreads, 0, streams.all[i % 3]>>>(values, 1);
    std::printf("launched %d thousand\n", thousands);
    std::fflush(stdout);
  }
}

// A module is loaded, used and unloaded in one stream. Nothing waits for what else is in flight;
// `before` is called before it is unloaded.
void LoadAndUnload(cudaStream_t stream, uint32_t* values, uint32_t round,
                   const std::function<void()>& before = [] {}) {
  static const auto load = DriverCall<decltype(&cuModuleLoadData)>("cuModuleLoadData", 12000);
  static const auto get = DriverCall<decltype(&cuModuleGetFunction)>("cuModuleGetFunction", 12000);
  static const auto unload = DriverCall<decltype(&cuModuleUnload)>("cuModuleUnload", 12000);
  static const auto launch = DriverCall<decltype(&cuLaunchKernel)>("cuLaunchKernel", 12000);
  CUmodule module = nullptr;
  CUfunction turn = nullptr;
  CheckDriver(load(&module, narrow_loaded_fatbin), "cuModuleLoadData");
  CheckDriver(get(&turn, module, "Turn"), "cuModuleGetFunction");
  for (uint32_t i = 0; i < 40; ++i) {
    uint32_t step = round + i;
    void* arguments[] = {&values, &step};
    CheckDriver(launch(turn, 1, 1, 1, kThreads, 1, 1, 0, stream, arguments, nullptr),
                "cuLaunchKernel");
  }
  CHECK(cudaStreamSynchronize(stream));
  before();
  CheckDriver(unload(module), "cuModuleUnload");
}

// First by the thread whose launches are in flight, then by another one.
void Modules() {
  constexpr uint32_t kRounds = 6;
  Streams streams(2);
  uint32_t *values = Zeroed(), *turned = Zeroed();
  for (uint32_t round = 0; round < kRounds; ++round) {
    LaunchMany(streams.all[0], values);
    LoadAndUnload(streams.all[1], turned, round);
  }
  std::atomic<bool> over{false};
  uint32_t many = 0;
  std::thread other([&] {
    for (; !over.load() || many < kRounds; ++many) {
      LaunchMany(streams.all[0], values);
      KeepUp(streams.all[0], many * kLaunches);
    }
  });
  for (uint32_t round = 0; round < kRounds; ++round) LoadAndUnload(streams.all[1], turned, round);
  over.store(true);
  other.join();
  uint32_t of_many = 0, found = 0;
  for (int i = 0; i < kLaunches; ++i) of_many += i % 7;
  CHECK(cudaMemcpy(&found, values, sizeof found, cudaMemcpyDeviceToHost));
  std::printf("in flight: %s\n", found == (kRounds + many) * of_many ? "right" : "wrong");
  Print("of the module", turned);
}

// A module is unloaded while another thread copies, which has nothing to do with it.
void Unload() {
  constexpr uint32_t kRounds = 4;
  Streams streams(2);
  uint32_t *values = Zeroed(), *copied = Zeroed(), *from = nullptr;
  CHECK(cudaMallocHost(&from, kThreads * sizeof(uint32_t)));
  std::atomic<uint32_t> begun{0}, wanted{0};
  std::thread other([&] {
    for (uint32_t round = 1; round <= kRounds; ++round) {
      while (wanted.load() != round) std::this_thread::yield();
      for (int i = 0; i < kThreads; ++i) from[i] = round * 100 + i;
      begun.store(round);
      CHECK(cudaMemcpyAsync(copied, from, kThreads * sizeof(uint32_t), cudaMemcpyHostToDevice,
                            streams.all[1]));
      CHECK(cudaStreamSynchronize(streams.all[1]));
    }
  });
  for (uint32_t round = 1; round <= kRounds; ++round) {
    LoadAndUnload(streams.all[0], values, round, [&] {
      wanted.store(round);
      while (begun.load() != round) std::this_thread::yield();
      // Mostly in the middle of it then, where the driver is late.
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    });
  }
  other.join();
  CHECK(cudaFreeHost(from));
  Print("of the module", values);
  Print("copied", copied);
}

// Memory comes and goes while another thread launches without a pause.
void Memory() {
  constexpr uint32_t kRounds = 25, kBetween = 400;
  Streams streams(2);
  uint32_t *total = Zeroed(), *copied = nullptr;
  CHECK(cudaMallocHost(&copied, kThreads * sizeof(uint32_t)));
  // Both streams begin with tasks, however slow the machine: what is asked now and then only may find
  // a stream with other work each time.
  for (const cudaStream_t stream : streams.all) {
    LaunchMany(stream, Zeroed());
    CHECK(cudaStreamSynchronize(stream));
  }
  std::atomic<bool> over{false};
  std::atomic<uint32_t> launched{0};
  uint32_t wrong = 0;
  std::thread other([&] {
    for (; !over.load(); ++launched) {
      Count<<<1, 32, 0, streams.all[0]>>>(total);
      KeepUp(streams.all[0], launched.load());
    }
  });
  for (uint32_t round = 0; round < kRounds; ++round) {
    while (launched.load() < round * kBetween) std::this_thread::yield();
    uint32_t* values = nullptr;
    CHECK(cudaMalloc(&values, (1 + round % 5) * 4096));
    CHECK(cudaMemsetAsync(values, 0, kThreads * sizeof(uint32_t), streams.all[1]));
    for (uint32_t i = 0; i < 10; ++i) {
      Add<<<1, kThreads, 0, streams.all[1]>>>(values, round + i);
    }
    CHECK(cudaMemcpyAsync(copied, values, kThreads * sizeof(uint32_t), cudaMemcpyDeviceToHost,
                          streams.all[1]));
    // Sometimes what was launched is in flight when its memory goes: cudaFree waits for it.
    if (round % 2 == 0) CHECK(cudaStreamSynchronize(streams.all[1]));
    CHECK(cudaFree(values));
    CHECK(cudaStreamSynchronize(streams.all[1]));
    for (int i = 0; i < kThreads; ++i) wrong += copied[i] != 10 * round + 45;
  }
  over.store(true);
  other.join();
  uint32_t counted = 0;
  CHECK(cudaMemcpy(&counted, total, sizeof counted, cudaMemcpyDeviceToHost));
  CHECK(cudaFreeHost(copied));
  std::printf("wrong %u, counted %s\n", wrong, counted == launched.load() ? "all" : "others");
}

// The host waits for a launch that takes long, and no less; other streams go on meanwhile.
void WaitLong(const std::string& how) {
  const char* const text = std::getenv("LONG_MS");
  const uint64_t ms = text != nullptr ? std::strtoull(text, nullptr, 10) : 2000;
  Streams streams(2, how == "apart" ? cudaStreamNonBlocking : cudaStreamDefault);
  uint32_t *values = Zeroed(), *ended = Zeroed(), *behind = Zeroed();
  LaunchMany(streams.all[0], values);
  CHECK(cudaStreamSynchronize(streams.all[0]));
  const auto start = std::chrono::steady_clock::now();
  Long<<<1, 32, 0, streams.all[1]>>>(ended, ms * 1'000'000);
  LaunchMany(streams.all[0], values, kLaunches / 10);
  CHECK(cudaStreamSynchronize(streams.all[0]));
  if (how == "ask" || how == "default") {
    CHECK(AskAbout(how == "ask" ? streams.all[1] : 0));
  } else if (how == "apart") {
    // The default stream has nothing to do with it.
    std::printf("meanwhile %s\n", cudaGetErrorName(cudaStreamQuery(0)));
    CHECK(cudaStreamSynchronize(streams.all[1]));
  } else if (how == "device") {
    CHECK(cudaDeviceSynchronize());
  } else if (how == "event") {
    cudaEvent_t event;
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CHECK(cudaEventRecord(event, streams.all[1]));
    CHECK(cudaEventSynchronize(event));
    CHECK(cudaEventDestroy(event));
  } else {
    if (how == "full") LaunchMany(streams.all[1], behind);
    CHECK(cudaStreamSynchronize(streams.all[1]));
  }
  const auto took = std::chrono::steady_clock::now() - start;
  std::printf("%s\n", took >= std::chrono::milliseconds(ms) ? "waited" : "did not wait");
  Print("long", ended);
  Print("beside it", values);
  Print("behind it", behind);
}

void Nap(void*) { std::this_thread::sleep_for(std::chrono::milliseconds(300)); }

// A wide launch, the first of its kernel, a later one and one that other work of its stream comes
// before, beside a thread whose narrow launches never run dry: it is not held up by them for long.
void Wide() {
  constexpr uint32_t kAhead = 25, kBlocks = 64, kMost = 400;
  constexpr uint64_t kEachNs = 3'000'000;
  constexpr int kTimes = 3;
  Streams streams(kTimes + 1, cudaStreamNonBlocking);
  cudaStream_t const wide = streams.all[kTimes];
  uint32_t *total = Zeroed(), *ended = Zeroed(), *told = nullptr;
  CHECK(cudaMallocHost(&told, sizeof *told));
  volatile uint32_t& seen = *told;
  for (int time = 0; time < kTimes; ++time) {
    seen = 0;
    std::atomic<bool> over{false};
    std::thread other([&] {
      for (uint32_t step = 1; !over.load(); ++step) {
        Long<<<1, 1, 0, streams.all[time]>>>(ended, kEachNs);
        Tell<<<1, 1, 0, streams.all[time]>>>(told, step);
        while (step - seen > kAhead) std::this_thread::yield();
      }
    });
    while (seen < kAhead) std::this_thread::yield();
    if (time == kTimes - 1) CHECK(cudaLaunchHostFunc(wide, Nap, nullptr));
    Many<<<kBlocks, kThreads, 0, wide>>>(total);
    const uint32_t before = seen;
    cudaError_t state;
    do {
      state = cudaStreamQuery(wide);
    } while (state == cudaErrorNotReady && seen - before < kMost);
    std::printf("wide: %s\n", cudaGetErrorName(state));
    over.store(true);
    other.join();
    CHECK(cudaDeviceSynchronize());
  }
  CHECK(cudaFreeHost(told));
  Print("total", total);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const std::map<std::string, void (*)()> others = {
      {"reset", Reset}, {"capture", Capture}, {"threads", Threads}, {"legacy", Legacy},
      {"fork", Fork}, {"killed", UntilKilled}, {"modules", Modules}, {"memory", Memory},
      {"unload", Unload}, {"wide", Wide}};
  if (const auto found = others.find(what); found != others.end()) {
    found->second();
  } else if (what == "trap" || what == "lurk") {
    Trap(what == "lurk", argc > 2 ? argv[2] : "");
  } else if (what == "exit") {
    Streams streams(2);
    LaunchMany(streams.all[0], Zeroed());
    std::printf("leaves\n");
    std::exit(3);
  } else if (what == "long") {
    WaitLong(argc > 2 ? argv[2] : "wait");
  } else {
    std::printf(
        "narrow_faults trap|exit|reset|capture|threads|legacy|lurk|fork|killed|modules|"
        "memory|wide|unload|long\n");
    return 2;
  }
  return 0;
}
