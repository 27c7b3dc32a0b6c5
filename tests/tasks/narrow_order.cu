// A program that knows nothing of tasks: what a stream does behind its narrow launches, and they
// behind it, other than kernels and copies of plain memory: host functions, waits for words,
// copies of boxes, graphs, prefetches, events that are only asked, a stream's own memory. Each
// result is compared with what CUDA's order says. Plain CUDA.
//
//   narrow_order [rounds]
//
// Prints "ok" and returns 0, or says what was wrong and returns 1.
#include <cuda.h>
#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "tests/apps/support/check_runtime.h"
#include "tests/apps/support/driver_call.h"

namespace {

constexpr int kThreads = 96, kBurst = 70, kRows = 4, kPitch = 512;
constexpr size_t kBytes = kThreads * sizeof(uint32_t);

__global__ void Step(uint32_t* values, uint32_t step) {
  values[threadIdx.x] = values[threadIdx.x] * 3 + step;
}

bool Same(const std::vector<uint32_t>& expected, const uint32_t* found, const char* what) {
  for (int i = 0; i < kThreads; ++i) {
    if (found[i] == expected[i]) continue;
    std::printf("%s: value %d is %u, not %u\n", what, i, found[i], expected[i]);
    return false;
  }
  return true;
}

struct Bed {
  const unsigned flags;
  cudaStream_t stream = nullptr;
  bool is_clean = false;
  uint32_t *device = nullptr, *box = nullptr, *managed = nullptr;
  uint32_t *copied = nullptr, *word = nullptr;  // pinned
  std::vector<uint32_t> expected = std::vector<uint32_t>(kThreads);

  explicit Bed(unsigned flags_of_stream) : flags(flags_of_stream) {
    CHECK(cudaStreamCreateWithFlags(&stream, flags));
    CHECK(cudaMalloc(&device, kBytes));
    CHECK(cudaMalloc(&box, kRows * kPitch));
    CHECK(cudaMallocManaged(&managed, kBytes));
    CHECK(cudaMallocHost(&copied, kBytes));
    CHECK(cudaMallocHost(&word, sizeof *word));
    CHECK(cudaMemset(device, 0, kBytes));
    CHECK(cudaMemset(box, 0, kRows * kPitch));
    CHECK(cudaMemset(managed, 0, kBytes));
    CHECK(cudaDeviceSynchronize());
    *word = 0;
  }
  Bed(const Bed&) = delete;
  Bed& operator=(const Bed&) = delete;
  ~Bed() {
    CHECK(cudaStreamDestroy(stream));
    for (void* memory : {device, box, managed}) CHECK(cudaFree(memory));
    for (void* memory : {copied, word}) CHECK(cudaFreeHost(memory));
  }
  // A stream that is new has nothing to do, and nobody has found that it mostly has.
  void Renew() {
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaStreamCreateWithFlags(&stream, flags));
    CHECK(cudaMemset(device, 0, kBytes));
    CHECK(cudaDeviceSynchronize());
    expected.assign(kThreads, 0);
  }
  void LaunchInto(uint32_t* to, uint32_t step) { Step<<<1, kThreads, 0, stream>>>(to, step); }
  void Launch(uint32_t step) {
    LaunchInto(device, step);
    for (uint32_t& value : expected) value = value * 3 + step;
  }
  void Burst(uint32_t first) {
    for (uint32_t i = 0; i < kBurst; ++i) Launch(first + i);
  }
  // In every other round the stream has nothing else to do before: then these are tasks.
  void FirstBurst(uint32_t first) {
    if (is_clean) CHECK(cudaStreamSynchronize(stream));
    Burst(first);
  }
  void CopyBack() {
    CHECK(cudaMemcpyAsync(copied, device, kBytes, cudaMemcpyDeviceToHost, stream));
  }
  bool Compare(const uint32_t* found, const char* what) const {
    return Same(expected, found, what);
  }
};

/// What a host function saw, or changed.
struct Seen {
  const uint32_t* from;
  uint32_t* to;
  uint32_t first = 0;
  std::atomic<int> calls{0};
};

void CUDART_CB Look(void* data) {
  auto& seen = *static_cast<Seen*>(data);
  seen.first = *static_cast<const volatile uint32_t*>(seen.from);
  for (int i = 0; i < kThreads; ++i) seen.to[i] = seen.from[i] + 1;
  ++seen.calls;
}
void CUDART_CB LookBack(cudaStream_t, cudaError_t status, void* data) {
  if (status == cudaSuccess) Look(data);
}

