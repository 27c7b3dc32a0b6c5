// A program of the runtime API as any user would write it; the test that runs it stops and resumes
// its kernels from outside. preempt_app SCENARIO STREAM [CALL]: prints "kernel launched" once there
// is something to stop, "done" after what it does then, and the checksum of its results.
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "tests/preempt/app_parts.h"

namespace {

// Kernels, copies and events in one stream, and one that waits for an event on another.
int Order(cudaStream_t stream) {
  const Arrays arrays;
  cudaStream_t second;
  cudaEvent_t event;
  std::vector<uint32_t> seen(kBlocks);
  CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  arrays.Launch(1, stream);
  CHECK(cudaMemcpyAsync(arrays.other, arrays.value, 4 * kBlocks, cudaMemcpyDeviceToDevice, stream));
  Say("kernel launched");
  arrays.Launch(2, stream);
  CHECK(cudaEventRecord(event, stream));
  CHECK(cudaStreamWaitEvent(second, event));
  arrays.Launch(3, second);
  CHECK(cudaStreamSynchronize(second));
  Say("done");
  CHECK(cudaMemcpy(seen.data(), arrays.other, 4 * kBlocks, cudaMemcpyDeviceToHost));
  for (const uint32_t value : seen) {
    if (value != 1) return std::printf("the copy came too early: %u\n", value), 1;
  }
  return arrays.Check(3);
}

// The same launch a hundred times without a wait.
int InARow(cudaStream_t stream) {
  const Arrays arrays;
  constexpr uint32_t kTimes = 100;
  for (uint32_t i = 1; i <= kTimes; ++i) arrays.Launch(i, stream);
  CHECK(cudaStreamSynchronize(stream));
  return arrays.Check(kTimes);
}

void Copy(void* to, const void* from, cudaMemcpyKind kind) {
  CHECK(cudaMemcpy(to, from, 4096, kind));
}

void CopyAsync(void* to, const void* from, cudaStream_t stream) {
  CHECK(cudaMemcpyAsync(to, from, 4096, cudaMemcpyDeviceToHost, stream));
}

// One call while a kernel is stopped.
int Call(cudaStream_t stream, const std::string& name) {
  const Arrays arrays;
  void *device, *pinned, *registered = std::aligned_alloc(4096, 65536);
  std::vector<uint32_t> pageable(1 << 16);
  cudaEvent_t event;
  cudaStream_t idle;
  CHECK(cudaMalloc(&device, 1 << 20));
  CHECK(cudaMallocHost(&pinned, 65536));
  CHECK(cudaHostRegister(registered, 65536, 0));
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  CHECK(cudaStreamCreateWithFlags(&idle, cudaStreamNonBlocking));
  const std::map<std::string, std::function<void()>> calls = {
      {"free", [&] { CHECK(cudaFree(device)); }},
      {"free-host", [&] { CHECK(cudaFreeHost(pinned)); }},
      {"unregister", [&] { CHECK(cudaHostUnregister(registered)); }},
      {"copy-to-host", [&] { Copy(pageable.data(), arrays.other, cudaMemcpyDeviceToHost); }},
      {"copy-to-device", [&] { Copy(arrays.other, pageable.data(), cudaMemcpyHostToDevice); }},
      {"copy-to-symbol", [&] { CHECK(cudaMemcpyToSymbol(all_values, pageable.data(), 4)); }},
      {"copy-async", [&] { CopyAsync(pageable.data(), arrays.other, stream); }},
      {"copy-async-pinned", [&] { CopyAsync(pinned, arrays.other, stream); }},
      {"set-limit", [&] { CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 8192)); }},
      {"first-launch", [&] {
         FirstLaunched<<<1, 32, 0, idle>>>(arrays.other);
         CHECK(cudaGetLastError());
       }},
      {"stream-destroy", [&] { CHECK(cudaStreamDestroy(idle)); }},
      {"event-destroy", [&] {
         CHECK(cudaEventRecord(event, stream));
         CHECK(cudaEventDestroy(event));
       }},
      {"event-wait", [&] {
         CHECK(cudaEventRecord(event, stream));
         CHECK(cudaEventSynchronize(event));
       }},
      {"stream-wait", [&] { CHECK(cudaStreamSynchronize(stream)); }},
      {"device-wait", [&] { CHECK(cudaDeviceSynchronize()); }},
      {"many-streams", [&] {
         for (int i = 0; i < 40; ++i) {
           cudaStream_t one;
           CHECK(cudaStreamCreate(&one));
           Plain<<<1, 32, 0, one>>>(arrays.other);
           CHECK(cudaGetLastError());
         }
       }},
      {"many-launches", [&] {
         for (int i = 0; i < 1100; ++i) Plain<<<1, 32, 0, stream>>>(arrays.other);
         CHECK(cudaGetLastError());
       }},
  };
  Plain<<<1, 32, 0, stream>>>(arrays.other);
  CHECK(cudaDeviceSynchronize());
  arrays.Launch(1, stream);
  Say("kernel launched");
  calls.at(name)();
  Say("done");
  if (name != "stream-destroy" || stream != idle) arrays.Launch(2, stream);
  CHECK(cudaDeviceSynchronize());
  return arrays.Check(2);
}

