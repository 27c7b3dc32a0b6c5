// A program of graphs, for graphs_test.py: graph_app WAY [LAUNCHES]. Each way launches graphs whose kernels must run in the
// order of their edges, and prints what came out; the same with Cupola and without.
#include <cuda.h>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/apps/support/check_runtime.h"

namespace {

constexpr int kValues = 256, kSteps = 24;

// Two of them do not commute, so that the result tells in which order they ran.
__global__ void Step(unsigned* value, unsigned factor, unsigned term) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  value[i] = value[i] * factor + term + i;
}

__global__ void Mix(unsigned* value, const unsigned* other) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  value[i] = value[i] * 31 + other[i];
}

// Takes `us` microseconds, and then says that it was the `number`th.
__global__ void Slow(volatile unsigned* progress, unsigned number, unsigned us) {
  unsigned long long now, until;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(until));
  until += us * 1000ull;
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  while (now < until);
  *progress = number;
}

// Many blocks of `us` microseconds each.
__global__ void Long(unsigned* value, unsigned factor, unsigned term, unsigned us) {
  unsigned long long now, until;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(until));
  until += us * 1000ull;
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  while (now < until);
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  value[i] = value[i] * factor + term + i;
}

struct Memory {
  unsigned *a, *b, *c;
  Memory() {
    for (unsigned** each : {&a, &b, &c}) {
      CHECK(cudaMalloc(each, kValues * sizeof(unsigned)));
      CHECK(cudaMemset(*each, 0, kValues * sizeof(unsigned)));
    }
    CHECK(cudaDeviceSynchronize());
  }
  unsigned Sum() const {
    std::vector<unsigned> all(kValues);
    unsigned sum = 0;
    for (const unsigned* each : {a, b, c}) {
      CHECK(cudaMemcpy(all.data(), each, kValues * sizeof(unsigned), cudaMemcpyDeviceToHost));
      for (unsigned value : all) sum = sum * 16777619u ^ value;
    }
    return sum;
  }
};

// Two branches that meet again and again, with a memset and copies among the kernels.
cudaGraph_t Capture(const Memory& memory, unsigned seed) {
  cudaStream_t main, side;
  cudaEvent_t fork, join;
  cudaGraph_t graph;
  CHECK(cudaStreamCreate(&main));
  CHECK(cudaStreamCreate(&side));
  CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
  CHECK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
  CHECK(cudaStreamBeginCapture(main, cudaStreamCaptureModeThreadLocal));
  CHECK(cudaMemsetAsync(memory.c, static_cast<int>(seed), kValues * sizeof(unsigned), main));
  for (unsigned step = 0; step < kSteps; ++step) {
    Step<<<4, kValues / 4, 0, main>>>(memory.a, 5, step + seed);
    if (step % 6 == 0) {
      CHECK(cudaEventRecord(fork, main));
      CHECK(cudaStreamWaitEvent(side, fork));
    }
    if (step % 6 < 5) Step<<<2, kValues / 2, 0, side>>>(memory.b, 7, step);
    if (step % 6 == 5) {
      CHECK(cudaEventRecord(join, side));
      CHECK(cudaStreamWaitEvent(main, join));
      Mix<<<4, kValues / 4, 0, main>>>(memory.a, memory.b);
      CHECK(cudaMemcpyAsync(memory.c, memory.a, kValues * sizeof(unsigned), cudaMemcpyDeviceToDevice, main));
      Mix<<<4, kValues / 4, 0, main>>>(memory.b, memory.c);
    }
  }
  CHECK(cudaStreamEndCapture(main, &graph));
  return graph;
}

cudaGraphExec_t Instantiate(const Memory& memory, unsigned seed) {
  const cudaGraph_t graph = Capture(memory, seed);
  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CHECK(cudaGraphDestroy(graph));
  return exec;
}

// Behind the first launches Cupola builds the pieces, while the program goes on.
void GiveTime(int launch) {
  if (launch == 1) std::this_thread::sleep_for(std::chrono::milliseconds(150));
}

// Launches and other work of one stream by turns.
void Ordered(cudaStream_t stream, int launches) {
  const Memory memory;
  const cudaGraphExec_t exec = Instantiate(memory, 3);
  for (int i = 0; i < launches; ++i) {
    GiveTime(i);
    CHECK(cudaGraphLaunch(exec, stream));
    Step<<<4, kValues / 4, 0, stream>>>(memory.a, 3, i);
    if (i % 8 == 7) CHECK(cudaStreamSynchronize(stream));
  }
  CHECK(cudaDeviceSynchronize());
  std::printf("%08x\n", memory.Sum());
  CHECK(cudaGraphExecDestroy(exec));
}

