// Tasks as tasks of a cupola::task::TaskSystem. Copies: inside (the task copies between memory of
// the host and of the device), or bulk (piece by piece: one call for the inputs of many tasks,
// which are spawned when it is through, and one for their outputs).
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "cupola/task.h"
#include "fused_forms.cuh"

namespace pagoda {

struct SyncTask {
  __device__ void operator()() const { cupola::task::SyncBlock(); }
};

template <class Kind>
__device__ void TaskBody(typename Kind::Args arguments, const char* host_in, char* host_out) {
  namespace task = cupola::task;
  const unsigned threads = task::BlockThreads();
  RunWithCopies<Kind>(
      Block<SyncTask>{task::BlockId() * threads + task::ThreadId(), task::GridBlocks() * threads,
                      static_cast<char*>(task::SharedMemory()), SyncTask{}},
      arguments, host_in, host_out);
}

template <class Kinds, cupola::task::Registers kRegisters>
struct TasksOf;

template <class... K, cupola::task::Registers kRegisters>
struct TasksOf<KindList<K...>, kRegisters> {
  using System = cupola::task::TaskSystemOf<kRegisters, TaskBody<K>...>;
};

/// Registers of a thread that an application's tasks are given: App::kRegisters, else 32.
template <class App>
constexpr auto RegistersOf(int) -> decltype(cupola::task::Registers{App::kRegisters}) {
  return cupola::task::Registers{App::kRegisters};
}
template <class App>
constexpr cupola::task::Registers RegistersOf(...) {
  return cupola::task::Registers::k32;
}

template <class App>
class TasksForm : public Form {
 public:
  using System = typename TasksOf<typename App::Kinds, RegistersOf<App>(0)>::System;

  /// `batch` > 0: waits for all tasks after so many.
  TasksForm(const Bed& bed, Copies copies, size_t batch, bool latency)
      : bed_(bed), copies_(copies), batch_(batch), latency_(latency), stream_(1) {}
  ~TasksForm() override {
    for (cudaEvent_t event : events_) cudaEventDestroy(event);
  }

  void Prepare() override {
    ids_.resize(bed_.task_count());
    order_ = OrderByNeeds();
    if (copies_ != Copies::kBulk) return;
    events_.resize((bed_.task_count() + kPiece - 1) / kPiece);
    for (cudaEvent_t& event : events_) {
      CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    }
  }

  void Run() override {
    if (copies_ != Copies::kNone && bed_.load().in_place) {
      bed_.PlaceWhole(stream_[0]);
      stream_.Await();
    }
    if (latency_ && bed_.load().needs.empty()) {
      RunTimed();
    } else if (copies_ == Copies::kBulk && !bed_.load().in_place) {
      RunPieces();
    } else if (batch_ == 0 && !bed_.load().needs.empty()) {
      RunByNeeds();
    } else {
      RunWaves();
    }
    if (copies_ != Copies::kNone) bed_.FetchWhole(stream_[0]);
    stream_.Await();
  }

  double latency_us() const override { return latency_us_; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kPiece = 1024;  // tasks whose inputs are copied by one call
  /// Tasks that start behind another share an SM with it: so many, and not a whole wave.
  static constexpr unsigned kFollowers = 2;

  void RunWaves() {
    size_t first = 0;
    for (const size_t last : bed_.load().wave_ends) {
      while (first < last) {
        const size_t end = batch_ > 0 ? std::min(first + batch_, last) : last;
        for (; first < end; ++first) Spawn(first);
        Must(system_.WaitAll());
      }
    }
  }

  /// Tasks that depend on each other, without waits between waves (README.md, "slud"). A task
  /// starts behind the last of those that it needs and that still run, by the device
  /// (TaskShape::after), unless enough others do; for those that are left, if any, the host waits
  /// before it puts the task in.
  void RunByNeeds() {
    constexpr unsigned kNone = ~0u;
    has_ended_.assign(bed_.task_count(), false);
    followers_.assign(bed_.task_count(), 0);
    for (const unsigned task : order_) {
      unsigned last = kNone;
      for (const unsigned need : bed_.load().needs[task]) {
        if (!HasEnded(need) && (last == kNone || need > last)) last = need;
      }
      if (last != kNone && followers_[last]++ >= kFollowers) last = kNone;
      for (const unsigned need : bed_.load().needs[task]) {
        if (need != last) AwaitEnd(need);
      }
      Spawn(task, last == kNone ? cupola::task::TaskId{} : ids_[last]);
    }
    Must(system_.WaitAll());
  }

  bool HasEnded(unsigned task) {
    bool is_done = has_ended_[task];
    if (!is_done) Must(system_.Check(ids_[task], &is_done));
    has_ended_[task] = is_done;
    return is_done;
  }

  void AwaitEnd(unsigned task) {
    if (!has_ended_[task]) Must(system_.Wait(ids_[task]));
    has_ended_[task] = true;
  }

  /// Every task behind those that it needs, and those first that most others in a row wait for.
  std::vector<unsigned> OrderByNeeds() const {
    const auto& needs = bed_.load().needs;
    std::vector<unsigned> in_a_row(needs.size()), order(needs.size());
    for (size_t i = needs.size(); i-- > 0;) {
      order[i] = static_cast<unsigned>(i);
      for (const unsigned need : needs[i]) {
        in_a_row[need] = std::max(in_a_row[need], in_a_row[i] + 1);
      }
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](unsigned a, unsigned b) { return in_a_row[a] > in_a_row[b]; });
    return order;
  }

