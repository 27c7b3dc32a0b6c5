// Programs whose work says in which order it ran; the test stops and resumes their kernels
// meanwhile. order_app random SEED: launches, copies, events, waits and synchronising calls by seed
// on four streams, two of them non-blocking, one blocking, the legacy one. Each launch and copy
// stamps itself with a clock on the device, and what happens before what by the rules of CUDA is
// checked against that. order_app many STREAM: twice more launches behind each other than there are
// control slots. order_app fork STREAM: the same, in a child of a process that has called nothing
// of CUDA, and then in that. order_app event|events|graph STREAM: a copy that the host waits for,
// behind a kernel of the stream through an event, through two, through the launches of a graph.
// order_app waits STREAM: a launch, after a line, while another thread frees memory. order_app
// joins STREAM: such events while another thread copies all the time. order_app between STREAM: a
// thread puts a launch and a copy on the stream while another is at a launch there. order_app
// gate plain|paced|STREAM: "ready", and after a line a copy that the host waits for behind a kernel
// of the legacy stream without a variant, and beside one with a variant: on STREAM, or before that.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "tests/preempt/app_parts.h"

extern "C" {

__global__ void Stamp(Stamps* stamps, uint32_t op, int rounds) {
  StampBlock({blockIdx, gridDim}, stamps, op, rounds);
}

// Has no variant.
__global__ void StampPlain(Stamps* stamps, uint32_t op, int rounds) {
  StampBlock({blockIdx, gridDim}, stamps, op, rounds);
}

}  // extern "C"

namespace {

// Of device memory: nothing has run.
Stamps* NewStamps() {
  Stamps* stamps;
  CHECK(cudaMalloc(&stamps, sizeof(Stamps)));
  CHECK(cudaMemset(stamps, 0, sizeof(Stamps)));
  CHECK(cudaMemset(stamps->begun, 0xFF, sizeof(stamps->begun)));
  CHECK(cudaDeviceSynchronize());
  return stamps;
}

enum Stream { kLegacy, kBlocking, kFirst, kSecond, kStreams };
constexpr uint32_t kEvents = 4;
using Ops = uint64_t;  // a bit each

// A burst of kStamped operations, and what of it happens before what.
class Burst {
 public:
  Burst(std::mt19937_64* random, const cudaStream_t* streams, const cudaEvent_t* events)
      : random_(*random), streams_(streams), events_(events) {}
  ~Burst() { CHECK(cudaFree(stamps_)); }

  // What it finds wrong it prints; whether that was nothing.
  bool Run() {
    while (count_ < kStamped) Step();
    CHECK(cudaDeviceSynchronize());
    Stamps seen;
    CHECK(cudaMemcpy(&seen, stamps_, sizeof(seen), cudaMemcpyDeviceToHost));
    bool good = true;
    for (uint32_t b = 0; b < kStamped; ++b) {
      if (seen.blocks[b] != blocks_[b]) {
        std::printf("operation %u ran %u of %u blocks\n", b, seen.blocks[b], blocks_[b]);
        good = false;
      }
      for (uint32_t a = 0; a < b; ++a) {
        if ((before_[b] >> a & 1) == 0 || End(seen, a) <= Begin(seen, b)) continue;
        std::printf("operation %u (%s) ended behind the begin of %u (%s)\n", a, NameOf(a), b,
                    NameOf(b));
        good = false;
      }
    }
    return good;
  }

 private:
  uint32_t Below(uint32_t limit) { return static_cast<uint32_t>(random_() % limit); }
  const char* NameOf(uint32_t op) const { return blocks_[op] != 0 ? "launch" : "copy"; }

  // Twice the clock: a copy takes place between two of its steps.
  uint64_t Begin(const Stamps& seen, uint32_t op) const {
    return blocks_[op] != 0 ? uint64_t{seen.begun[op]} * 2 + 1 : uint64_t{seen.copied[op]} * 2;
  }
  uint64_t End(const Stamps& seen, uint32_t op) const {
    return blocks_[op] != 0 ? uint64_t{seen.ended[op]} * 2 + 1 : uint64_t{seen.copied[op]} * 2;
  }

