// Tasks of every form, each compared with what it must give: partial warps, threads that return
// before others wait, shared memory of all sizes, several blocks, arguments of all alignments, a
// table that is full, several host threads, a MasterKernel that has left in between, and bad use.
// Runs on the simulated device and on a GPU; task_forms [TASKS] prints what failed.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "cupola/task.h"

namespace task = cupola::task;

namespace {

int failures = 0;

void Expect(bool holds, const char* what, unsigned number) {
  if (holds) return;
  if (++failures <= 20) std::fprintf(stderr, "task_forms: %s, task %u\n", what, number);
}

void Must(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "task_forms: %s\n", cudaGetErrorString(error));
  std::exit(1);
}

__host__ __device__ inline unsigned Mix(unsigned value) {
  value ^= value >> 16;
  value *= 0x7feb352du;
  value ^= value >> 15;
  value *= 0x846ca68bu;
  return value ^ (value >> 16);
}

// ---- bodies ----

__device__ void Plain(unsigned* out, unsigned seed) {
  const unsigned i = task::BlockId() * task::BlockThreads() + task::ThreadId();
  out[i] = task::SharedMemory() == nullptr ? Mix(seed + i) : 0;
}

// Counts itself in: each thread of each block once.
__device__ void Count(unsigned* out) {
  atomicAdd(&out[task::BlockId() * task::BlockThreads() + task::ThreadId()], 1u);
}

struct Odd {
  char letter;
  short number;
};

__device__ void Aligned(char a, double* out, char b, unsigned long long c, Odd odd, float f,
                        char d) {
  if (task::ThreadId() == 0) {
    *out = a + b + static_cast<double>(c) + odd.letter + odd.number + f + d;
  }
}

// Sums by halves in shared memory. Every third thread, in some tasks, has returned before.
__device__ void Sum(const unsigned* in, unsigned* out, unsigned count, bool some_return) {
  auto* const words = static_cast<unsigned*>(task::SharedMemory());
  const unsigned thread = task::ThreadId(), first = task::BlockId() * count;
  words[thread] = thread < count ? in[first + thread] : 0;
  task::SyncBlock();
  if (some_return && thread % 3 == 1) {
    words[thread] *= 2;  // its own
    return;
  }
  task::SyncBlock();
  if (thread == 0) {
    unsigned sum = 0;
    for (unsigned i = 0; i < count; ++i) sum += words[i];
    out[task::BlockId()] = sum;
  }
}

// Each thread writes the whole of its part of the block's shared memory again and again, and looks
// whether anyone else did.
__device__ void Guard(unsigned* out, unsigned words_of_block, unsigned seed) {
  auto* const words = static_cast<unsigned*>(task::SharedMemory());
  unsigned wrong = 0;
  for (unsigned round = 0; round < 3; ++round) {
    for (unsigned i = task::ThreadId(); i < words_of_block; i += task::BlockThreads()) {
      words[i] = Mix(seed + round + i);
    }
    task::SyncBlock();
    for (unsigned i = task::ThreadId(); i < words_of_block; i += task::BlockThreads()) {
      wrong += words[words_of_block - 1 - i] != Mix(seed + round + words_of_block - 1 - i);
    }
    task::SyncBlock();
  }
  if (wrong != 0) atomicAdd(out, wrong);
}

// What the task before it in a chain left, and one more.
__device__ void Step(unsigned* words, unsigned before, unsigned* wrong) {
  const unsigned other = (task::ThreadId() + 33) % task::BlockThreads();
  if (words[before * task::BlockThreads() + other] != before) atomicAdd(wrong, 1u);
  words[(before + 1) * task::BlockThreads() + task::ThreadId()] = before + 1;
}

// Until the host lets it go; then the first step of a chain.
__device__ void Hold(const volatile unsigned* goes, unsigned* words) {
  while (*goes == 0) {
  }
  words[task::ThreadId()] = 0;
}

using Tasks = task::TaskSystem<Plain, Count, Aligned, Sum, Guard, Step, Hold>;

// ---- checks ----

struct Device {
  explicit Device(size_t words) : count(words) {
    Must(cudaMalloc(&memory, words * 4));
    Must(cudaMemset(memory, 0, words * 4));
    Must(cudaDeviceSynchronize());  // tasks run beside the default stream
  }
  ~Device() { cudaFree(memory); }
  std::vector<unsigned> Read() const {
    std::vector<unsigned> found(count);
    Must(cudaMemcpy(found.data(), memory, count * 4, cudaMemcpyDeviceToHost));
    return found;
  }
  unsigned* memory = nullptr;
  size_t count;
};