// Launches far ahead of the device, with other work between them, and now and then a call that waits for all of it. Says how
// long the longest launch call took, in ms, on the error output.
void Ahead(cudaStream_t stream, int launches) {
  const Memory memory;
  const cudaGraphExec_t exec = Instantiate(memory, 3);
  double longest = 0;
  for (int i = 0; i < launches; ++i) {
    GiveTime(i);
    const auto begin = std::chrono::steady_clock::now();
    CHECK(cudaGraphLaunch(exec, stream));
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    if (i > 1) longest = std::max(longest, took.count());
    Step<<<4, kValues / 4, 0, stream>>>(memory.a, 3, i);
    if (i % 50 != 49) continue;
    void* more;
    CHECK(cudaMalloc(&more, 256));
    CHECK(cudaFree(more));
  }
  CHECK(cudaDeviceSynchronize());
  std::printf("%08x\n", memory.Sum());
  std::fprintf(stderr, "longest launch call: %.0f ms\n", longest);
  CHECK(cudaGraphExecDestroy(exec));
}

// Ends while launches are far ahead of the device: by exit(), by a reset of the device, or with a child that was forked
// meanwhile and ends first. `launches` as in Ahead.
void End(cudaStream_t stream, int launches, const std::string& how) {
  const Memory memory;
  const cudaGraphExec_t exec = Instantiate(memory, 3);
  for (int i = 0; i < launches; ++i) {
    GiveTime(i);
    CHECK(cudaGraphLaunch(exec, stream));
  }
  std::printf("launched\n");
  std::fflush(stdout);
  if (how == "exit") std::exit(0);
  if (how == "reset") {
    CHECK(cudaDeviceReset());
    std::exit(0);
  }
  if (const pid_t child = fork(); child == 0) {
    std::exit(0);
  } else if (int status = 1; waitpid(child, &status, 0) != child || status != 0) {
    std::exit(1);
  }
  CHECK(cudaStreamSynchronize(stream));
  std::printf("%08x\n", memory.Sum());
}

// A graph of more nodes than the driver takes behind a closed gate.
void Large(cudaStream_t stream, int launches) {
  constexpr unsigned kNodes = 2500;
  const Memory memory;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (unsigned step = 0; step < kNodes; ++step) Step<<<1, 32, 0, stream>>>(step % 3 ? memory.a : memory.b, 5, step);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < launches; ++i) {
    GiveTime(i);
    CHECK(cudaGraphLaunch(exec, stream));
    Step<<<1, 32, 0, stream>>>(memory.a, 3, i);
    if (i < 3) CHECK(cudaStreamSynchronize(stream));
  }
  CHECK(cudaDeviceSynchronize());
  std::printf("%08x\n", memory.Sum());
}

// One graph on two streams by turns: its launches wait for one another, and nothing else orders them.
void Elsewhere(int launches) {
  const Memory memory;
  const cudaGraphExec_t exec = Instantiate(memory, 5);
  cudaStream_t streams[2];
  for (cudaStream_t& stream : streams) CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (int i = 0; i < launches; ++i) {
    GiveTime(i);
    CHECK(cudaGraphLaunch(exec, streams[i / 5 % 2]));
  }
  CHECK(cudaDeviceSynchronize());
  std::printf("%08x\n", memory.Sum());
}

// Graphs that are changed between launches, by another graph or node by node.
void Changed(cudaStream_t stream, int launches) {
  const Memory memory;
  const cudaGraph_t first = Capture(memory, 1), second = Capture(memory, 2);
  cudaGraphExec_t exec, whole;
  CHECK(cudaGraphInstantiate(&exec, first, 0));
  CHECK(cudaGraphInstantiate(&whole, second, 0));
  std::vector<cudaGraphNode_t> nodes(200);
  size_t count = nodes.size();
  CHECK(cudaGraphGetNodes(first, nodes.data(), &count));
  for (int i = 0; i < launches; ++i) {
    GiveTime(i);
    GiveTime(i - launches / 2 - 4);  // then the pieces are built anew
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaGraphLaunch(whole, stream));
    if (i != launches / 2) continue;
    cudaGraphExecUpdateResultInfo found;
    CHECK(cudaGraphExecUpdate(whole, first, &found));
    for (size_t n = 0; n < count; ++n) {
      cudaGraphNodeType type;
      CHECK(cudaGraphNodeGetType(nodes[n], &type));
      if (type != cudaGraphNodeTypeKernel) continue;
      unsigned *value = memory.a, factor = 11, term = 13;  // the first kernel is a Step of memory.a
      void* given[] = {&value, &factor, &term};
      cudaKernelNodeParams params{};
      params.func = reinterpret_cast<void*>(&Step);
      params.gridDim = dim3(4);
      params.blockDim = dim3(kValues / 4);
      params.kernelParams = given;
      CHECK(cudaGraphExecKernelNodeSetParams(exec, nodes[n], &params));
      break;
    }
  }
  CHECK(cudaDeviceSynchronize());
  std::printf("%08x\n", memory.Sum());
}

