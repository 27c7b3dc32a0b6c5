// The MasterKernel of a context and its TaskTable: memory that both sides see, launching it,
// putting tasks in, waiting for them. It serves one module at a time. docs/launches-as-tasks.md.
#pragma once

#include <cuda.h>
#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "device/runtime/task_table.h"
#include "intercept/images/images.h"
#include "intercept/process/fast_clock.h"
#include "intercept/tasks/context_rest.h"
#include "intercept/tasks/task_watch.h"

namespace cupola::intercept::tasks {

/// When a wait for tasks ends.
enum class Until : uint8_t {
  kOver,         ///< they have run, or the engine is dead
  kOverOrStuck,  ///< or none has gone on for as long as a wait of ours may last so, though nobody asks the
                 ///< process to yield: a task may wait for what only the program can bring about
};

class TaskEngine {
 public:
  enum class State : uint8_t { kNone, kReady, kDead };

  /// `index`: among the engines of the process (task_engines.h).
  TaskEngine(CUcontext context, uint32_t index) : context_(context), index_(index) {}

  State state() const noexcept { return state_.load(std::memory_order_acquire); }
  bool IsReady() const noexcept { return state() == State::kReady && !HasEnded(); }
  /// Its context has, as far as is known; another may have the same handle.
  bool HasEnded() const noexcept { return has_ended_.load(std::memory_order_acquire); }
  /// From then on no MasterKernel is launched.
  void SetEnded(bool ended) noexcept;
  bool IsOf(uint64_t context) const noexcept {
    return reinterpret_cast<CUcontext>(context) == context_;
  }
  /// Whether it calls functions of this image; null: whether it serves none, its own was unloaded.
  bool Serves(const Image* image) const noexcept {
    return image_.load(std::memory_order_acquire) == image;
  }

  /// Sets it up for an image of its context, which is current: afterwards the state is kReady or
  /// kDead, or still kNone where the context does not come to rest (context_rest.h). May wait for
  /// the device.
  void Open(Image* image) noexcept;

  /// Serves another image of its context from now on; goes on with its own where that cannot be
  /// loaded, or the context does not come to rest. Waits for all tasks and until the MasterKernel
  /// is gone; may wait for the device. Nobody puts a task in meanwhile (AllStreams).
  void TurnTo(Image* image) noexcept;

  /// A task will be put into a column: TaskTable::Prefetch.
  void Prefetch(uint32_t column) const noexcept { table_->Prefetch(column); }

  /// Puts a task behind `last` of the same column, and `last` becomes the new one. Waits while the
  /// column is full, and says so. False: it was not put in, for the engine is dead, or stuck.
  bool Put(uint32_t column, runtime::TaskWords* words, runtime::TaskId* last,
           bool* was_full) noexcept;

  /// Launches the MasterKernel unless one takes tasks. Inline: the usual case is one load.
  bool EnsureRunning() noexcept { return *running_ != 0 || Launch(); }
  /// Ready, and the MasterKernel has been launched and has not left.
  bool IsRunning() const noexcept { return IsReady() && *running_ != 0; }

  /// What was put in will be run, whatever the host does: to be called before it may block on it.
  void MakeSureOf() noexcept;

  bool IsDone(const runtime::TaskId& id) const noexcept { return table_->IsDone(id); }
  bool HaveAllRun() const noexcept;
  /// No task is outstanding, and no MasterKernel runs.
  bool IsIdle() const noexcept { return !IsRunning() && HaveAllRun(); }
  /// Until it, or all there are, have run. False: stuck.
  bool WaitFor(const runtime::TaskId& id, Until until = Until::kOver) noexcept;
  bool WaitForAll(Until until) noexcept;

  /// Of the tasks of a stream of which `last` is the last, how many have not run.
  uint32_t CountLeft(const runtime::TaskId& last) const noexcept;

  /// The program asks again and again whether a task of that column has run, or waits for it: one
  /// that does not end is named (task_watch.h).
  void LookAt(uint32_t column) noexcept;

  /// Has the MasterKernel leave when it has run what is there.
  void AskToLeave() noexcept;

