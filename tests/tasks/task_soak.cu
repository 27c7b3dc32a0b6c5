// Many tasks of mixed forms, put in by several host threads, waited for and looked at now and then.
// What each has counted on the device must be what the host has put in: of each body as many tasks
// and threads, and a sum of numbers of its own for each task, so that one that ran twice cannot
// hide one that did not run. Runs on the simulated device and on a GPU.
//
//   task_soak [TASKS [HOST_THREADS [SEED]]]     3,000, 2, 1
//
// The last line is "tasks TASKS ok", or what was wrong; exit code 1 then.
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "cupola/task.h"

namespace task = cupola::task;

namespace {

constexpr unsigned kBodies = 4;

__host__ __device__ inline uint64_t Mix(uint64_t value) {
  value ^= value >> 30;
  value *= 0xbf58476d1ce4e5b9ull;
  value ^= value >> 27;
  value *= 0x94d049bb133111ebull;
  return value ^ (value >> 31);
}

// Of one body. On the device each lies in a line of its own, and tasks take turns among many.
struct Count {
  unsigned long long tasks, threads, sum, wrong;
};
struct alignas(128) Cell {
  Count of_body[kBodies];
};
constexpr unsigned kCells = 256;

__device__ void CountIn(Cell* cells, uint64_t number, unsigned body) {
  Count& count = cells[number % kCells].of_body[body];
  atomicAdd(&count.threads, 1ull);
  if (task::ThreadId() != 0 || task::BlockId() != 0) return;
  atomicAdd(&count.tasks, 1ull);
  atomicAdd(&count.sum, static_cast<unsigned long long>(Mix(number)));
}

__device__ void Plain(Cell* cells, uint64_t number) { CountIn(cells, number, 0); }

// Each thread keeps what nobody else may write.
__device__ void Shared(Cell* cells, uint64_t number) {
  auto* const words = static_cast<volatile unsigned*>(task::SharedMemory());
  const unsigned thread = task::ThreadId();
  words[thread] = static_cast<unsigned>(number) + thread;
  __threadfence_block();
  if (words[thread] != static_cast<unsigned>(number) + thread) {
    atomicAdd(&cells[number % kCells].of_body[1].wrong, 1ull);
  }
  CountIn(cells, number, 1);
}

__device__ void Barrier(Cell* cells, uint64_t number) {
  task::SyncBlock();
  CountIn(cells, number, 2);
}

// Each thread reads what another wrote before the barrier.
__device__ void Both(Cell* cells, uint64_t number) {
  auto* const words = static_cast<unsigned*>(task::SharedMemory());
  const unsigned thread = task::ThreadId(), other = task::BlockThreads() - 1 - thread;
  words[thread] = static_cast<unsigned>(number) ^ thread;
  task::SyncBlock();
  if (words[other] != (static_cast<unsigned>(number) ^ other)) {
    atomicAdd(&cells[number % kCells].of_body[3].wrong, 1ull);
  }
  CountIn(cells, number, 3);
}

using Tasks = task::TaskSystem<Plain, Shared, Barrier, Both>;

[[noreturn]] void Fail(const char* what, uint64_t number, const std::string& why) {
  std::printf("task_soak: %s of task %llu: %s\n", what, static_cast<unsigned long long>(number),
              why.c_str());
  std::fflush(stdout);
  std::_Exit(1);
}

void Expect(const Tasks& tasks, task::Error error, const char* what, uint64_t number) {
  if (error != task::Error::kNone) Fail(what, number, tasks.Describe(error));
}

// Most tasks are narrow, as a program's would be; one in 64 is of any width.
struct Form {
  explicit Form(uint64_t chance)
      : threads(chance % 64 == 0 ? 1 + (chance >> 8) % task::kMostThreads : 1 + (chance >> 8) % 64),
        blocks((chance >> 20) % 8 == 0 ? 1 + (chance >> 24) % 3 : 1),
        body((chance >> 28) % 4 == 0 ? (chance >> 32) % kBodies : 0),
        follows((chance >> 36) % 64 == 0),
        checks((chance >> 44) % 256 == 0),
        waits((chance >> 52) % 2048 == 0) {}

  unsigned threads, blocks, body;
  bool follows, checks, waits;
};

// The tasks of one host thread: numbers first, first + step, ... below `end`.
class Feeder {
 public:
  Feeder(Tasks& tasks, Cell* cells, uint64_t seed) : tasks_(tasks), cells_(cells), seed_(seed) {}

  void Feed(uint64_t first, uint64_t step, uint64_t end) {
    for (uint64_t number = first; number < end; number += step) {
      const uint64_t chance = Mix(seed_ + number);
      const Form form(chance);
      Spawn(number, form, recent_[chance % recent_.size()]);
      Count& count = counts_[form.body];
      ++count.tasks;
      count.threads += form.threads * form.blocks;
      count.sum += Mix(number);
      if (form.checks) Look(number, Mix(chance) % recent_.size(), form.waits);
    }
  }