  // What is put into stream `s` now happens behind what lies there, behind what the host has waited
  // for, and, on the legacy stream and blocking ones, behind what either holds.
  uint32_t Put(uint32_t s, uint32_t blocks) {
    Ops before = in_stream_[s] | waited_;
    if (s == kLegacy) before |= put_[kBlocking];
    if (s == kBlocking) before |= put_[kLegacy];
    before_[count_] = before;
    blocks_[count_] = blocks;
    in_stream_[s] = put_[s] = before | Ops{1} << count_;
    return count_++;
  }

  void Step() {
    const uint32_t s = Below(kStreams), e = Below(kEvents), kind = Below(16);
    const cudaStream_t stream = streams_[s];
    if (kind < 8) {
      const uint32_t blocks = 1 + Below(150);
      const int rounds = static_cast<int>(Below(200));
      const uint32_t op = Put(s, blocks);
      if (kind < 6) Stamp<<<blocks, kThreads, 0, stream>>>(stamps_, op, rounds);
      if (kind >= 6) StampPlain<<<blocks, kThreads, 0, stream>>>(stamps_, op, rounds);
      CHECK(cudaGetLastError());
    } else if (kind < 10) {
      const uint32_t op = Put(s, 0);
      CHECK(cudaMemcpyAsync(&stamps_->copied[op], &stamps_->clock, 4, cudaMemcpyDeviceToDevice,
                            stream));
    } else if (kind < 12) {
      CHECK(cudaEventRecord(events_[e], stream));
      recorded_[e] = in_stream_[s] | waited_;
    } else if (kind < 15) {
      CHECK(cudaStreamWaitEvent(stream, events_[e]));
      in_stream_[s] |= recorded_[e];
    } else if (Below(2) == 0) {
      CHECK(cudaEventSynchronize(events_[e]));
      waited_ |= recorded_[e];
    } else {
      CHECK(cudaStreamSynchronize(stream));
      waited_ |= in_stream_[s];
    }
  }