task::TaskId Good(task::Error error, const task::TaskId& id) {
  Expect(error == task::Error::kNone, "an error", static_cast<unsigned>(error));
  return id;
}

void CheckPlain(Tasks& tasks, unsigned count) {
  constexpr unsigned kMost = 256;
  Device out(static_cast<size_t>(count) * kMost);
  task::TaskId id{};
  for (unsigned i = 0; i < count; ++i) {
    const unsigned blocks = 1 + i % 3, threads = 1 + Mix(i) % (kMost / blocks);
    Good(tasks.Spawn<Plain>({.threads = threads, .blocks = blocks}, &id, out.memory + i * kMost, i),
         id);
  }
  Good(tasks.WaitAll(), id);
  const std::vector<unsigned> found = out.Read();
  for (unsigned i = 0; i < count; ++i) {
    const unsigned blocks = 1 + i % 3, threads = 1 + Mix(i) % (kMost / blocks);
    for (unsigned j = 0; j < kMost; ++j) {
      Expect(found[i * kMost + j] == (j < blocks * threads ? Mix(i + j) : 0), "plain", i);
    }
  }
}

void CheckWait(Tasks& tasks, unsigned count) {
  Device out(64);
  for (unsigned i = 0; i < count; ++i) {
    task::TaskId id{};
    Good(tasks.Spawn<Count>({.threads = 64}, &id, out.memory), id);
    if (i % 2 == 0) {
      Good(tasks.Wait(id), id);
    } else {
      bool is_done = false;
      while (!is_done) Good(tasks.Check(id, &is_done), id);
    }
  }
  for (const unsigned found : out.Read()) Expect(found == count, "count", found);
}

void CheckAligned(Tasks& tasks) {
  Device out(2);
  task::TaskId id{};
  Good(tasks.Spawn<Aligned>({.threads = 40}, &id, 'a', reinterpret_cast<double*>(out.memory), 'b',
                            1ull << 40, Odd{'c', -7}, 0.5f, 'd'),
       id);
  Good(tasks.Wait(id), id);
  double found = 0;
  Must(cudaMemcpy(&found, out.memory, sizeof found, cudaMemcpyDeviceToHost));
  Expect(found == 'a' + 'b' + static_cast<double>(1ull << 40) + 'c' - 7 + 0.5 + 'd', "aligned", 0);
}

void CheckSum(Tasks& tasks, unsigned count) {
  constexpr unsigned kMost = 512;
  Device in(static_cast<size_t>(count) * kMost), out(static_cast<size_t>(count) * 4);
  std::vector<unsigned> words(in.count);
  for (size_t i = 0; i < words.size(); ++i) words[i] = Mix(static_cast<unsigned>(i));
  Must(cudaMemcpy(in.memory, words.data(), words.size() * 4, cudaMemcpyHostToDevice));
  const auto threads_of = [](unsigned i) { return 1 + Mix(i + 99) % 150; };
  task::TaskId id{};
  for (unsigned i = 0; i < count; ++i) {
    const unsigned threads = threads_of(i), blocks = 1 + i % 3;
    Good(tasks.Spawn<Sum>({.threads = threads,
                           .blocks = blocks,
                           .shared_bytes = threads * 4,
                           .uses_barrier = true},
                          &id, in.memory + i * kMost, out.memory + i * 4, threads, i % 2 == 1),
         id);
  }
  Good(tasks.WaitAll(), id);
  const std::vector<unsigned> found = out.Read();
  for (unsigned i = 0; i < count; ++i) {
    for (unsigned block = 0; block < 1 + i % 3; ++block) {
      unsigned sum = 0;
      for (unsigned j = 0; j < threads_of(i); ++j) {
        sum += words[i * kMost + block * threads_of(i) + j] * (i % 2 == 1 && j % 3 == 1 ? 2 : 1);
      }
      Expect(found[i * 4 + block] == sum, "sum", i);
    }
  }
}

