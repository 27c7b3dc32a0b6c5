// Narrow tasks, compute only: the same eight functions as tasks, as kernels on streams, as a graph
// that is launched again and as one fused kernel. Prints a line of JSON for each mode.
//   narrow_bench [--tasks N] [--threads N] [--iterations I] [--repeat R] [--modes a,b,...]
//   [--single N] [--blocks N] [--past DRIVER]
// api: tasks; apix8: by eight host threads; chain: each after the one before it; streams32: 32
// streams, one host thread; streams32x8: eight host threads of 32 streams each; graph: independent
// nodes; fused: one block a task; turns1, turns32: 1 or 32 streams under Cupola, rounds through it
// and past it in turns; --past: the real driver by another name than libcuda.so (a symbolic link).
// --blocks: of a launch on a stream, all of which do the same. Results are compared with those of
// fused, on the device: what a comparison by the host leaves in its caches is not what a program's
// tasks find there.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <cuda.h>
#include <dlfcn.h>

#include "cupola/task.h"
#include "tests/apps/support/check_runtime.h"

namespace {

struct Coefficients {
  float values[8];
};

// Six arguments, 64 bytes.
#define ARGUMENTS                                                                          \
  float *out, Coefficients c, unsigned long long seed, unsigned task, unsigned iterations, \
      unsigned long long salt

template <int kKind>
__device__ float Work(const Coefficients& c, unsigned long long seed, unsigned task,
                      unsigned iterations, unsigned long long salt, unsigned thread) {
  float a = thread * 0.001f + static_cast<float>((seed + task) & 1023), b = 1.0f + c.values[kKind];
  unsigned h = static_cast<unsigned>(salt) + kKind;
  for (unsigned i = 0; i < iterations; ++i) {
    a = a * b + c.values[(kKind + 1) % 8];
    b = b * 0.9999f + 1e-4f;
    if constexpr (kKind % 2 == 1) h = h * 1664525u + 1013904223u;
    if constexpr (kKind % 4 == 2) a -= c.values[kKind] * b;
  }
  return a + b + static_cast<float>(h & 255);
}

#define BODY(kind)                                                               \
  __device__ void Task##kind(ARGUMENTS) {                                        \
    const unsigned thread = cupola::task::ThreadId();                            \
    out[thread] = Work<kind>(c, seed, task, iterations, salt, thread);           \
  }                                                                              \
  __global__ void Kernel##kind(ARGUMENTS) {                                      \
    out[threadIdx.x] = Work<kind>(c, seed, task, iterations, salt, threadIdx.x); \
  }
BODY(0)
BODY(1)
BODY(2)
BODY(3) BODY(4) BODY(5) BODY(6) BODY(7)

    using Tasks = cupola::task::TaskSystem<Task0, Task1, Task2, Task3, Task4, Task5, Task6, Task7>;
using Kernel = void (*)(ARGUMENTS);
constexpr Kernel kKernels[8] = {Kernel0, Kernel1, Kernel2, Kernel3,
                                Kernel4, Kernel5, Kernel6, Kernel7};

__global__ void Fused(float* out, Coefficients c, unsigned long long seed, unsigned iterations,
                      unsigned long long salt) {
  const unsigned task = blockIdx.x;
  float result = 0;
  switch (task % 8) {
#define CASE(kind)                                                     \
  case kind:                                                           \
    result = Work<kind>(c, seed, task, iterations, salt, threadIdx.x); \
    break;
    CASE(0) CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7)
  }
  out[static_cast<size_t>(task) * blockDim.x + threadIdx.x] = result;
}

struct Options {
  unsigned tasks = 32768, threads = 128, iterations = 50, repeat = 5, single = 0, blocks = 1;
  std::string modes = "api,apix8,streams32,streams32x8,graph,fused", past;
};

struct Problem {
  Options options;
  float* out = nullptr;
  Coefficients c{};
  unsigned long long seed = 12345, salt = 67;