// It runs behind the tasks before it, whose results it finds, and the launches behind it find what
// it wrote.
bool HostFunction(Bed& bed, uint32_t round, bool is_callback) {
  const char* const what = is_callback ? "a callback" : "a host function";
  Seen seen{.from = bed.copied, .to = bed.copied};
  bed.FirstBurst(round);
  bed.CopyBack();
  if (is_callback) {
    CHECK(cudaStreamAddCallback(bed.stream, LookBack, &seen, 0));
  } else {
    CHECK(cudaLaunchHostFunc(bed.stream, Look, &seen));
  }
  const uint32_t first = bed.expected[0];
  CHECK(cudaMemcpyAsync(bed.device, bed.copied, kBytes, cudaMemcpyHostToDevice, bed.stream));
  for (uint32_t& value : bed.expected) ++value;
  bed.Burst(round + 1);
  bed.CopyBack();
  CHECK(cudaStreamSynchronize(bed.stream));
  if (seen.calls.load() != 1 || seen.first != first) {
    std::printf("%s: called %d times, saw %u, not %u\n", what, seen.calls.load(), seen.first,
                first);
    return false;
  }
  return bed.Compare(bed.copied, what);
}

// The stream waits for a word that the host writes later: launches behind it have not run before.
bool WaitForWord(Bed& bed, uint32_t round) {
  static const auto wait = DriverCall<decltype(&cuStreamWaitValue32)>("cuStreamWaitValue32", 12000);
  static const auto write =
      DriverCall<decltype(&cuStreamWriteValue32)>("cuStreamWriteValue32", 12000);
  auto* const word = static_cast<volatile uint32_t*>(bed.word);
  *word = 0;
  bed.FirstBurst(round);
  bed.CopyBack();
  CheckDriver(write(bed.stream, reinterpret_cast<CUdeviceptr>(bed.word), 1, 0),
              "cuStreamWriteValue32");
  CheckDriver(
      wait(bed.stream, reinterpret_cast<CUdeviceptr>(bed.word), 2, CU_STREAM_WAIT_VALUE_GEQ),
      "cuStreamWaitValue32");
  const std::vector<uint32_t> before = bed.expected;
  bed.Burst(round + 5);
  while (*word != 1) std::this_thread::yield();
  bool right = Same(before, bed.copied, "behind a word that the stream writes");
  if (cudaStreamQuery(bed.stream) != cudaErrorNotReady) {
    std::printf("launches behind a wait for a word have run\n");
    right = false;
  }
  *word = 2;
  bed.CopyBack();
  CHECK(cudaStreamSynchronize(bed.stream));
  return right && bed.Compare(bed.copied, "behind a wait for a word");
}

// A box of rows to device memory and back.
bool Boxes(Bed& bed, uint32_t round) {
  constexpr size_t kRow = kBytes / kRows;
  bed.FirstBurst(round);
  CHECK(cudaMemcpy2DAsync(bed.box, kPitch, bed.device, kRow, kRow, kRows, cudaMemcpyDeviceToDevice,
                          bed.stream));
  for (uint32_t i = 0; i < 3; ++i) bed.LaunchInto(bed.device, i);  // undone by what follows
  CHECK(cudaMemcpy2DAsync(bed.device, kRow, bed.box, kPitch, kRow, kRows, cudaMemcpyDeviceToDevice,
                          bed.stream));
  bed.Burst(round + 2);
  CHECK(cudaMemcpy2DAsync(bed.copied, kRow, bed.device, kRow, kRow, kRows, cudaMemcpyDeviceToHost,
                          bed.stream));
  CHECK(cudaStreamSynchronize(bed.stream));
  return bed.Compare(bed.copied, "boxes");
}

// A graph of narrow kernels between launches.
bool Graphs(Bed& bed, uint32_t round) {
  constexpr uint32_t kNodes = 5;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK(cudaStreamBeginCapture(bed.stream, cudaStreamCaptureModeThreadLocal));
  for (uint32_t i = 0; i < kNodes; ++i) bed.LaunchInto(bed.device, round + i);
  CHECK(cudaStreamEndCapture(bed.stream, &graph));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  for (uint32_t time = 0; time < 3; ++time) {
    bed.FirstBurst(round + time);
    CHECK(cudaGraphLaunch(exec, bed.stream));
    for (uint32_t i = 0; i < kNodes; ++i) {
      for (uint32_t& value : bed.expected) value = value * 3 + round + i;
    }
  }
  bed.Burst(round);
  bed.CopyBack();
  CHECK(cudaStreamSynchronize(bed.stream));
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  return bed.Compare(bed.copied, "graphs");
}