void CheckGuard(Tasks& tasks, unsigned count) {
  Device out(count);
  task::TaskId id{};
  for (unsigned i = 0; i < count; ++i) {
    const unsigned words = 1 + Mix(i) % (i % 16 == 0 ? task::kMostSharedBytes / 4 : 400);
    Good(tasks.Spawn<Guard>(
             {.threads = 1 + Mix(i + 5) % 100, .shared_bytes = words * 4, .uses_barrier = true},
             &id, out.memory + i, words, i),
         id);
  }
  Good(tasks.WaitAll(), id);
  const std::vector<unsigned> found = out.Read();
  for (unsigned i = 0; i < count; ++i) Expect(found[i] == 0, "shared memory of another", i);
}

// Chains side by side; the host waits for their ends only.
void CheckChains(Tasks& tasks, unsigned length) {
  constexpr unsigned kChains = 12, kThreads = 96;
  Device wrong(1), words(static_cast<size_t>(kChains) * (length + 1) * kThreads);
  std::vector<task::TaskId> last(kChains);
  for (unsigned i = 0; i < length; ++i) {
    for (unsigned chain = 0; chain < kChains; ++chain) {
      unsigned* const of_chain = words.memory + chain * (length + 1) * kThreads;
      task::TaskId id{};
      Good(tasks.Spawn<Step>({.threads = kThreads, .after = last[chain]}, &id, of_chain, i,
                             wrong.memory),
           id);
      last[chain] = id;
    }
  }
  for (const task::TaskId& id : last) Good(tasks.Wait(id), id);
  Expect(wrong.Read()[0] == 0, "chain", wrong.Read()[0]);
}

void CheckThreads(Tasks& tasks, unsigned count) {
  constexpr unsigned kHostThreads = 4;
  Device out(static_cast<size_t>(count) * kHostThreads * 32);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kHostThreads; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned i = 0; i < count; ++i) {
        task::TaskId id{};
        if (tasks.Spawn<Count>({.threads = 32}, &id, out.memory + (t * count + i) * 32) !=
                task::Error::kNone ||
            (i % 7 == 0 && tasks.Wait(id) != task::Error::kNone)) {
          std::exit(1);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Good(tasks.WaitAll(), {});
  for (const unsigned found : out.Read()) Expect(found == 1, "host threads", found);
}

// Asked to leave with tasks that have not run, with none, and where none is there.
void CheckAskedToLeave(Tasks& tasks, unsigned rounds) {
  constexpr unsigned kCount = 200;
  Device out(32);
  const uint32_t before = tasks.launches();
  for (unsigned i = 0; i < rounds; ++i) {
    task::TaskId id{};
    for (unsigned j = 0; j < kCount; ++j) {
      Good(tasks.Spawn<Count>({.threads = 32}, &id, out.memory), id);
    }
    for (unsigned times = 0; times < 1 + i % 2; ++times) Good(tasks.Leave(), id);
    bool is_done = false;
    Good(tasks.Check(id, &is_done), id);
    Expect(is_done, "the MasterKernel has left and the task has not run", i);
    for (const unsigned found : out.Read()) Expect(found == (i + 1) * kCount, "left", found);
  }
  Expect(tasks.launches() >= before + rounds, "launches, asked", tasks.launches() - before);
}

void Pause() {
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(1)) {
  }
}

// Nothing runs, and for so long that the next task is launched by itself.
void Rest(Tasks& tasks) {
  Good(tasks.Leave(), {});
  Pause();
}

// Each check puts one task in first.
void CheckSolo(Tasks& tasks) {
  const auto one = [&](auto check) {
    Rest(tasks);
    const uint32_t solo = tasks.solo_launches(), launches = tasks.launches();
    check();
    Expect(tasks.solo_launches() == solo + 1, "solo launches", tasks.solo_launches() - solo);
    Expect(tasks.launches() == launches, "launches beside one", tasks.launches() - launches);
  };
  one([&] { CheckAligned(tasks); });
  one([&] { CheckPlain(tasks, 1); });
  one([&] { CheckSum(tasks, 1); });
  one([&] { CheckGuard(tasks, 1); });
  for (const unsigned blocks : {1u, 7u, 300u}) {
    Device out(blocks * 70);
    one([&] {
      task::TaskId id{};
      Good(tasks.Spawn<Plain>({.threads = 70, .blocks = blocks}, &id, out.memory, blocks), id);
      bool is_done = false;
      while (!is_done) Good(tasks.Check(id, &is_done), id);
    });
    const std::vector<unsigned> found = out.Read();
    for (unsigned i = 0; i < out.count; ++i) Expect(found[i] == Mix(blocks + i), "solo", i);
  }
  Rest(tasks);
  const uint32_t launches = tasks.launches();
  CheckPlain(tasks, 30);  // in a row
  Expect(tasks.launches() > launches, "launches behind one", tasks.launches() - launches);
}