  float* OutOf(unsigned task) const { return out + static_cast<size_t>(task) * options.threads; }
};

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <auto Function>
void Spawn(Tasks& tasks, const Problem& p, unsigned task, const cupola::task::TaskId& after,
           cupola::task::TaskId* id) {
  const cupola::task::Error error =
      tasks.Spawn<Function>({.threads = p.options.threads, .after = after}, id, p.OutOf(task), p.c,
                            p.seed, task, p.options.iterations, p.salt);
  if (error != cupola::task::Error::kNone) {
    std::fprintf(stderr, "spawn: error %d, CUDA %s\n", static_cast<int>(error),
                 cudaGetErrorString(tasks.cuda_error()));
    std::exit(1);
  }
}

using SpawnFunction = void (*)(Tasks&, const Problem&, unsigned, const cupola::task::TaskId&,
                               cupola::task::TaskId*);
constexpr SpawnFunction kSpawns[8] = {Spawn<Task0>, Spawn<Task1>, Spawn<Task2>, Spawn<Task3>,
                                      Spawn<Task4>, Spawn<Task5>, Spawn<Task6>, Spawn<Task7>};

unsigned most_awake = 0;

/// Host threads that are there before they are needed. `Run` calls part(i) in each, the caller's
/// being the first, and waits for all.
class HostThreads {
 public:
  explicit HostThreads(unsigned count) {
    for (unsigned i = 1; i < count; ++i) threads_.emplace_back([this, i] { Serve(i); });
  }
  ~HostThreads() {
    part_ = nullptr;
    round_.fetch_add(1);
    for (std::thread& thread : threads_) thread.join();
  }
  HostThreads(const HostThreads&) = delete;
  HostThreads& operator=(const HostThreads&) = delete;

  unsigned count() const { return static_cast<unsigned>(threads_.size()) + 1; }

  void Run(const std::function<void(unsigned)>& part) {
    part_ = &part;
    left_.store(threads_.size());
    round_.fetch_add(1);
    part(0);
    while (left_.load() != 0) std::this_thread::yield();
  }

 private:
  void Serve(unsigned index) {
    for (unsigned seen = 0;;) {
      while (round_.load() == seen) std::this_thread::yield();
      ++seen;
      if (part_ == nullptr) return;
      (*part_)(index);
      left_.fetch_sub(1);
    }
  }

  std::atomic<unsigned> round_{0};
  std::atomic<size_t> left_{0};
  const std::function<void(unsigned)>* part_ = nullptr;
  std::vector<std::thread> threads_;
};

void RunTasks(Tasks& tasks, const Problem& p, HostThreads& threads) {
  threads.Run([&](unsigned first) {
    cupola::task::TaskId id;
    for (unsigned task = first; task < p.options.tasks; task += threads.count())
      kSpawns[task % 8](tasks, p, task, {}, &id);
  });
  most_awake = std::max(most_awake, tasks.awake());
  if (tasks.WaitAll() != cupola::task::Error::kNone) {
    std::fprintf(stderr, "wait: CUDA %s\n", cudaGetErrorString(tasks.cuda_error()));
    std::exit(1);
  }
}

// Each comes after the one before it.
void RunChain(Tasks& tasks, const Problem& p) {
  cupola::task::TaskId last{};
  for (unsigned task = 0; task < p.options.tasks; ++task) {
    kSpawns[task % 8](tasks, p, task, last, &last);
  }
  if (tasks.Wait(last) != cupola::task::Error::kNone) {
    std::fprintf(stderr, "wait: CUDA %s\n", cudaGetErrorString(tasks.cuda_error()));
    std::exit(1);
  }
}

void Launch(const Problem& p, unsigned task, cudaStream_t stream) {
  kKernels[task % 8]<<<p.options.blocks, p.options.threads, 0, stream>>>(
      p.OutOf(task), p.c, p.seed, task, p.options.iterations, p.salt);
}