// A capture on one thread while the other's kernel is preempted and resumed.
int Capture(cudaStream_t stream) {
  const Arrays arrays;
  cudaStream_t captured;
  CHECK(cudaStreamCreateWithFlags(&captured, cudaStreamNonBlocking));
  Plain<<<1, 32, 0, captured>>>(arrays.other);
  CHECK(cudaStreamSynchronize(captured));
  arrays.Launch(1, stream);  // nothing is prepared while a capture is open
  CHECK(cudaDeviceSynchronize());
  SayAndWait("ready");
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  std::atomic<int> step{0};
  std::thread capturing([&] {
    while (step != 1) std::this_thread::yield();
    CHECK(cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal));
    step = 2;
    for (int i = 0; i < 50; ++i) Plain<<<1, 32, 0, captured>>>(arrays.other);
    while (step != 3) std::this_thread::yield();
    CHECK(cudaStreamEndCapture(captured, &graph));
  });
  step = 1;
  while (step != 2) std::this_thread::yield();
  arrays.Launch(2, stream);
  Say("kernel launched");
  arrays.Launch(3, stream);
  CHECK(cudaStreamSynchronize(stream));
  step = 3;
  capturing.join();
  Say("done");
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaDeviceSynchronize());
  const uint32_t count = FirstOf(arrays.other);
  if (count != 51 * 32) return std::printf("the graph counted %u\n", count), 1;
  return arrays.Check(3);
}

// Calls that wait for what runs, with pauses between.
void FreeUntil(const std::atomic<bool>& over, useconds_t pause_us) {
  while (!over) {
    void* memory;
    CHECK(cudaMalloc(&memory, 1 << 16));
    CHECK(cudaFree(memory));
    usleep(pause_us);
  }
}

// Threads that launch on streams of their own while others free and allocate.
int Threads() {
  constexpr int kLaunchers = 3, kLaunches = 12;
  std::vector<std::thread> threads;
  std::vector<int> failures(kLaunchers);
  std::atomic<bool> over{false};
  for (int t = 0; t < kLaunchers; ++t) {
    threads.emplace_back([&, t] {
      const cudaStream_t stream = MakeStream(t == 0 ? "blocking" : "non-blocking");
      const Arrays arrays;
      for (uint32_t tag = 1; tag <= kLaunches; ++tag) {
        arrays.Launch(tag, stream, 100);
        if (tag == 1 && t == 0) Say("kernel launched");
        if (tag % 4 == 0) CHECK(cudaStreamSynchronize(stream));
      }
      CHECK(cudaStreamSynchronize(stream));
      failures[t] = arrays.Check(kLaunches);
    });
  }
  // Most launches are to find no such call under way.
  std::thread freeing([&] { FreeUntil(over, 1000); });
  for (auto& thread : threads) thread.join();
  over = true;
  freeing.join();
  Say("done");
  for (const int failure : failures) {
    if (failure != 0) return 1;
  }
  return 0;
}