// A task that was launched by itself and goes on: those behind it wait for it, all others do not.
void CheckBehindSolo(Tasks& tasks) {
  constexpr unsigned kThreads = 40;
  unsigned *goes = nullptr, *goes_there = nullptr;
  Must(cudaHostAlloc(&goes, sizeof *goes, cudaHostAllocMapped));
  Must(cudaHostGetDevicePointer(&goes_there, goes, 0));
  *goes = 0;
  Device words(8 * kThreads), wrong(1), out(32);
  Must(cudaMemset(words.memory, 0xff, words.count * 4));
  Must(cudaDeviceSynchronize());
  Rest(tasks);
  const uint32_t solo = tasks.solo_launches();
  task::TaskId last{}, other{};
  Good(tasks.Spawn<Hold>({.threads = kThreads}, &last, goes_there, words.memory), last);
  for (unsigned step = 0; step < 3; ++step) {
    Good(tasks.Spawn<Step>({.threads = kThreads, .after = last}, &last, words.memory, step,
                           wrong.memory),
         last);
  }
  Expect(tasks.solo_launches() == solo + 4, "solo launches in a row", tasks.solo_launches() - solo);
  for (unsigned i = 0; i < 10; ++i) {
    Pause();
    Good(tasks.Spawn<Count>({.threads = 32}, &other, out.memory), other);
    Good(tasks.Wait(other), other);
  }
  Expect(tasks.solo_launches() == solo + 4, "solo launches beside", tasks.solo_launches() - solo);
  bool is_done = true;
  Good(tasks.Check(last, &is_done), last);
  Expect(!is_done, "a task did not wait", 0);
  *goes = 1;
  Good(tasks.Wait(last), last);
  for (unsigned step = 3; step < 7; ++step) {  // behind one that has ended
    Good(tasks.Spawn<Step>({.threads = kThreads, .after = last}, &last, words.memory, step,
                           wrong.memory),
         last);
  }
  Good(tasks.WaitAll(), last);
  Expect(wrong.Read()[0] == 0, "behind solo", wrong.Read()[0]);
  for (const unsigned found : out.Read()) Expect(found == 10, "beside solo", found);
  Must(cudaFreeHost(goes));
}

// What was left in a hurry is run when another task is put in: that one is not launched by itself.
void CheckBehindHurry(Tasks& tasks) {
  constexpr unsigned kBlocks = 20, kCount = 200;
  Device out(kBlocks * 32);
  Rest(tasks);
  task::TaskId id{};
  for (unsigned i = 0; i < kCount; ++i) {
    Good(tasks.Spawn<Count>({.threads = 32, .blocks = kBlocks}, &id, out.memory), id);
  }
  Good(tasks.LeaveNow(), id);
  Pause();
  const uint32_t solo = tasks.solo_launches();
  Good(tasks.Spawn<Count>({.threads = 32, .blocks = kBlocks}, &id, out.memory), id);
  Expect(tasks.solo_launches() == solo, "solo launches behind a hurry", 0);
  Must(cudaDeviceSynchronize());
  for (const unsigned found : out.Read()) Expect(found == kCount + 1, "behind a hurry", found);
}

// Long enough for the MasterKernel to leave; cudaFree waits for it.
void CheckLeaving(Tasks& tasks, unsigned rounds) {
  Device out(32);
  const uint32_t before = tasks.launches() + tasks.solo_launches();
  for (unsigned i = 0; i < rounds; ++i) {
    task::TaskId id{};
    Good(tasks.Spawn<Count>({.threads = 32}, &id, out.memory), id);
    Must(cudaDeviceSynchronize());
    bool is_done = false;
    Good(tasks.Check(id, &is_done), id);
    Expect(is_done, "the device is idle and the task has not run", i);
  }
  for (const unsigned found : out.Read()) Expect(found == rounds, "leaving", found);
  Expect(tasks.launches() + tasks.solo_launches() >= before + rounds - 1, "launches",
         tasks.launches() - before);
}

