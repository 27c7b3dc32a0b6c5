// What is asked of a TaskSystem whose MasterKernel leaves, or has left tasks behind; one sort a run.
//
//   task_leaving after     a task behind one that still runs in the MasterKernel that leaves
//   task_leaving polled    a task that one in a hurry has left, which is asked for and not waited for
//   task_leaving end       a task that one in a hurry has left, and the TaskSystem's end
#include <cstdio>
#include <string>

#include "cupola/task.h"
#include "tests/tasks/task_checks.h"

namespace task = cupola::task;

namespace {

using cupola::task_test::Expect;
using cupola::task_test::Must;

using namespace std::chrono_literals;

constexpr unsigned kBegun = 1, kEnded = 2;

// Ends when it is let, or after 20 s.
__device__ void Hold(const volatile unsigned* let, volatile unsigned* out) {
  const uint64_t start = cupola::runtime::NowNs();
  *out = kBegun;
  while (*let == 0 && cupola::runtime::NowNs() - start < 20'000'000'000ull) {
  }
  *out = kEnded;
}

__device__ void Copy(const volatile unsigned* from, volatile unsigned* to) { *to = *from; }

using Tasks = task::TaskSystem<Hold, Copy>;

void Await(const volatile unsigned& word, unsigned value, const char* what) {
  const auto start = std::chrono::steady_clock::now();
  while (word != value) Expect(std::chrono::steady_clock::now() - start < 15s, what);
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
task::TaskId SpawnHeld(Tasks& tasks, const Words& let, const Words& out) {
  const Words first_let(1), first_out(1);
  task::TaskId first{}, held{};
  Must(tasks, tasks.Spawn<Hold>({.threads = 32}, &first, first_let.device, first_out.device),
       "spawn");
  Await(first_out.host[0], kBegun, "the first begins");  // while there is room for it
  Must(tasks, tasks.Spawn<Hold>({.threads = 32}, &held, let.device, out.device), "spawn");
  first_let.host[0] = 1;
  Must(tasks, tasks.Wait(first), "wait for the first");
  Expect(tasks.solo_launches() == 1 && tasks.launches() == 1, "one task is in the MasterKernel");
  Await(out.host[0], kBegun, "it begins");
  return held;
}

// Whether it has heard within `limit` that it is to leave: a MasterKernel more was launched then.
bool RunBehind(std::chrono::milliseconds limit) {
  Tasks tasks;
  const Words let(1), out(2);
  const task::TaskId before = SpawnHeld(tasks, let, out);
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
  Expect(out.host[1] == kEnded, "it has seen what the one before it wrote");
  return tasks.launches() == 2;
}

// With a limit that is long enough for it to hear that it is to leave.
void RunUntilHeard(bool (*run)(std::chrono::milliseconds limit)) {
  std::chrono::milliseconds limit = 100ms;
  while (!run(limit)) {
    limit *= 2;
    Expect(limit < 10s, "it hears that it is to leave");
  }
}

int After() {
  RunUntilHeard(RunBehind);
  std::printf("a task ran behind one of a MasterKernel that left\n");
  return 0;
}

// Puts two tasks in, one behind the other, and the MasterKernel leaves in a hurry when the first has
// ended: where it hears that within `limit` the second is left. Its id.
task::TaskId SpawnLeft(Tasks& tasks, const Words& let, const Words& out,
                       std::chrono::milliseconds limit) {
  const task::TaskId before = SpawnHeld(tasks, let, out);
  task::TaskId left{};
  Must(tasks, tasks.Spawn<Copy>({.threads = 1, .after = before}, &left, out.device, out.device + 1),
       "spawn behind it");
  tasks.set_time_limit(limit);
  Expect(tasks.LeaveNow() == task::Error::kTimedOut, "it leaves while the first one runs");
  let.host[0] = 1;
  tasks.set_time_limit(15s);
  Await(out.host[0], kEnded, "the first one ends");
  return left;
}

bool PollLeft(std::chrono::milliseconds limit) {
  Tasks tasks;
  const Words let(1), out(2);
  const task::TaskId left = SpawnLeft(tasks, let, out, limit);
  const auto start = std::chrono::steady_clock::now();
  for (bool is_done = false; !is_done;) {
    Must(tasks, tasks.Check(left, &is_done), "check");
    Expect(std::chrono::steady_clock::now() - start < 15s, "what is asked for is run");
  }
  Expect(out.host[1] == kEnded, "it has seen what the one before it wrote");
  return tasks.launches() == 2;
}

int Polled() {
  RunUntilHeard(PollLeft);
  std::printf("a task was left, and run when it was asked for\n");
  return 0;
}

// Whether a task was left is not known here: the MasterKernel is asked for half a second.
int End() {
  const Words let(1), out(2);
  {
    Tasks tasks;
    SpawnLeft(tasks, let, out, 500ms);
  }
  Expect(out.host[1] == kEnded, "what was left is run before the end");
  std::printf("a task was left, and run before the end\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "after") return After();
  if (mode == "polled") return Polled();
  if (mode == "end") return End();
  std::printf("task_leaving after|polled|end\n");
  return 2;
}