// One thread launches small kernels one by one, another frees memory: the two meet often.
int Race(cudaStream_t stream) {
  constexpr int kLaunches = 150;
  const Arrays arrays;
  std::atomic<bool> over{false};
  std::thread freeing([&] { FreeUntil(over, 200); });  // a scope is open half of the time
  Say("kernel launched");
  for (int i = 0; i < kLaunches; ++i) {
    Fold<<<8, kThreads, 0, stream>>>(arrays.runs, arrays.value, 1, 10);
    CHECK(cudaStreamSynchronize(stream));
  }
  over = true;
  freeing.join();
  Say("done");
  return FirstOf(arrays.runs) == kLaunches ? 0 : 1;
}

int Reset(cudaStream_t stream) {
  const Arrays arrays;
  uint32_t* mapped;
  CHECK(cudaHostAlloc(&mapped, 8 * kBlocks, cudaHostAllocPortable | cudaHostAllocMapped));
  arrays.Launch(1, stream);
  Say("kernel launched");
  CHECK(cudaDeviceReset());
  Say("done");
  const Arrays again;
  again.Launch(1, nullptr);
  again.Launch(2, nullptr);
  CHECK(cudaDeviceSynchronize());
  return again.Check(2);
}

// A kernel that faults: the errors that follow are the driver's own.
int Fault(cudaStream_t stream) {
  void* memory;
  CHECK(cudaMalloc(&memory, 64));
  Fold<<<kBlocks, kThreads, 0, stream>>>(nullptr, nullptr, 1, 10);
  std::printf("launch: %s\n", cudaGetErrorName(cudaGetLastError()));
  std::printf("free: %s\n", cudaGetErrorName(cudaFree(memory)));
  std::printf("wait: %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
  Fold<<<kBlocks, kThreads, 0, stream>>>(nullptr, nullptr, 1, 10);
  std::printf("next: %s\n", cudaGetErrorName(cudaGetLastError()));
  return 0;
}

int Global(cudaStream_t stream) {
  FoldGlobal<<<kBlocks, kThreads, 0, stream>>>();
  CHECK(cudaGetLastError());
  Say("kernel launched");
  CHECK(cudaDeviceSynchronize());
  Say("done");
  std::vector<uint32_t> values(2 * kBlocks);
  CHECK(cudaMemcpyFromSymbol(values.data(), all_values, 8 * kBlocks));
  for (const uint32_t value : values) {
    if (value != 1) return std::printf("a value is %u\n", value), 1;
  }
  std::printf("all values are 1\n");
  return 0;
}

// Kernels without a variant, more than one gate's worth.
int Gated(cudaStream_t stream) {
  const Arrays arrays;
  Plain<<<1, 32, 0, stream>>>(arrays.other);
  CHECK(cudaDeviceSynchronize());
  SayAndWait("ready");
  for (int i = 0; i < 20; ++i) Plain<<<1, 32, 0, stream>>>(arrays.other);
  CHECK(cudaGetLastError());
  Say("kernel launched");
  CHECK(cudaStreamSynchronize(stream));
  Say("done");
  return FirstOf(arrays.other) == 21 * 32 ? 0 : 1;
}

// Kernels without a variant, each long, each waited for.
int LongGated(cudaStream_t stream) {
  constexpr int kLongBlocks = 4000;
  uint32_t count = 0;
  {
    const Arrays arrays;
    for (int i = 0; i < 20; ++i) {
      Plain<<<kLongBlocks, 32, 0, stream>>>(arrays.other);
      CHECK(cudaStreamSynchronize(stream));
    }
    count = FirstOf(arrays.other);
  }
  CHECK(cudaDeviceReset());  // its context has ended when the process does
  return count == 20 * kLongBlocks * 32 ? 0 : 1;
}

// A grid that meets, as large as the simulated GPU.
int MeetOnce(cudaStream_t stream) {
  constexpr int kResident = 32;
  const Arrays arrays;
  Meet<<<kResident, kThreads, 0, stream>>>(arrays.other);
  CHECK(cudaStreamSynchronize(stream));
  return FirstOf(arrays.other) == kResident ? 0 : 1;
}

// The same small launch again and again, for a second.
int Repeat(cudaStream_t stream) {
  const Arrays arrays;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (std::chrono::steady_clock::now() < end) {
    Fold<<<64, kThreads, 0, stream>>>(arrays.runs, arrays.value, 1, 10);
    CHECK(cudaStreamSynchronize(stream));
  }
  return 0;
}

// Two shapes of a kernel, each twice.
int Shapes(cudaStream_t stream) {
  const Arrays arrays;
  for (const int blocks : {kBlocks, kBlocks / 2}) {
    for (int i = 0; i < 2; ++i) {
      Fold<<<blocks, kThreads, 0, stream>>>(arrays.runs, arrays.value, 1, 10);
      CHECK(cudaStreamSynchronize(stream));
    }
  }
  return FirstOf(arrays.runs) == 4 ? 0 : 1;
}

// Prints how many blocks SM 0, 1, ... ran.
int CheckWhere(const Arrays& arrays, cudaStream_t stream) {
  CHECK(cudaStreamSynchronize(stream));
  std::vector<uint32_t> where(kBlocks), counts(64);
  CHECK(cudaMemcpy(where.data(), arrays.other, 4 * kBlocks, cudaMemcpyDeviceToHost));
  for (const uint32_t sm : where) ++counts.at(sm);
  std::printf("SMs: %u %u %u %u\n", counts[0], counts[1], counts[2], counts[3]);
  return arrays.Check(2);
}

// A kernel whose blocks note their SM; prints how many blocks SM 0, 1, ... ran.
int RunWhere(cudaStream_t stream) {
  const Arrays arrays;
  Where<<<kBlocks, kThreads, 0, stream>>>(arrays.runs, arrays.value, 1, 1, arrays.other);
  CHECK(cudaStreamSynchronize(stream));
  SayAndWait("ready");
  Where<<<kBlocks, kThreads, 0, stream>>>(arrays.runs, arrays.value, 2, 6 * kRounds, arrays.other);
  CHECK(cudaGetLastError());
  Say("kernel launched");
  return CheckWhere(arrays, stream);
}

// The same, paced by commands. "open MASK": where blocks run to their end; the first launches.
// "begun N", "held N": says "reached" when at least so many blocks began, or hold their SMs, and
// "ended" when they never will. "end 0". Of blocks with kFillsAnSm bytes an SM has room for one.
constexpr int kFillsAnSm = 160 << 10;
int RunPaced(cudaStream_t stream, int shared) {
  const Arrays arrays;
  CHECK(cudaFuncSetAttribute(Paced, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  void* memory;
  CHECK(cudaMallocHost(&memory, sizeof(Pace)));
  const auto pace = static_cast<volatile Pace*>(memory);
  char command[16] = "open";
  unsigned number = ~0u, reached = 0, tag = 0;
  do {
    if (std::strcmp(command, "open") == 0) {
      pace->open = number;
      if (tag == 2) continue;
      pace->begun = pace->ended = 0;
      Paced<<<kBlocks, kThreads, shared, stream>>>(arrays.runs, arrays.value, ++tag, arrays.other,
                                                   static_cast<Pace*>(memory));
      CHECK(cudaGetLastError());
      if (tag == 1) CHECK(cudaStreamSynchronize(stream));
      Say(tag == 1 ? "ready" : "kernel launched");
      continue;
    }
    const bool held = std::strcmp(command, "held") == 0;
    int count;
    do {
      const uint32_t begun = pace->begun;  // before `ended`: better too few
      count = static_cast<int>(held ? begun - pace->ended : begun);
    } while (count < static_cast<int>(number) && pace->ended != kBlocks && usleep(100) == 0);
    const bool is_so = count >= static_cast<int>(number);
    Say(is_so ? ("reached " + std::to_string(++reached)).c_str() : "ended");
  } while (std::scanf("%15s %u", command, &number) == 2 && std::strcmp(command, "end") != 0);
  pace->open = ~0u;
  return CheckWhere(arrays, stream);
}

// A kernel whose blocks, all under way, run until they are told to end, and one behind it.
int Behind(cudaStream_t stream) {
  const Arrays arrays;
  void* memory;
  CHECK(cudaMallocHost(&memory, sizeof(Pace)));
  const auto pace = static_cast<volatile Pace*>(memory);
  const auto launch_paced = [&](uint32_t tag) {
    Paced<<<4, kThreads, 0, stream>>>(arrays.runs, arrays.value, tag, arrays.other,
                                      static_cast<Pace*>(memory));
    CHECK(cudaGetLastError());
  };
  pace->open = ~0u;
  launch_paced(1);
  arrays.Launch(1, stream);
  CHECK(cudaStreamSynchronize(stream));
  pace->open = pace->begun = 0;
  launch_paced(2);
  while (pace->begun < 4) usleep(100);
  SayAndWait("kernel launched");
  arrays.Launch(2, stream);
  SayAndWait("second launched");
  pace->open = ~0u;
  Say("first ends");
  CHECK(cudaStreamSynchronize(stream));
  return FirstOf(arrays.runs) == 4 ? 0 : 1;
}

// A kernel of few blocks that runs until it is told to end.
int Hold(cudaStream_t stream) {
  uint32_t *flag, *value, sum = 0;
  uint32_t counts[8];
  CHECK(cudaMallocHost(&flag, 4));
  CHECK(cudaMalloc(&value, sizeof(counts)));
  CHECK(cudaMemset(value, 0, sizeof(counts)));
  CHECK(cudaDeviceSynchronize());
  *flag = 1;
  Holding<<<8, kThreads, 0, stream>>>(flag, value);
  CHECK(cudaStreamSynchronize(stream));
  SayAndWait("ready");
  *flag = 0;
  Holding<<<8, kThreads, 0, stream>>>(flag, value);
  CHECK(cudaGetLastError());
  SayAndWait("kernel launched");
  *static_cast<volatile uint32_t*>(flag) = 1;
  CHECK(cudaStreamSynchronize(stream));
  Say("done");
  CHECK(cudaMemcpy(counts, value, sizeof(counts), cudaMemcpyDeviceToHost));
  for (const uint32_t count : counts) sum += count;
  return sum == 16 ? 0 : 1;
}

// Launches of one block, one after the other.
int Small(cudaStream_t stream) {
  const Arrays arrays;
  arrays.Launch(1, stream);
  CHECK(cudaStreamSynchronize(stream));
  SayAndWait("ready");
  for (int i = 0; i < 60; ++i) {
    Fold<<<1, kThreads, 0, stream>>>(arrays.runs, arrays.value, 2, 10);
    CHECK(cudaStreamSynchronize(stream));
  }
  return FirstOf(arrays.runs) == 61 ? 0 : 1;
}

int Leave(cudaStream_t stream, const std::string& how) {
  const Arrays arrays;
  arrays.Launch(1, stream);
  Say("kernel launched");
  if (how == "fork") {
    const pid_t child = fork();
    if (child == 0) _exit(7);
    int status = 0;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 7) return 1;
    Say("done");
    CHECK(cudaDeviceSynchronize());
    return arrays.Check(1);
  }
  Say("done");
  if (how == "exit") std::exit(3);
  if (how == "_exit") _exit(3);
  pause();
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string scenario = argc > 1 ? argv[1] : "order";
  const std::string what = argc > 3 ? argv[3] : "";
  const cudaStream_t stream = MakeStream(argc > 2 ? argv[2] : "legacy");
  static const std::map<std::string, int (*)(cudaStream_t)> scenarios{
      {"order", Order}, {"in-a-row", InARow}, {"capture", Capture}, {"fault", Fault}, {"race", Race}, {"reset", Reset},
      {"global", Global}, {"gated", Gated}, {"long-gated", LongGated}, {"meet", MeetOnce},
      {"repeat", Repeat}, {"shapes", Shapes}, {"where", RunWhere}, {"small", Small},
      {"hold", Hold}, {"behind", Behind}};
  if (const auto found = scenarios.find(scenario); found != scenarios.end()) {
    return found->second(stream);
  }
  if (scenario == "call") return Call(stream, what);
  if (scenario == "threads") return Threads();
  if (scenario == "paced") return RunPaced(stream, what == "alone" ? kFillsAnSm : 0);
  if (scenario == "leave") return Leave(stream, what);
  return 2;
}
