// What is asked of a TaskSystem whose MasterKernel leaves, or has left tasks behind; one sort a run.
//
//   task_leaving after     a task behind one that still runs in the MasterKernel that leaves
#include <cstdio>
#include <string>

#include "cupola/task.h"

namespace task = cupola::task;

namespace {

using namespace std::chrono_literals;

// Ends when it is let, or after 20 s.
__device__ void Hold(const volatile unsigned* let, unsigned* out) {
  const uint64_t start = cupola::runtime::NowNs();
  while (*let == 0 && cupola::runtime::NowNs() - start < 20'000'000'000ull) {
  }
  *out = 1;
}

__device__ void Copy(const unsigned* from, unsigned* to) { *to = *from; }

using Tasks = task::TaskSystem<Hold, Copy>;

[[noreturn]] void Fail(const char* what, const std::string& why) {
  std::printf("task_leaving: %s: %s\n", what, why.c_str());
  std::fflush(stdout);
  std::_Exit(1);
}

void Must(cudaError_t error, const char* what) {
  if (error != cudaSuccess) Fail(what, cudaGetErrorString(error));
}

void Must(const Tasks& tasks, task::Error error, const char* what) {
  if (error != task::Error::kNone) Fail(what, tasks.Describe(error));
}

void Expect(bool holds, const char* what) {
  if (!holds) Fail(what, "not so");
}

// Words that host and device see, 0 at first.
struct Words {
  explicit Words(unsigned count) {
    void* bytes = nullptr;
    Must(cudaHostAlloc(&bytes, count * sizeof(unsigned), cudaHostAllocMapped), "cudaHostAlloc");
    host = static_cast<volatile unsigned*>(bytes);
    for (unsigned i = 0; i < count; ++i) host[i] = 0;
    Must(cudaHostGetDevicePointer(&device, bytes, 0), "cudaHostGetDevicePointer");
  }

  volatile unsigned* host = nullptr;
  unsigned* device = nullptr;
};

// Puts a task in that runs in the MasterKernel until it is let: the first one, which is a launch of
// its own, runs until then.
task::TaskId SpawnHeld(Tasks& tasks, const Words& let, unsigned* out) {
  const Words first_let(1), first_out(1);
  task::TaskId first{}, held{};
  Must(tasks, tasks.Spawn<Hold>({.threads = 32}, &first, first_let.device, first_out.device),
       "spawn");
  Must(tasks, tasks.Spawn<Hold>({.threads = 32}, &held, let.device, out), "spawn");
  first_let.host[0] = 1;
  Must(tasks, tasks.Wait(first), "wait for the first");
  Expect(tasks.solo_launches() == 1 && tasks.launches() == 1, "one task is in the MasterKernel");
  return held;
}

// Whether it has heard within `limit` that it is to leave: a MasterKernel more was launched then.
bool RunBehind(std::chrono::milliseconds limit) {
  Tasks tasks;
  const Words let(1), out(2);
  const task::TaskId before = SpawnHeld(tasks, let, out.device);
  tasks.set_time_limit(limit);
  Expect(tasks.Leave() == task::Error::kTimedOut, "it leaves while the task runs");
  task::TaskId behind{};
  Must(tasks,
       tasks.Spawn<Copy>({.threads = 1, .after = before}, &behind, out.device, out.device + 1),
       "spawn behind it");
  Expect(tasks.Wait(behind) == task::Error::kTimedOut, "the task behind it waits for it");
  let.host[0] = 1;
  tasks.set_time_limit(15s);
  Must(tasks, tasks.Wait(behind), "wait");
  Expect(out.host[1] == 1, "it has seen what the one before it wrote");
  return tasks.launches() == 2;
}

int After() {
  std::chrono::milliseconds limit = 100ms;
  while (!RunBehind(limit)) {
    limit *= 2;
    Expect(limit < 10s, "it hears that it is to leave");
  }
  std::printf("a task ran behind one of a MasterKernel that left\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "after") return After();
  std::printf("task_leaving after\n");
  return 2;
}