  /// All that are still known have run.
  void ExpectDone() {
    for (uint64_t i = 0; i < recent_.size(); ++i) {
      if (recent_[i].sequence == 0) continue;
      if (!IsDone(i, recent_[i])) Fail("check behind all", i, "it has not run");
    }
  }

  const std::array<Count, kBodies>& counts() const { return counts_; }

 private:
  void Spawn(uint64_t number, const Form& form, task::TaskId& id) {
    task::TaskShape shape{.threads = form.threads, .blocks = form.blocks};
    if (form.body % 2 == 1) shape.shared_bytes = form.threads * sizeof(unsigned);
    shape.uses_barrier = form.body >= 2;
    if (form.follows) shape.after = id;
    Expect(tasks_, SpawnBody(form.body, shape, &id, number), "spawn", number);
  }

  task::Error SpawnBody(unsigned body, const task::TaskShape& shape, task::TaskId* id,
                        uint64_t number) {
    switch (body) {
      case 0:
        return tasks_.Spawn<Plain>(shape, id, cells_, number);
      case 1:
        return tasks_.Spawn<Shared>(shape, id, cells_, number);
      case 2:
        return tasks_.Spawn<Barrier>(shape, id, cells_, number);
      default:
        return tasks_.Spawn<Both>(shape, id, cells_, number);
    }
  }

  void Look(uint64_t number, uint64_t which, bool waits) {
    const task::TaskId id = recent_[which];
    if (id.sequence == 0) return;
    if (waits) Expect(tasks_, tasks_.Wait(id), "wait", number);
    if (!IsDone(number, id) && waits) Fail("check behind a wait", number, "it has not run");
  }

  bool IsDone(uint64_t number, const task::TaskId& id) {
    bool is_done = false;
    Expect(tasks_, tasks_.Check(id, &is_done), "check", number);
    return is_done;
  }

  Tasks& tasks_;
  Cell* const cells_;
  const uint64_t seed_;
  std::array<task::TaskId, 1024> recent_{};
  std::array<Count, kBodies> counts_{};
};

void Must(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::printf("task_soak: %s\n", cudaGetErrorString(error));
  std::exit(1);
}

void Add(Count& to, const Count& more) {
  to.tasks += more.tasks;
  to.threads += more.threads;
  to.sum += more.sum;
  to.wrong += more.wrong;
}

bool Compare(const std::vector<Feeder>& feeders, const std::vector<Cell>& cells) {
  static const char* const names[] = {"plain", "shared", "barrier", "both"};
  bool good = true;
  for (unsigned body = 0; body < kBodies; ++body) {
    Count expected{}, found{};
    for (const Feeder& feeder : feeders) Add(expected, feeder.counts()[body]);
    for (const Cell& cell : cells) Add(found, cell.of_body[body]);
    const bool same = found.tasks == expected.tasks && found.threads == expected.threads &&
                      found.sum == expected.sum && found.wrong == 0;
    std::printf("%s: %llu tasks, %llu threads\n", names[body], found.tasks, found.threads);
    if (same) continue;
    good = false;
    std::printf(
        "task_soak: %s: %llu tasks, %llu threads, sum %llx were put in, not sum %llx; "
        "%llu threads found another's word\n",
        names[body], expected.tasks, expected.threads, expected.sum, found.sum, found.wrong);
  }
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  const uint64_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 3000;
  const unsigned threads = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 2;
  const uint64_t seed = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1;
  if (count == 0 || threads == 0) {
    std::printf("task_soak [TASKS [HOST_THREADS [SEED]]]\n");
    return 2;
  }
  Cell* cells = nullptr;
  Must(cudaMalloc(&cells, kCells * sizeof(Cell)));
  Must(cudaMemset(cells, 0, kCells * sizeof(Cell)));
  Must(cudaDeviceSynchronize());  // tasks run beside the default stream
  Tasks tasks;
  tasks.set_time_limit(std::chrono::seconds(20));  // none of them takes long
  std::vector<Feeder> feeders(threads, Feeder(tasks, cells, Mix(seed)));
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> others;
  for (unsigned i = 1; i < threads; ++i) {
    others.emplace_back([&, i] { feeders[i].Feed(i, threads, count); });
  }
  feeders[0].Feed(0, threads, count);
  for (std::thread& other : others) other.join();
  Expect(tasks, tasks.WaitAll(), "wait behind the last", count);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  for (Feeder& feeder : feeders) feeder.ExpectDone();
  std::vector<Cell> found(kCells);
  Must(cudaMemcpy(found.data(), cells, kCells * sizeof(Cell), cudaMemcpyDeviceToHost));
  const bool good = Compare(feeders, found);
  std::printf(
      "%u host threads, seed %llu, %.3f s, %.3f M tasks/s, %u launches of the MasterKernel\n",
      threads, static_cast<unsigned long long>(seed), seconds.count(),
      static_cast<double>(count) / seconds.count() / 1e6, tasks.launches());
  std::printf("tasks %llu %s\n", static_cast<unsigned long long>(count), good ? "ok" : "WRONG");
  return good ? 0 : 1;
}