// A graph that is changed before each launch, and one of whose nodes comes and goes.
void Restless(cudaStream_t stream, int launches) {
  const Memory memory;
  const cudaGraph_t graphs[2] = {Capture(memory, 1), Capture(memory, 2)};
  cudaGraphExec_t exec, blinking;
  CHECK(cudaGraphInstantiate(&exec, graphs[0], 0));
  CHECK(cudaGraphInstantiate(&blinking, graphs[1], 0));
  std::vector<cudaGraphNode_t> nodes(200);
  size_t count = nodes.size();
  CHECK(cudaGraphGetNodes(graphs[1], nodes.data(), &count));
  cudaGraphNode_t kernel = nullptr;
  for (size_t n = 0; n < count && kernel == nullptr; ++n) {
    cudaGraphNodeType type;
    CHECK(cudaGraphNodeGetType(nodes[n], &type));
    if (type == cudaGraphNodeTypeKernel) kernel = nodes[n];
  }
  // The simulated device's runtime lacks the call.
  const auto set_enabled = reinterpret_cast<CUresult (*)(CUgraphExec, CUgraphNode, unsigned)>(
      dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuGraphNodeSetEnabled"));
  for (int i = 0; i < launches; ++i) {
    GiveTime(i);
    GiveTime(i % 10 - 5);
    cudaGraphExecUpdateResultInfo found;
    CHECK(cudaGraphExecUpdate(exec, graphs[i % 2], &found));
    if (i % 10 == 0 && set_enabled(blinking, kernel, i / 10 % 2) != CUDA_SUCCESS) std::exit(1);
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaGraphLaunch(blinking, stream));
  }
  CHECK(cudaDeviceSynchronize());
  std::printf("%08x\n", memory.Sum());
}

struct Told {
  const unsigned* value = nullptr;  // in memory of the host
  unsigned sum = 0;
};

void CUDART_CB Tell(void* data) {
  Told& told = *static_cast<Told*>(data);
  for (int i = 0; i < kValues; ++i) told.sum = told.sum * 31 + told.value[i];
}