struct Streams {
  explicit Streams(unsigned count) : streams(count) {
    for (cudaStream_t& stream : streams)
      CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  ~Streams() {
    for (cudaStream_t stream : streams) cudaStreamDestroy(stream);
  }
  std::vector<cudaStream_t> streams;
};

void RunStreams(const Streams& s, const Problem& p, HostThreads& threads) {
  threads.Run([&](unsigned first) {
    const size_t own = s.streams.size() / threads.count();
    for (unsigned task = first; task < p.options.tasks; task += threads.count())
      Launch(p, task, s.streams[first * own + task / threads.count() % own]);
  });
  for (cudaStream_t stream : s.streams) CHECK(cudaStreamSynchronize(stream));
}

/// What a launch takes, as pointers; they are to be used while this lives.
struct Arguments {
  Arguments(const Problem& p, unsigned task)
      : out(p.OutOf(task)), c(p.c), seed(p.seed), salt(p.salt), task(task),
        iterations(p.options.iterations) {}
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  float* out;
  Coefficients c;
  unsigned long long seed, salt;
  unsigned task, iterations;
  void* pointers[6] = {&out, &c, &seed, &task, &iterations, &salt};
};

cudaGraphExec_t MakeGraph(const Problem& p) {
  cudaGraph_t graph;
  CHECK(cudaGraphCreate(&graph, 0));
  for (unsigned task = 0; task < p.options.tasks; ++task) {
    Arguments arguments(p, task);
    cudaKernelNodeParams node{};
    node.func = reinterpret_cast<void*>(kKernels[task % 8]);
    node.gridDim = dim3(1);
    node.blockDim = dim3(p.options.threads);
    node.kernelParams = arguments.pointers;
    cudaGraphNode_t added;
    CHECK(cudaGraphAddKernelNode(&added, graph, nullptr, 0, &node));
  }
  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CHECK(cudaGraphDestroy(graph));
  return exec;
}

__global__ void CountDifferences(const unsigned* found, const unsigned* expected, size_t count,
                                 unsigned* differences) {
  const size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x;
  if (i < count && found[i] != expected[i]) atomicAdd(differences, 1);
}

/// Results of fused, and what others find.
class Reference {
 public:
  explicit Reference(const Problem& p) : p_(p) {
    CHECK(cudaMalloc(&expected_, Bytes()));
    CHECK(cudaHostAlloc(&differences_, sizeof(unsigned), cudaHostAllocMapped));
    CHECK(cudaMemcpy(expected_, p.out, Bytes(), cudaMemcpyDeviceToDevice));
    Clear();
  }
  ~Reference() {
    cudaFree(expected_);
    cudaFreeHost(differences_);
  }
  Reference(const Reference&) = delete;
  Reference& operator=(const Reference&) = delete;

  /// Whether the results are the same; clears them.
  bool IsSame() const {
    *differences_ = 0;
    const size_t count = Bytes() / sizeof(unsigned);
    CountDifferences<<<static_cast<unsigned>((count + 255) / 256), 256>>>(
        reinterpret_cast<const unsigned*>(p_.out), expected_, count, differences_);
    Clear();
    return *differences_ == 0;
  }

 private:
  size_t Bytes() const {
    return static_cast<size_t>(p_.options.tasks) * p_.options.threads * sizeof(float);
  }
  void Clear() const {
    CHECK(cudaMemset(p_.out, 0xff, Bytes()));
    CHECK(cudaDeviceSynchronize());
  }

  const Problem& p_;
  unsigned* expected_ = nullptr;
  unsigned* differences_ = nullptr;
};

double Median(std::vector<double> values, double part = 0.5) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(part * static_cast<double>(values.size() - 1))];
}

void PrintList(const char* name, const std::vector<double>& values) {
  std::printf(", \"%s\": [", name);
  for (size_t i = 0; i < values.size(); ++i) std::printf("%s%.3f", i == 0 ? "" : ", ", values[i]);
  std::printf("]");
}