// An event is asked until it says that it has come: what was launched before has run.
bool EventAsked(Bed& bed, uint32_t round) {
  cudaEvent_t event;
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  bed.FirstBurst(round);
  CHECK(cudaMemcpyAsync(bed.copied, bed.device, kBytes, cudaMemcpyDeviceToHost, bed.stream));
  CHECK(cudaEventRecord(event, bed.stream));
  cudaError_t state;
  while ((state = cudaEventQuery(event)) == cudaErrorNotReady) std::this_thread::yield();
  CHECK(state);
  CHECK(cudaEventDestroy(event));
  return bed.Compare(bed.copied, "behind an event that was asked");
}

// Memory of both sides is moved to where it is wanted, between launches that use it.
bool Prefetch(Bed& bed, uint32_t round) {
  int device = 0, may = 0;
  CHECK(cudaGetDevice(&device));
  CHECK(cudaDeviceGetAttribute(&may, cudaDevAttrConcurrentManagedAccess, device));
  if (may == 0) return true;
  CHECK(cudaMemcpyAsync(bed.managed, bed.device, kBytes, cudaMemcpyDefault, bed.stream));
  CHECK(cudaStreamSynchronize(bed.stream));
  for (uint32_t time = 0; time < 4; ++time) {
    const cudaMemLocation where{
        .type = time % 2 == 0 ? cudaMemLocationTypeDevice : cudaMemLocationTypeHost, .id = 0};
    for (uint32_t i = 0; i < kBurst; ++i) {
      bed.LaunchInto(bed.managed, round + i);
      for (uint32_t& value : bed.expected) value = value * 3 + round + i;
    }
    CHECK(cudaMemPrefetchAsync(bed.managed, kBytes, where, 0, bed.stream));
  }
  CHECK(cudaMemcpyAsync(bed.device, bed.managed, kBytes, cudaMemcpyDefault, bed.stream));
  CHECK(cudaStreamSynchronize(bed.stream));
  return bed.Compare(bed.managed, "behind a prefetch");
}

// Memory of a stream comes and goes in its order.
bool OrderedMemory(Bed& bed, uint32_t round) {
  for (uint32_t time = 0; time < 3; ++time) {
    uint32_t* taken = nullptr;
    bed.FirstBurst(round + time);
    CHECK(cudaMallocAsync(&taken, kBytes, bed.stream));
    CHECK(cudaMemcpyAsync(taken, bed.device, kBytes, cudaMemcpyDeviceToDevice, bed.stream));
    for (uint32_t i = 0; i < kBurst; ++i) {
      bed.LaunchInto(taken, i);
      for (uint32_t& value : bed.expected) value = value * 3 + i;
    }
    CHECK(cudaMemcpyAsync(bed.device, taken, kBytes, cudaMemcpyDeviceToDevice, bed.stream));
    CHECK(cudaFreeAsync(taken, bed.stream));
  }
  bed.CopyBack();
  CHECK(cudaStreamSynchronize(bed.stream));
  return bed.Compare(bed.copied, "memory of the stream");
}

bool CalledFunction(Bed& bed, uint32_t round) { return HostFunction(bed, round, false); }
bool Callback(Bed& bed, uint32_t round) { return HostFunction(bed, round, true); }

bool Round(Bed& bed, uint32_t round) {
  bool right = true;
  bed.is_clean = round % 2 == 0;
  for (const auto check : {CalledFunction, Callback, WaitForWord, Boxes, Graphs, EventAsked,
                           Prefetch, OrderedMemory}) {
    bed.Renew();
    right &= check(bed, round);
  }
  return right;
}

}  // namespace

int main(int argc, char** argv) {
  const auto rounds = static_cast<uint32_t>(argc > 1 ? std::atoi(argv[1]) : 50);
  bool right = true;
  for (const unsigned flags : {cudaStreamDefault, cudaStreamNonBlocking}) {
    Bed bed(flags);
    for (uint32_t round = 0; round < rounds && right; ++round) right = Round(bed, round);
    CHECK(cudaDeviceSynchronize());
  }
  if (!right) return 1;
  std::printf("ok\n");
  return 0;
}