// Child graphs, and host functions that must find what the kernels before them have left.
void Nested(cudaStream_t stream, int launches) {
  const Memory memory;
  unsigned* value;
  CHECK(cudaMallocHost(&value, kValues * sizeof(unsigned)));
  Told told{value, 0};
  cudaGraph_t graph;
  CHECK(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t last = nullptr;
  const auto behind = [&](auto&& add) {
    cudaGraphNode_t made;
    CHECK(add(&made, last != nullptr ? &last : nullptr, last != nullptr ? 1 : 0));
    last = made;
  };
  for (unsigned part = 0; part < 4; ++part) {
    const cudaGraph_t child = Capture(memory, part);
    behind([&](auto* made, auto* on, size_t count) { return cudaGraphAddChildGraphNode(made, graph, on, count, child); });
    behind([&](auto* made, auto* on, size_t count) {
      return cudaGraphAddMemcpyNode1D(made, graph, on, count, value, memory.a, kValues * sizeof(unsigned),
                                      cudaMemcpyDeviceToHost);
    });
    behind([&](auto* made, auto* on, size_t count) {
      const cudaHostNodeParams params{&Tell, &told};
      return cudaGraphAddHostNode(made, graph, on, count, &params);
    });
    CHECK(cudaGraphDestroy(child));
  }
  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CHECK(cudaGraphDestroy(graph));
  for (int i = 0; i < launches; ++i) {
    GiveTime(i);
    CHECK(cudaGraphLaunch(exec, stream));
    if (i % 8 == 7) CHECK(cudaStreamSynchronize(stream));
  }
  CHECK(cudaDeviceSynchronize());
  std::printf("%08x %08x\n", memory.Sum(), told.sum);
}

// Graphs come and go, the last launch of each still under way.
void Replaced(cudaStream_t stream, int launches) {
  const Memory memory;
  for (int i = 0; i < launches / 4; ++i) {
    const cudaGraphExec_t exec = Instantiate(memory, i);
    for (int launch = 0; launch < 8; ++launch) {
      if (i % 4 == 0) GiveTime(launch);
      CHECK(cudaGraphLaunch(exec, stream));
    }
    CHECK(cudaGraphExecDestroy(exec));
  }
  CHECK(cudaDeviceSynchronize());
  std::printf("%08x\n", memory.Sum());
}

// Graphs with a long kernel among short ones, or of such a kernel alone. With a variant it can be stopped half-way.
void Inside(cudaStream_t stream, int launches, bool is_cooperative = false) {
  const Memory memory;
  cudaGraph_t graphs[2];
  cudaGraphExec_t execs[2];
  cudaStream_t capture;
  CHECK(cudaStreamCreate(&capture));
  for (int alone = 0; alone < 2; ++alone) {
    CHECK(cudaStreamBeginCapture(capture, cudaStreamCaptureModeThreadLocal));
    if (alone == 0) Step<<<4, kValues / 4, 0, capture>>>(memory.a, 5, 1);
    unsigned *value = memory.a, factor = 7 + alone, term = 3, us = 200;
    void* given[] = {&value, &factor, &term, &us};
    if (is_cooperative) {
      const auto* const kernel = reinterpret_cast<const void*>(&Long);
      CHECK(cudaLaunchCooperativeKernel(kernel, dim3(kValues / 64), dim3(64), given, 0, capture));
    } else {
      Long<<<kValues, 1, 0, capture>>>(value, factor, term, us);
    }
    if (alone == 0) Mix<<<4, kValues / 4, 0, capture>>>(memory.b, memory.a);
    CHECK(cudaStreamEndCapture(capture, &graphs[alone]));
    CHECK(cudaGraphInstantiate(&execs[alone], graphs[alone], 0));
  }
  for (int i = 0; i < launches; ++i) {
    GiveTime(i);
    for (cudaGraphExec_t exec : execs) CHECK(cudaGraphLaunch(exec, stream));
    Step<<<4, kValues / 4, 0, stream>>>(memory.a, 3, i);
    if (i < 8 || i % 8 == 7) CHECK(cudaStreamSynchronize(stream));
  }
  CHECK(cudaDeviceSynchronize());
  std::printf("%08x\n", memory.Sum());
}

// Says how long the longest pause was between two kernels of one launch, in ms.
void Paused(cudaStream_t stream, int launches) {
  volatile unsigned* progress;
  unsigned* device;
  CHECK(cudaHostAlloc(const_cast<unsigned**>(&progress), sizeof(unsigned), cudaHostAllocMapped));
  CHECK(cudaHostGetDevicePointer(&device, const_cast<unsigned*>(progress), 0));
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (unsigned step = 1; step <= kSteps; ++step) Slow<<<1, 1, 0, stream>>>(device, step, 3000);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  double longest = 0;
  for (int i = 0; i < launches; ++i) {
    *progress = 0;
    CHECK(cudaGraphLaunch(exec, stream));
    unsigned seen = 0;
    auto since = std::chrono::steady_clock::now();
    while (seen != kSteps) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      const auto now = std::chrono::steady_clock::now();
      if (seen != 0) longest = std::max(longest, std::chrono::duration<double, std::milli>(now - since).count());
      if (const unsigned after = *progress; after != seen) {
        seen = after;
        since = now;
      }
    }
    CHECK(cudaStreamSynchronize(stream));
  }
  std::printf("%.0f\n", longest);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string way = argc > 1 ? argv[1] : "ordered";
  const int launches = argc > 2 ? std::atoi(argv[2]) : 40;
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  if (way == "ordered") Ordered(stream, launches);
  if (way == "legacy") Ordered(cudaStreamLegacy, launches);
  if (way == "per-thread") Ordered(cudaStreamPerThread, launches);
  if (way == "ahead") Ahead(stream, launches);
  if (way == "ahead-legacy") Ahead(cudaStreamLegacy, launches);
  if (way == "ahead-per-thread") Ahead(cudaStreamPerThread, launches);
  for (const char* how : {"exit", "reset", "fork"}) {
    if (way == std::string("ends-by-") + how) End(stream, launches, how);
  }
  if (way == "large") Large(stream, launches);
  if (way == "elsewhere") Elsewhere(launches);
  if (way == "changed") Changed(stream, launches);
  if (way == "restless") Restless(stream, launches);
  if (way == "nested") Nested(stream, launches);
  if (way == "replaced") Replaced(stream, launches);
  if (way == "inside") Inside(stream, launches);
  if (way == "inside-cooperative") Inside(stream, launches, true);
  if (way == "inside-legacy") Inside(cudaStreamLegacy, launches);
  if (way == "paused") Paused(stream, launches);
  CHECK(cudaDeviceSynchronize());
}