template <class Run>
void Measure(const char* mode, const Problem& p, const Reference& reference, Run run) {
  std::vector<double> seconds;
  bool equal = true;
  for (unsigned i = 0; i < p.options.repeat + 1; ++i) {
    const double start = Now();
    run();
    if (i > 0) seconds.push_back(Now() - start);
    equal = reference.IsSame() && equal;
  }
  std::printf(
      "{\"mode\": \"%s\", \"iterations\": %u, \"tasks\": %u, \"threads\": %u, "
      "\"tasks_per_s\": %.0f, \"ms\": %.3f, \"equal\": %s",
      mode, p.options.iterations, p.options.tasks, p.options.threads,
      p.options.tasks / Median(seconds), Median(seconds) * 1e3, equal ? "true" : "false");
  for (double& each : seconds) each *= 1e3;
  PrintList("all_ms", seconds);
  std::printf("}\n");
  std::fflush(stdout);
  if (!equal) std::exit(1);
}

// One task at a time, from the call to its result; and a launch that is waited for.
void MeasureSingle(const Problem& p) {
  Tasks tasks;
  std::vector<double> task_us, launch_us;
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (unsigned i = 0; i < p.options.single; ++i) {
    cupola::task::TaskId id;
    const double start = Now();
    kSpawns[i % 8](tasks, p, i % 8, {}, &id);
    if (tasks.Wait(id) != cupola::task::Error::kNone) std::exit(1);
    task_us.push_back((Now() - start) * 1e6);
    for (const double until = Now() + 10e-6; Now() < until;) {
    }
  }
  for (unsigned i = 0; i < p.options.single; ++i) {
    const double start = Now();
    Launch(p, i % 8, stream);
    CHECK(cudaStreamSynchronize(stream));
    launch_us.push_back((Now() - start) * 1e6);
  }
  std::printf(
      "{\"mode\": \"single\", \"iterations\": %u, \"task_us_p50\": %.2f, \"task_us_p99\": %.2f, "
      "\"launch_us_p50\": %.2f, \"launch_us_p99\": %.2f, \"launches\": %u}\n",
      p.options.iterations, Median(task_us), Median(task_us, 0.99), Median(launch_us),
      Median(launch_us, 0.99), tasks.launches());
  std::fflush(stdout);
}

/// The driver's functions by the name it is loaded by.
struct Driver {
  explicit Driver(const char* name) {
    void* const library = dlopen(name, RTLD_NOW);
    if (library != nullptr) {
      launch = reinterpret_cast<decltype(launch)>(dlsym(library, "cuLaunchKernel"));
      synchronize = reinterpret_cast<decltype(synchronize)>(dlsym(library, "cuStreamSynchronize"));
    }
    if (launch == nullptr || synchronize == nullptr) {
      std::fprintf(stderr, "narrow_bench: '%s' is no driver\n", name);
      std::exit(1);
    }
  }
  decltype(&cuLaunchKernel) launch = nullptr;
  decltype(&cuStreamSynchronize) synchronize = nullptr;
};

void RunBy(const Driver& driver, const Streams& s, const Problem& p, const CUfunction* functions) {
  CUresult result = CUDA_SUCCESS;
  for (unsigned task = 0; task < p.options.tasks && result == CUDA_SUCCESS; ++task) {
    Arguments arguments(p, task);
    result = driver.launch(functions[task % 8], p.options.blocks, 1, 1, p.options.threads, 1, 1, 0,
                           s.streams[task % s.streams.size()], arguments.pointers, nullptr);
  }
  for (CUstream stream : s.streams) {
    if (result == CUDA_SUCCESS) result = driver.synchronize(stream);
  }
  if (result != CUDA_SUCCESS) {
    std::fprintf(stderr, "narrow_bench: the driver's error %d\n", static_cast<int>(result));
    std::exit(1);
  }
}