  std::mt19937_64& random_;
  const cudaStream_t* streams_;
  const cudaEvent_t* events_;
  Stamps* const stamps_ = NewStamps();
  uint32_t count_ = 0;
  Ops before_[kStamped] = {};
  uint32_t blocks_[kStamped] = {};  // 0: a copy
  Ops in_stream_[kStreams] = {};    // what the next operation there is behind
  Ops put_[kStreams] = {};          // the last operation there, and what that is behind
  Ops recorded_[kEvents] = {};
  Ops waited_ = 0;
};

int Random(uint64_t seed) {
  constexpr int kBursts = 6;
  std::mt19937_64 random(seed);
  cudaStream_t streams[kStreams] = {MakeStream("legacy"), MakeStream("blocking"),
                                    MakeStream("non-blocking"), MakeStream("non-blocking")};
  cudaEvent_t events[kEvents];
  for (cudaEvent_t& event : events) CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  Say("ready");
  for (int burst = 0; burst < kBursts; ++burst) {
    if (Burst(&random, streams, events).Run()) continue;
    std::printf("seed %llu, burst %d\n", static_cast<unsigned long long>(seed), burst);
    return 1;
  }
  return 0;
}

int Many(cudaStream_t stream) {
  constexpr uint32_t kLaunches = 600, kFewBlocks = 64;
  const Arrays arrays;
  uint32_t expected = 0, tag = 0;
  for (int half = 0; half < 2; ++half) {
    for (uint32_t i = 0; i < kLaunches / 2; ++i) {
      expected = expected * 3 + ++tag;
      Fold<<<kFewBlocks, kThreads, 0, stream>>>(arrays.runs, arrays.value, tag, 10);
      CHECK(cudaGetLastError());
      if (tag == 1) Say("kernel launched");
    }
    CHECK(cudaStreamSynchronize(stream));
  }
  Say("done");
  std::vector<uint32_t> runs(kFewBlocks), values(kFewBlocks);
  CHECK(cudaMemcpy(runs.data(), arrays.runs, 4 * kFewBlocks, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(values.data(), arrays.value, 4 * kFewBlocks, cudaMemcpyDeviceToHost));
  for (uint32_t i = 0; i < kFewBlocks; ++i) {
    if (runs[i] == kLaunches && values[i] == expected) continue;
    std::printf("block %u ran %u times, value %u instead of %u\n", i, runs[i], values[i], expected);
    return 1;
  }
  return 0;
}

int Joined(cudaStream_t stream, const std::string& through) {
  const Arrays arrays;
  const cudaStream_t between = MakeStream("non-blocking"), blocking = MakeStream("blocking");
  cudaEvent_t first, second;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  std::vector<uint32_t> seen(kBlocks);
  CHECK(cudaEventCreateWithFlags(&first, cudaEventDisableTiming));
  CHECK(cudaEventCreateWithFlags(&second, cudaEventDisableTiming));
  CHECK(cudaGraphCreate(&graph, 0));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  arrays.Launch(1, stream);
  CHECK(cudaEventRecord(first, stream));
  if (through == "event") {
    CHECK(cudaStreamWaitEvent(cudaStreamLegacy, first));
  } else if (through == "events") {
    CHECK(cudaStreamWaitEvent(between, first));
    CHECK(cudaEventRecord(second, between));
    CHECK(cudaStreamWaitEvent(blocking, second));
  } else {  // one launch of a graph runs behind the other
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaGraphLaunch(exec, cudaStreamLegacy));
  }
  Say("kernel launched");
  CHECK(cudaMemcpy(seen.data(), arrays.value, 4 * kBlocks, cudaMemcpyDeviceToHost));
  Say("done");
  for (const uint32_t value : seen) {
    if (value != 1) return std::printf("the copy came too early: %u\n", value), 1;
  }
  CHECK(cudaDeviceSynchronize());
  return arrays.Check(1);
}

int Joins(cudaStream_t stream) {
  constexpr uint32_t kLaunches = 200;
  const Arrays arrays;
  cudaEvent_t event;
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  std::atomic<bool> over{false};
  std::thread copying([&] {
    while (!over) {
      (void)FirstOf(arrays.other);
      usleep(200);
    }
  });
  for (uint32_t i = 0; i < kLaunches; ++i) {
    Fold<<<8, kThreads, 0, stream>>>(arrays.runs, arrays.value, 1, 10);
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(event, stream));
    CHECK(cudaStreamWaitEvent(cudaStreamLegacy, event));
  }
  over = true;
  copying.join();
  CHECK(cudaStreamSynchronize(stream));
  return FirstOf(arrays.runs) == kLaunches ? 0 : 1;
}

// What threads put on one stream at the same time has no order, but none of it runs amid another.
int Between(cudaStream_t stream) {
  constexpr uint32_t kTimes = 6, kEach = 3;  // a launch, and the other thread's launch and copy
  Stamps *const stamps = NewStamps(), seen;
  Stamp<<<1, kThreads, 0, stream>>>(stamps, kStamped - 1, 1);
  StampPlain<<<1, kThreads, 0, stream>>>(stamps, kStamped - 1, 1);
  CHECK(cudaDeviceSynchronize());
  for (uint32_t op = 0; op < kTimes * kEach; op += kEach) {
    std::thread second([&] {
      usleep(5000);
      StampPlain<<<1, kThreads, 0, stream>>>(stamps, op + 1, 1);
      CHECK(cudaGetLastError());
      CHECK(cudaMemcpyAsync(&stamps->copied[op + 2], &stamps->clock, 4, cudaMemcpyDeviceToDevice,
                            stream));
    });
    Stamp<<<kBlocks, kThreads, 0, stream>>>(stamps, op, kRounds);
    CHECK(cudaGetLastError());
    second.join();
    CHECK(cudaStreamSynchronize(stream));
  }
  CHECK(cudaMemcpy(&seen, stamps, sizeof(seen), cudaMemcpyDeviceToHost));
  for (uint32_t op = 0; op < kTimes * kEach; op += kEach) {
    const uint32_t begun = seen.begun[op], ended = seen.ended[op];
    const bool launch_amid = begun < seen.begun[op + 1] && seen.begun[op + 1] < ended;
    const bool copy_amid = begun < seen.copied[op + 2] && seen.copied[op + 2] <= ended;
    if (seen.blocks[op] == kBlocks && !launch_amid && !copy_amid) continue;
    std::printf("a %s ran amid a launch of %u blocks\n", launch_amid ? "launch" : "copy",
                seen.blocks[op]);
    return 1;
  }
  return 0;
}