  void RunPieces() {
    const size_t count = bed_.task_count();
    for (size_t i = 0; i < events_.size(); ++i) {
      bed_.CopyIn(i * kPiece, std::min((i + 1) * kPiece, count), stream_[0]);
      CHECK(cudaEventRecord(events_[i], stream_[0]));
    }
    constexpr size_t kAhead = 3;  // pieces that run while the one before them is waited for
    for (size_t i = 0; i < events_.size() + kAhead; ++i) {
      if (i < events_.size()) {
        CHECK(cudaEventSynchronize(events_[i]));
        for (size_t task = i * kPiece; task < std::min((i + 1) * kPiece, count); ++task)
          Spawn(task);
      }
      if (i >= kAhead) Finish((i - kAhead) * kPiece, std::min((i - kAhead + 1) * kPiece, count));
    }
    out_stream_.Await();
  }

  void Finish(size_t first, size_t last) {
    for (size_t task = first; task < last; ++task) Must(system_.Wait(ids_[task]));
    bed_.CopyOut(first, last, out_stream_[0]);
  }

  /// A second thread looks which tasks have ended; it goes round all that run, which takes some
  /// ten microseconds.
  void RunTimed() {
    const size_t count = bed_.task_count();
    std::vector<Clock::time_point> starts(count);
    std::atomic<size_t> spawned{0};
    double sum_us = 0;
    std::thread watch([&] {
      std::vector<size_t> running;
      for (size_t seen = 0, ended = 0; ended < count;) {
        for (const size_t now = spawned.load(std::memory_order_acquire); seen < now; ++seen) {
          running.push_back(seen);
        }
        for (size_t i = 0; i < running.size();) {
          bool is_done = false;
          Must(system_.Check(ids_[running[i]], &is_done));
          if (!is_done) {
            ++i;
            continue;
          }
          sum_us +=
              std::chrono::duration<double, std::micro>(Clock::now() - starts[running[i]]).count();
          running[i] = running.back();
          running.pop_back();
          ++ended;
        }
      }
    });
    for (size_t i = 0; i < count; ++i) {
      starts[i] = Clock::now();
      Spawn(i);
      spawned.store(i + 1, std::memory_order_release);
    }
    Must(system_.WaitAll());
    watch.join();
    latency_us_ = sum_us / static_cast<double>(count);
  }

  void Spawn(size_t i, cupola::task::TaskId after = {}) {
    const Task& task = bed_.load().tasks[i];
    const bool inside = copies_ == Copies::kInside && !bed_.load().in_place;
    const char* const host_in = inside ? bed_.host().in + task.in : nullptr;
    char* const host_out = inside ? bed_.host().out + task.out : nullptr;
    App::Kinds::With(task.kind, [&](auto tag) {
      using Kind = typename decltype(tag)::Type;
      const cupola::task::TaskShape shape{
          .threads = task.threads,
          .blocks = bed_.config().blocks,
          .shared_bytes = Kind::SharedBytes(task.threads, task.size),
          .uses_barrier = Kind::kBarrier || inside,
          .after = after};
      Must(system_.template Spawn<TaskBody<Kind>>(
          shape, &ids_[i],
          *reinterpret_cast<const typename Kind::Args*>(bed_.records()[i].arguments), host_in,
          host_out));
    });
  }

  void Must(cupola::task::Error error) const {
    if (error == cupola::task::Error::kNone) return;
    std::fprintf(stderr, "tasks: error %d, CUDA: %s\n", static_cast<int>(error),
                 cudaGetErrorString(system_.cuda_error()));
    std::exit(1);
  }

  const Bed& bed_;
  const Copies copies_;
  const size_t batch_;
  const bool latency_;
  Streams stream_, out_stream_{1};
  System system_;
  std::vector<cupola::task::TaskId> ids_;
  std::vector<unsigned> order_;      // of tasks that depend on each other
  std::vector<char> has_ended_;      // of each of these, as far as the host has seen
  std::vector<unsigned> followers_;  // of each, started by the device
  std::vector<cudaEvent_t> events_;
  double latency_us_ = 0;
};

}  // namespace pagoda