// Processes are fast or slow as a whole, by more than Cupola adds. The one that goes first changes.
void MeasureTurns(const char* mode, unsigned streams, const Problem& p,
                  const Reference& reference) {
  const Driver drivers[2] = {Driver("libcuda.so.1"), Driver(p.options.past.c_str())};
  if (drivers[0].launch == drivers[1].launch) {
    std::fprintf(stderr, "narrow_bench: not under Cupola: both launches are the same\n");
    std::exit(1);
  }
  CUfunction functions[8];
  for (int i = 0; i < 8; ++i)
    CHECK(cudaGetFuncBySymbol(&functions[i], reinterpret_cast<const void*>(kKernels[i])));
  const Streams s(streams);
  std::vector<double> ms[2];
  bool equal = true;
  for (unsigned round = 0; round < p.options.repeat + 1; ++round) {
    for (const unsigned which : {round % 2, 1 - round % 2}) {
      const double start = Now();
      RunBy(drivers[which], s, p, functions);
      if (round > 0) ms[which].push_back((Now() - start) * 1e3);
      equal = reference.IsSame() && equal;
    }
  }
  std::printf("{\"mode\": \"%s\", \"equal\": %s", mode, equal ? "true" : "false");
  PrintList("ms", ms[0]);
  PrintList("past_ms", ms[1]);
  std::printf("}\n");
  std::fflush(stdout);
  if (!equal) std::exit(1);
}

bool Wanted(const Options& options, const char* mode) {
  return ("," + options.modes + ",").find(std::string(",") + mode + ",") != std::string::npos;
}

Options Parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const auto number = static_cast<unsigned>(std::strtoul(argv[i + 1], nullptr, 10));
    if (name == "--tasks")
      options.tasks = number;
    else if (name == "--threads")
      options.threads = number;
    else if (name == "--iterations")
      options.iterations = number;
    else if (name == "--repeat")
      options.repeat = number;
    else if (name == "--single")
      options.single = number;
    else if (name == "--blocks")
      options.blocks = number;
    else if (name == "--modes")
      options.modes = argv[i + 1];
    else if (name == "--past")
      options.past = argv[i + 1];
    else
      std::exit(2);
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  Problem p{.options = Parse(argc, argv)};
  for (int i = 0; i < 8; ++i) p.c.values[i] = 0.001f * static_cast<float>(i + 1);
  const size_t bytes = static_cast<size_t>(p.options.tasks) * p.options.threads * sizeof(float);
  CHECK(cudaMalloc(&p.out, bytes));
  const auto fused = [&] {
    Fused<<<p.options.tasks, p.options.threads>>>(p.out, p.c, p.seed, p.options.iterations, p.salt);
    CHECK(cudaDeviceSynchronize());
  };
  fused();
  const Reference reference(p);
  if (Wanted(p.options, "fused")) Measure("fused", p, reference, fused);
  for (const unsigned host_threads : {1u, 8u}) {
    const char* const mode = host_threads == 1 ? "api" : "apix8";
    if (!Wanted(p.options, mode)) continue;
    Tasks tasks;
    HostThreads threads(host_threads);
    Measure(mode, p, reference, [&] { RunTasks(tasks, p, threads); });
    std::printf("{\"mode\": \"columns\", \"awake\": %u, \"launches\": %u}\n", most_awake,
                tasks.launches());
  }
  if (p.options.single > 0) MeasureSingle(p);
  if (Wanted(p.options, "chain")) {
    Tasks tasks;
    Measure("chain", p, reference, [&] { RunChain(tasks, p); });
  }
  const auto measure_streams = [&](const char* mode, unsigned count, unsigned host_threads) {
    if (!Wanted(p.options, mode)) return;
    const Streams streams(count);
    HostThreads threads(host_threads);
    Measure(mode, p, reference, [&] { RunStreams(streams, p, threads); });
  };
  measure_streams("streams32", 32, 1);
  measure_streams("streams1", 1, 1);
  measure_streams("streams32x8", 256, 8);
  if (Wanted(p.options, "turns32")) MeasureTurns("turns32", 32, p, reference);
  if (Wanted(p.options, "turns1")) MeasureTurns("turns1", 1, p, reference);
  if (Wanted(p.options, "graph")) {
    cudaGraphExec_t graph = MakeGraph(p);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    Measure("graph", p, reference, [&] {
      CHECK(cudaGraphLaunch(graph, stream));
      CHECK(cudaStreamSynchronize(stream));
    });
  }
}