void CheckBadUse(Tasks& tasks) {
  task::TaskId id{};
  bool is_done = false;
  const auto is = [](task::Error error, task::Error expected) {
    Expect(error == expected, "bad use", static_cast<unsigned>(expected));
  };
  unsigned* const nowhere = nullptr;
  is(tasks.Spawn<Count>({.threads = 0}, &id, nowhere), task::Error::kTooManyThreads);
  is(tasks.Spawn<Count>({.threads = task::kMostThreads + 1}, &id, nowhere),
     task::Error::kTooManyThreads);
  is(tasks.Spawn<Count>({.threads = 32, .blocks = 0}, &id, nowhere), task::Error::kTooManyBlocks);
  is(tasks.Spawn<Count>({.threads = 32, .blocks = task::kMostBlocks + 1}, &id, nowhere),
     task::Error::kTooManyBlocks);
  is(tasks.Spawn<Count>({.threads = 32, .shared_bytes = task::kMostSharedBytes + 1}, &id, nowhere),
     task::Error::kTooMuchShared);
  const auto says = [&](const char* words) {
    const std::string said = tasks.Describe(task::Error::kUnknownTask);
    Expect(said.find(words) != said.npos, said.c_str(), 0);
  };
  Device out(32);
  Good(tasks.Spawn<Count>({.threads = 32}, &id, out.memory), id);
  Good(tasks.Wait(id), id);
  const uint32_t table = id.table;
  is(tasks.Spawn<Count>({.threads = 32, .after = {0, table, 0x7000'0000}}, &id, nowhere),
     task::Error::kUnknownTask);
  says("number 1879048192 of column 0, which has had ");
  is(tasks.Wait({0xffff, table, 1}), task::Error::kUnknownTask);
  says("column 65535 of ");
  is(tasks.Check({0, table, 0}, &is_done), task::Error::kUnknownTask);
  says("sequence 0");
  // Of another system, which has come as far.
  Tasks other;
  task::TaskId foreign{};
  Good(other.Spawn<Count>({.threads = 32}, &foreign, out.memory), foreign);
  is(tasks.Wait(foreign), task::Error::kUnknownTask);
  says(("it is of table " + std::to_string(foreign.table)).c_str());
  is(tasks.Check(foreign, &is_done), task::Error::kUnknownTask);
  is(tasks.Spawn<Count>({.threads = 32, .after = foreign}, &id, nowhere),
     task::Error::kUnknownTask);
  Good(other.Wait(foreign), foreign);
}

// Bodies with other registers: blocks as large as may be, and what is said of larger ones.
template <task::Registers kRegisters>
void CheckRegisters(unsigned count) {
  using System = task::TaskSystemOf<kRegisters, Count>;
  System tasks;
  Device out(System::kThreads);
  task::TaskId id{};
  for (unsigned i = 0; i < count; ++i) {
    Good(tasks.template Spawn<Count>({.threads = System::kThreads, .after = id}, &id, out.memory),
         id);
  }
  Good(tasks.WaitAll(), id);
  for (const unsigned found : out.Read()) Expect(found == count, "registers", found);
  const task::Error error =
      tasks.template Spawn<Count>({.threads = System::kThreads + 1}, &id, out.memory);
  Expect(error == task::Error::kTooManyThreads, "too many threads", System::kThreads);
  const std::string said = tasks.Describe(error);
  Expect(said.find(std::to_string(System::kThreads)) != said.npos, said.c_str(), 0);
}

}  // namespace

int main(int argc, char** argv) {
  const unsigned count = argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 200;
  {
    Tasks tasks;
    CheckPlain(tasks, count);
    CheckWait(tasks, count / 10 + 1);
    CheckAligned(tasks);
    CheckSum(tasks, count / 4);
    CheckGuard(tasks, count / 4);
    CheckChains(tasks, count / 4);
    CheckThreads(tasks, count / 4);
    CheckLeaving(tasks, 5);
    CheckSolo(tasks);
    CheckBehindSolo(tasks);
    CheckBehindHurry(tasks);
    CheckAskedToLeave(tasks, 5);
    CheckBadUse(tasks);
  }
  CheckRegisters<task::Registers::k64>(count / 10 + 1);
  CheckRegisters<task::Registers::k128>(count / 10 + 1);
  std::printf("task_forms: %d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