int LaunchWhileAnotherWaits(cudaStream_t stream) {
  const Arrays arrays;
  void* memory;
  CHECK(cudaMalloc(&memory, 64));
  arrays.Launch(1, stream);
  std::thread freeing([&] { CHECK(cudaFree(memory)); });
  SayAndWait("kernel launched");
  arrays.Launch(2, stream);
  Say("second launched");
  freeing.join();
  CHECK(cudaStreamSynchronize(stream));
  return arrays.Check(2);
}

// "paced": blocks of the kernel beside hold their SMs until the copy is likely to be in the driver.
int CopyAtGate(const std::string& beside) {
  constexpr int kPaced = 100;
  const Arrays arrays;
  const bool is_paced = beside == "paced", is_alone = beside == "plain";
  const cudaStream_t stream = MakeStream(is_paced ? "non-blocking" : beside);
  Stamps *const stamps = NewStamps(), seen;
  void* memory;
  CHECK(cudaMallocHost(&memory, sizeof(Pace)));
  const auto pace = static_cast<volatile Pace*>(memory);
  const auto launch_beside = [&](uint32_t tag) {
    if (!is_paced && !is_alone) arrays.Launch(tag, stream);
    if (!is_paced) return;
    Paced<<<kPaced, kThreads, 0, stream>>>(arrays.runs, arrays.value, tag, arrays.other,
                                           static_cast<Pace*>(memory));
    CHECK(cudaGetLastError());
  };
  pace->open = ~0u;
  StampPlain<<<1, kThreads>>>(stamps, 0, 1);
  launch_beside(1);
  CHECK(cudaDeviceSynchronize());
  pace->open = pace->begun = 0;
  if (is_paced) launch_beside(2);
  while (is_paced && pace->begun == 0) usleep(100);
  SayAndWait("ready");
  if (!is_paced) launch_beside(2);
  StampPlain<<<1, kThreads>>>(stamps, 1, 1);
  CHECK(cudaGetLastError());
  std::thread opening([&] {
    usleep(20'000);
    pace->open = ~0u;
  });
  Say("kernel launched");
  CHECK(cudaMemcpy(&seen, stamps, sizeof(seen), cudaMemcpyDeviceToHost));
  Say("done");
  opening.join();
  CHECK(cudaDeviceSynchronize());
  const bool has_all = is_alone || is_paced || arrays.Check(2) == 0;
  return seen.blocks[1] == 1 && has_all ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string scenario = argv[1];
  if (scenario == "event" || scenario == "events" || scenario == "graph") {
    return Joined(MakeStream(argv[2]), scenario);
  }
  if (scenario == "waits") return LaunchWhileAnotherWaits(MakeStream(argv[2]));
  if (scenario == "between") return Between(MakeStream(argv[2]));
  if (scenario == "gate") return CopyAtGate(argv[2]);
  if (scenario == "joins") return Joins(MakeStream(argv[2]));
  if (scenario == "fork") {
    const pid_t child = fork();
    if (child == 0) return Many(MakeStream(argv[2]));
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) return 3;
  }
  return scenario == "random" ? Random(std::strtoull(argv[2], nullptr, 10))
                              : Many(MakeStream(argv[2]));
}
