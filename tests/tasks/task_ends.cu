// How a program with tasks in flight ends, or lets the SMs go; one way a run. ends_test.py runs
// all.
//
//   task_ends kill      puts tasks in until it is killed; a line for each thousand
//   task_ends fork      forks; the child's calls say so, the parent's tasks are none the worse
//   task_ends exit      exit(), with one TaskSystem alive and one that is destroyed by it
//   task_ends leave [ROUNDS [TASK_US [TASKS]]]     20, 100, 64
//     In each round so many tasks of so long run, all warps of them have begun, and the
//     MasterKernel is asked to leave: the time until it is gone, as a line of JSON
//   task_ends queued [ROUNDS [TASK_US [TASKS]]]
//     The same without waiting for any to begin: what is in the table is run first
//   task_ends now [ROUNDS [TASK_US [TASKS]]]
//     The same, in a hurry: what has not begun is left, and run behind that
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "cupola/task.h"

namespace task = cupola::task;

namespace {

using Clock = std::chrono::steady_clock;
using Words = volatile unsigned*;

constexpr unsigned kThreads = 64, kWarps = kThreads / 32;

// Each warp says that it has begun, and takes so long; the task counts itself.
__device__ void Busy(unsigned* total, Words begun, unsigned round, unsigned long long ns) {
  const uint64_t start = cupola::runtime::NowNs();
  if (task::ThreadId() % 32 == 0 && begun != nullptr) begun[task::ThreadId() / 32] = round;
  while (cupola::runtime::NowNs() - start < ns) {
  }
  if (task::ThreadId() == 0) atomicAdd(total, 1u);
}

using Tasks = task::TaskSystem<Busy>;

[[noreturn]] void Fail(const char* what, const std::string& why) {
  std::printf("task_ends: %s: %s\n", what, why.c_str());
  std::fflush(stdout);
  std::_Exit(1);
}

void Must(cudaError_t error) {
  if (error != cudaSuccess) Fail("CUDA", cudaGetErrorString(error));
}

void Must(const Tasks& tasks, task::Error error, const char* what) {
  if (error != task::Error::kNone) Fail(what, tasks.Describe(error));
}

unsigned* Zeroed() {
  unsigned* word = nullptr;
  Must(cudaMalloc(&word, sizeof *word));
  Must(cudaMemset(word, 0, sizeof *word));
  Must(cudaDeviceSynchronize());  // tasks run beside the default stream
  return word;
}

unsigned Read(const unsigned* word) {
  unsigned found = 0;
  Must(cudaMemcpy(&found, word, sizeof found, cudaMemcpyDeviceToHost));
  return found;
}

task::TaskId SpawnMany(Tasks& tasks, unsigned count, unsigned* total, unsigned us) {
  task::TaskId id{};
  for (unsigned i = 0; i < count; ++i) {
    Must(tasks, tasks.Spawn<Busy>({.threads = kThreads}, &id, total, nullptr, 0u, us * 1000ull),
         "spawn");
  }
  return id;
}

[[noreturn]] void UntilKilled() {
  Tasks tasks;
  unsigned* const total = Zeroed();
  for (unsigned thousands = 1;; ++thousands) {
    SpawnMany(tasks, 1000, total, 10);
    std::printf("put in %u thousand\n", thousands);
    std::fflush(stdout);
  }
}

// In the child: every call says that it is one, and none waits. Its end is no end of the parent's
// MasterKernel.
int RunChild(std::unique_ptr<Tasks> tasks, unsigned* total, const task::TaskId& id) {
  task::TaskId other{};
  bool is_done = false;
  const task::Error errors[] = {
      tasks->Spawn<Busy>({.threads = kThreads}, &other, total, nullptr, 0u, 0ull), tasks->Wait(id),
      tasks->Check(id, &is_done), tasks->WaitAll(), tasks->Leave(), tasks->LeaveNow()};
  int wrong = 0;
  for (const task::Error error : errors) {
    if (error != task::Error::kForked) ++wrong;
  }
  std::printf("child: %s; %d calls said another\n", tasks->Describe(errors[0]).c_str(), wrong);
  std::fflush(stdout);
  tasks.reset();
  return wrong;
}

int Fork() {
  constexpr unsigned kCount = 300;
  auto tasks = std::make_unique<Tasks>();
  unsigned* const total = Zeroed();
  task::TaskId id = SpawnMany(*tasks, kCount, total, 200);
  const pid_t child = fork();
  if (child < 0) Fail("fork", std::strerror(errno));
  if (child == 0) _exit(RunChild(std::move(tasks), total, id));
  id = SpawnMany(*tasks, kCount, total, 0);
  Must(*tasks, tasks->Wait(id), "wait");
  int status = 0;
  if (waitpid(child, &status, 0) != child) Fail("waitpid", std::strerror(errno));
  SpawnMany(*tasks, kCount, total, 0);
  Must(*tasks, tasks->WaitAll(), "wait for all");
  const unsigned found = Read(total);
  std::printf("parent: %u of %u tasks; the child ended with %d\n", found, 3 * kCount, status);
  return found == 3 * kCount && status == 0 ? 0 : 1;
}

[[noreturn]] void Exit() {
  static Tasks destroyed;
  Tasks forgotten;
  unsigned* const total = Zeroed();
  SpawnMany(destroyed, 1000, total, 100);
  SpawnMany(forgotten, 1000, total, 100);
  std::printf("leaves\n");
  std::exit(0);
}

// Until warps say, each in its word, that they have begun in this round. Where only the first warp
// of each task did, a second one that finds no executor would begin when the first bodies end.
void AwaitBegun(const Words begun, unsigned count, unsigned round) {
  const auto start = Clock::now();
  for (unsigned i = 0; i < count; ++i) {
    while (begun[i] != round) {
      if (Clock::now() - start > std::chrono::seconds(20)) Fail("begin", "a warp has not begun");
    }
  }
}

int Leave(const std::string& mode, unsigned rounds, unsigned us, unsigned count) {
  const bool now = mode == "now";
  unsigned *begun = nullptr, *begun_there = nullptr;
  Must(cudaHostAlloc(&begun, count * kWarps * sizeof *begun, cudaHostAllocMapped));
  Must(cudaHostGetDevicePointer(&begun_there, begun, 0));
  std::memset(begun, 0, count * kWarps * sizeof *begun);
  Tasks tasks;
  unsigned* const total = Zeroed();
  std::vector<double> gone_us;
  unsigned long left = 0;  // tasks that had not run when it was gone
  for (unsigned round = 1; round <= rounds; ++round) {
    for (unsigned i = 0; i < count; ++i) {
      task::TaskId id{};
      Must(tasks,
           tasks.Spawn<Busy>({.threads = kThreads}, &id, total, begun_there + i * kWarps, round,
                             us * 1000ull),
           "spawn");
    }
    if (mode == "leave") AwaitBegun(begun, count * kWarps, round);
    const auto start = Clock::now();
    Must(tasks, now ? tasks.LeaveNow() : tasks.Leave(), "leave");
    gone_us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    if (now) {
      left += round * count - Read(total);
      Must(tasks, tasks.WaitAll(), "wait for all");
      Must(tasks, tasks.Leave(), "leave");
    }
    if (Read(total) != round * count) Fail("leave", "it is gone, and not all tasks have run");
  }
  // A new one each time: it was gone.
  if (tasks.launches() < rounds) Fail("leave", "it was not gone");
  std::sort(gone_us.begin(), gone_us.end());
  const auto at = [&](double share) {
    return gone_us[static_cast<size_t>(std::ceil(share * rounds)) - 1];
  };
  std::printf(
      "{\"mode\": \"%s\", \"rounds\": %u, \"tasks\": %u, \"task_us\": %u, \"left\": %lu, "
      "\"p50_us\": %.1f, \"p99_us\": %.1f}\n",
      mode.c_str(), rounds, count, us, left, at(0.5), at(0.99));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const auto number = [&](int i, unsigned otherwise) {
    return argc > i ? std::max(1u, static_cast<unsigned>(std::atoi(argv[i]))) : otherwise;
  };
  if (mode == "kill") UntilKilled();
  if (mode == "fork") return Fork();
  if (mode == "exit") Exit();
  if (mode == "leave" || mode == "queued" || mode == "now") {
    return Leave(mode, number(2, 20), number(3, 100), number(4, 64));
  }
  std::printf("task_ends kill|fork|exit|leave|queued|now [ROUNDS [TASK_US [TASKS]]]\n");
  return 2;
}
