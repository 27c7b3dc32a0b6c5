// CUDA calls of a program while its tasks are in flight; one sort a run. All results are compared.
//
//   task_calls memory     cudaMalloc, cudaFree, copies and the first launch of a kernel, each with
//                         tasks that run
//   task_calls capture    a thread that captures puts the first task in, and waits for it; another
//                         captures meanwhile
//   task_calls reset      cudaDeviceReset: what was in flight is lost, and each call says so; another
//                         TaskSystem is none the worse
#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include "cupola/task.h"
#include "tests/tasks/task_checks.h"

namespace task = cupola::task;

namespace {

using cupola::task_test::Expect;
using cupola::task_test::Must;

constexpr unsigned kTasks = 64;

// Takes so long, and counts itself.
__device__ void Busy(unsigned* total, unsigned long long ns) {
  const uint64_t start = cupola::runtime::NowNs();
  while (cupola::runtime::NowNs() - start < ns) {
  }
  if (task::ThreadId() == 0) atomicAdd(total, 1u);
}

using Tasks = task::TaskSystem<Busy>;

__global__ void AddOnce(unsigned* word) { atomicAdd(word, 1u); }
__global__ void AddTwice(unsigned* word) { atomicAdd(word, 2u); }

unsigned* Zeroed() {
  unsigned* word = nullptr;
  Must(cudaMalloc(&word, sizeof *word), "cudaMalloc");
  Must(cudaMemset(word, 0, sizeof *word), "cudaMemset");
  Must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");  // tasks run beside the default stream
  return word;
}

unsigned Read(const unsigned* word) {
  unsigned found = 0;
  Must(cudaMemcpy(&found, word, sizeof found, cudaMemcpyDeviceToHost), "cudaMemcpy");
  return found;
}

task::TaskId SpawnMany(Tasks& tasks, unsigned* total, unsigned us) {
  task::TaskId id{};
  for (unsigned i = 0; i < kTasks; ++i) {
    Must(tasks, tasks.Spawn<Busy>({.threads = 64}, &id, total, us * 1000ull), "spawn");
  }
  return id;
}

int Memory() {
  Tasks tasks;
  unsigned *const total = Zeroed(), *const word = Zeroed(), *more = nullptr;
  unsigned rounds = 0;
  const auto with_tasks = [&](const char* what, const auto& call) {
    SpawnMany(tasks, total, 200);
    ++rounds;
    Must(call(), what);
    Must(tasks, tasks.WaitAll(), "wait for all");
    Expect(Read(total) == rounds * kTasks, what);
  };
  with_tasks("cudaMalloc", [&] { return cudaMalloc(&more, 8 << 20); });
  with_tasks("cudaMemset", [&] { return cudaMemset(more, 1, 8 << 20); });
  with_tasks("first launch", [&] {
    AddOnce<<<1, 32>>>(word);
    return cudaGetLastError();
  });
  with_tasks("cudaFuncGetAttributes", [&] {
    cudaFuncAttributes attributes;
    return cudaFuncGetAttributes(&attributes, AddTwice);
  });
  with_tasks("cudaStreamSynchronize", [&] {
    AddTwice<<<1, 32>>>(word);
    return cudaStreamSynchronize(nullptr);
  });
  Expect(Read(word) == 32 + 64, "launches beside tasks");
  with_tasks("cudaFree", [&] { return cudaFree(more); });
  with_tasks("cudaDeviceSynchronize", [&] { return cudaDeviceSynchronize(); });
  with_tasks("cudaMallocHost", [&] { return cudaMallocHost(&more, 1 << 20); });
  with_tasks("cudaFreeHost", [&] { return cudaFreeHost(more); });
  std::printf("%u tasks beside %u calls\n", rounds * kTasks, rounds);
  return 0;
}

// What the graph launches is all that was captured.
void CaptureAround(const char* what, unsigned* word, const auto& work) {
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t launchable = nullptr;
  Must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  Must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), what);
  work();
  AddOnce<<<1, 1, 0, stream>>>(word);
  Must(cudaGetLastError(), "launch while capturing");
  Must(cudaStreamEndCapture(stream, &graph), what);
  size_t nodes = 0;
  Must(cudaGraphGetNodes(graph, nullptr, &nodes), "cudaGraphGetNodes");
  Expect(nodes == 1, "a node is captured");
  Must(cudaGraphInstantiate(&launchable, graph, 0), "cudaGraphInstantiate");
  const unsigned before = Read(word);
  Must(cudaGraphLaunch(launchable, stream), "cudaGraphLaunch");
  Must(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  Expect(Read(word) == before + 1, "the graph has run once");
  Must(cudaGraphExecDestroy(launchable), "cudaGraphExecDestroy");
  Must(cudaGraphDestroy(graph), "cudaGraphDestroy");
  Must(cudaStreamDestroy(stream), "cudaStreamDestroy");
}

int Capture() {
  unsigned *const total = Zeroed(), *const word = Zeroed();
  auto tasks = std::make_unique<Tasks>();
  CaptureAround("the first task while capturing", word, [&] {
    const task::TaskId id = SpawnMany(*tasks, total, 100);
    Must(*tasks, tasks->Wait(id), "wait");
    Must(*tasks, tasks->WaitAll(), "wait for all");
    Must(*tasks, tasks->Leave(), "leave");
  });
  CaptureAround("tasks of another thread while capturing", word, [&] {
    std::thread other([&] {
      SpawnMany(*tasks, total, 100);
      Must(*tasks, tasks->WaitAll(), "wait for all");
      Must(*tasks, tasks->LeaveNow(), "leave now");
    });
    other.join();
  });
  CaptureAround("the end of a TaskSystem while capturing", word, [&] { tasks.reset(); });
  Expect(Read(total) == 2 * kTasks, "each task has run once");
  std::printf("%u tasks beside 3 captures\n", 2 * kTasks);
  return 0;
}

int Reset() {
  {
    Tasks tasks;
    unsigned* const total = Zeroed();
    const task::TaskId id = SpawnMany(tasks, total, 20'000);
    Must(cudaDeviceReset(), "cudaDeviceReset");
    bool is_done = false;
    task::TaskId other{};
    // What ran before the device was gone has run.
    const task::Error waited = tasks.Wait(id), all = tasks.WaitAll();
    const auto is_lost = [](task::Error error) { return error == task::Error::kDevice; };
    const task::Error checked = tasks.Check(id, &is_done);
    const bool are_lost = (waited == task::Error::kNone || is_lost(waited)) &&
                          (all == task::Error::kNone || is_lost(all)) && checked == waited &&
                          is_done == (waited == task::Error::kNone) && is_lost(tasks.Leave()) &&
                          is_lost(tasks.LeaveNow()) &&
                          is_lost(tasks.Spawn<Busy>({.threads = 32}, &other, total, 0ull));
    std::printf("behind the reset: the last task %s; %s\n", is_done ? "has run" : "is lost",
                tasks.Describe(task::Error::kDevice).c_str());
    Expect(are_lost, "each call says that the tasks are lost");
  }
  Tasks tasks;
  unsigned* const total = Zeroed();
  const task::TaskId id = SpawnMany(tasks, total, 10);
  Must(tasks, tasks.Wait(id), "wait behind the reset");
  Must(tasks, tasks.WaitAll(), "wait for all behind the reset");
  Expect(Read(total) == kTasks, "each task behind the reset has run once");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "memory") return Memory();
  if (mode == "capture") return Capture();
  if (mode == "reset") return Reset();
  std::printf("task_calls memory|capture|reset\n");
  return 2;
}