  /// Has it leave as soon as the blocks that run have ended. None is launched before GoOn, which
  /// runs the rest: to be called until it returns true. Streams have hardware queues of their own, or
  /// the launch could come behind a wait for one of its tasks.
  void Hold() noexcept;
  bool GoOn() noexcept;
  bool IsHeld() const noexcept { return is_held_.load(std::memory_order_acquire); }
  /// Whether tasks wait until it goes on.
  bool HasHeldTasks() const noexcept;

  /// Whether one is on the GPU, or on its way there. Asks the driver while one leaves.
  bool IsResident() noexcept;

  /// Asks the driver; false: the context has faulted, and the engine is dead.
  bool IsWell() noexcept;
  /// Whether that was last done `every` ns ago or longer; then it is about to be.
  bool IsTimeToAsk(uint64_t now_ns, uint64_t every_ns) noexcept {
    if (now_ns - asked_ns_.load(std::memory_order_relaxed) < every_ns) return false;
    asked_ns_.store(now_ns, std::memory_order_relaxed);
    return true;
  }

  static constexpr uint64_t kAskEveryNs = 10'000'000;

  /// For who asks again and again for a task that has not run: launches the MasterKernel unless one
  /// takes tasks, and asks the driver now and then. False: the engine is dead.
  bool GoesOn() noexcept {
    return EnsureRunning() && (!IsTimeToAsk(NowNs(), kAskEveryNs) || IsWell());
  }

  /// The word that says that a task is done, for the device, and what it says then.
  CUdeviceptr DoneAddress(const runtime::TaskId& id) const noexcept;

  /// That are pulled from: MTBs of the module that it serves.
  uint32_t columns() const noexcept { return columns_.load(std::memory_order_relaxed); }
  CUcontext context() const noexcept { return context_; }
  uint32_t index() const noexcept { return index_; }

  /// An image is about to be unloaded; its tasks have run. Its MasterKernel is not launched again.
  void ForgetImage(const void* owner) noexcept;

  /// Its tasks cannot run any more.
  void Close() noexcept { state_.store(State::kDead, std::memory_order_release); }

 private:
  const char* Allocate() noexcept;
  const char* Bind(Image* image) noexcept;
  const char* Prepare(Image* image) noexcept;
  bool Launch() noexcept;
  enum class End : uint8_t { kOver, kDead, kStuck };
  template <typename IsOver, typename Column>
  End Await(IsOver is_over, Column column, Until until) noexcept;
  /// What a wait has seen of the oldest task of the column that it is at.
  struct Seen {
    uint32_t column = UINT32_MAX;
    uint64_t oldest = 0, since_ns = 0, looked_ns = 0;
  };
  bool IsStuck(uint32_t column, Seen* seen) noexcept;

  std::atomic<State> state_{State::kNone};
  std::atomic<bool> may_be_resident_{false}, is_held_{false};
  std::atomic<uint64_t> asked_ns_{0};
  std::atomic<const Image*> image_{nullptr};
  const CUcontext context_;
  const uint32_t index_;
  // Of setting up and of launches. Setting up waits until what was stopped is over, and the agent,
  // which lets that go on, asks engines that are ready whether they run: not one mutex for all.
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  std::atomic<bool> has_ended_{false};
  CUstream stream_ = nullptr;
  std::atomic<bool> counts_stream_{false};  ///< among the live ones (facts/live_streams.h)
  CUfunction master_ = nullptr;
  uint32_t threads_ = 0;  ///< of an MTB
  volatile uint32_t* running_ = nullptr;
  std::unique_ptr<runtime::TaskTable> table_;
  runtime::HostControl* control_ = nullptr;
  runtime::MasterParams params_{};
  TaskWatch watch_;
  /// The oldest task of the column in which the last wait was stuck: column, 48 bits of sequence.
  std::atomic<uint64_t> stuck_at_{UINT64_MAX};
  ContextRest rest_;  ///< under the mutex, or with nobody else about
  int sms_ = 0;
  uint32_t all_columns_ = 0;  ///< of the table: MTBs of the class that has most
  std::atomic<uint32_t> columns_{0};
};

}  // namespace cupola::intercept::tasks
