// The engine of one context: its TaskTable, in memory that host and device share, and its
// MasterKernel, which the engine launches, sends away and launches again. It serves one module
// (image) at a time. task_engines.h creates and owns it; it lives until the process ends. Any
// thread may call it, unless a function says otherwise. If it cannot be set up, or its context
// faults, its state becomes kDead and its launches are plain. docs/task-order.md.
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
  /// When the tasks have run, or the engine is dead.
  kOver,
  /// Also when no task has made progress for task_settings.wait_limit_ns, not counting the time
  /// that the engine is held. Such a task may wait for something that only the program can bring
  /// about, such as a write to mapped memory; the wait is then *stuck*.
  kOverOrStuck,
};

class TaskEngine {
 public:
  enum class State : uint8_t { kNone, kReady, kDead };

  /// `index`: its number among the engines of the process (task_engines.h).
  TaskEngine(CUcontext context, uint32_t index) : context_(context), index_(index) {}

  State state() const noexcept { return state_.load(std::memory_order_acquire); }
  bool IsReady() const noexcept { return state() == State::kReady && IsAlive(); }
  /// Whether its context goes on, as far as is known. Where it has ended a later context may have the same handle.
  bool IsAlive() const noexcept { return life_.load(std::memory_order_acquire) == Life::kAlive; }
  /// Its context may be about to end: no MasterKernel is launched from now on.
  void Pause() noexcept;
  /// The context did not end after all, or it has ended. Each does nothing if the engine is not paused.
  void Resume() noexcept;
  void EndForGood() noexcept;
  bool IsOf(uint64_t context) const noexcept {
    return reinterpret_cast<CUcontext>(context) == context_;
  }
  /// Whether its MasterKernel calls functions of this image. With null: whether it serves no image,
  /// because its own was unloaded.
  bool Serves(const Image* image) const noexcept {
    return image_.load(std::memory_order_acquire) == image;
  }

  /// Sets the engine up for an image of its context, which must be current. Afterwards the state is
  /// kReady or kDead, or still kNone if the context's earlier work does not end (context_rest.h).
  /// May wait for the device.
  void Open(Image* image) noexcept;

  /// Makes the engine serve another image of its context. It keeps its present image if the other
  /// one cannot be loaded, or if the context's earlier work does not end. Waits for all tasks and
  /// until the MasterKernel is gone; may wait for the device. The caller holds AllStreams, so that
  /// no thread puts a task in meanwhile.
  void TurnTo(Image* image) noexcept;

  /// Prefetches what the host writes for the column's next task (TaskTable::Prefetch).
  void Prefetch(uint32_t column) const noexcept { table_->Prefetch(column); }

  /// Puts a task into the column behind `*last`, which is of the same column, and sets `*last` to
  /// the new task. Waits while the column is full, and then sets `*was_full`. False: the task was
  /// not put in, because the engine is dead or the wait was stuck.
  bool Put(uint32_t column, runtime::TaskWords* words, runtime::TaskId* last,
           bool* was_full) noexcept;

  /// Launches the MasterKernel unless one is taking tasks. Inline, since the usual case is one
  /// load.
  bool EnsureRunning() noexcept { return *running_ != 0 || Launch(); }
  /// Whether the engine is ready, and its MasterKernel has been launched and has not left.
  bool IsRunning() const noexcept { return IsReady() && *running_ != 0; }

  /// Ensures that all tasks that were put in will run even if the host does nothing more. Called
  /// before something outside the engine, such as a stream, is made to wait for a task.
  void MakeSureOf() noexcept;

  bool IsDone(const runtime::TaskId& id) const noexcept { return table_->IsDone(id); }
  bool HaveAllRun() const noexcept;
  /// Whether no task is outstanding and no MasterKernel runs.
  bool IsIdle() const noexcept { return !IsRunning() && HaveAllRun(); }
  /// Wait on the host until one task, or all tasks that there are, have run. False: stuck.
  bool WaitFor(const runtime::TaskId& id, Until until = Until::kOver) noexcept;
  bool WaitForAll(Until until) noexcept;

  /// `last` is the last task of a stream. How many of that stream's tasks have not run.
  uint32_t CountLeft(const runtime::TaskId& last) const noexcept;

  /// Called while the program waits for a task of the column or asks repeatedly whether it has run:
  /// a notice names a task that does not end (task_watch.h).
  void LookAt(uint32_t column) noexcept;

  /// Asks the MasterKernel to leave when it has run the tasks that are in the table.
  void AskToLeave() noexcept;

  /// Hold: asks the MasterKernel to leave as soon as the blocks that run have ended. No
  /// MasterKernel is launched until GoOn, which has the remaining tasks run; GoOn is called until
  /// it returns true. Only for a process whose streams each have a hardware queue: if they shared
  /// one, the MasterKernel's launch could be queued behind a wait for one of its own tasks.
  void Hold() noexcept;
  bool GoOn() noexcept;
  bool IsHeld() const noexcept { return is_held_.load(std::memory_order_acquire); }
  /// Whether the engine is held and has tasks that have not run.
  bool HasHeldTasks() const noexcept;

  /// Whether a MasterKernel is on the GPU or on its way there. Queries the driver while one leaves.
  bool IsResident() noexcept;

  /// Queries the driver. False: the engine is not ready, or the context has faulted, and the engine
  /// is dead from now on.
  bool IsWell() noexcept;
  /// Whether the last such query was `every_ns` ago or longer. If so it counts as made now, and the
  /// caller is to make it (IsWell).
  bool IsTimeToAsk(uint64_t now_ns, uint64_t every_ns) noexcept {
    if (now_ns - asked_ns_.load(std::memory_order_relaxed) < every_ns) return false;
    asked_ns_.store(now_ns, std::memory_order_relaxed);
    return true;
  }

  static constexpr uint64_t kAskEveryNs = 10'000'000;

  /// For a caller that asks repeatedly for a task that has not run. Launches the MasterKernel
  /// unless one is taking tasks, and queries the driver every kAskEveryNs. False: the engine is
  /// dead.
  bool GoesOn() noexcept {
    return EnsureRunning() && (!IsTimeToAsk(NowNs(), kAskEveryNs) || IsWell());
  }

  /// Device address of the 32-bit word that has reached the task's sequence once it is done.
  CUdeviceptr DoneAddress(const runtime::TaskId& id) const noexcept;

  /// Number of columns from which tasks are pulled: one for each MTB of the module that it serves.
  uint32_t columns() const noexcept { return columns_.load(std::memory_order_relaxed); }
  CUcontext context() const noexcept { return context_; }
  uint32_t index() const noexcept { return index_; }

  /// Called when an image is about to be unloaded and its tasks have run. If the engine serves it,
  /// its MasterKernel is not launched again.
  void ForgetImage(const void* owner) noexcept;

  /// Declares the engine dead: its tasks cannot run any more.
  void Close() noexcept { state_.store(State::kDead, std::memory_order_release); }

 private:
  const char* Allocate() noexcept;
  const char* Bind(Image* image) noexcept;
  const char* Prepare(Image* image) noexcept;
  bool Launch() noexcept;
  enum class End : uint8_t { kOver, kDead, kStuck };
  template <typename IsOver, typename Column>
  End Await(IsOver is_over, Column column, Until until) noexcept;
  /// What a wait remembers of the oldest task in the column for which it is waiting at present.
  struct Seen {
    uint32_t column = UINT32_MAX;
    uint64_t oldest = 0;     ///< sequence of that task
    uint64_t since_ns = 0;   ///< when it was first the oldest, moved on by the time it was held
    uint64_t looked_ns = 0;  ///< when the wait looked last
  };
  bool IsStuck(uint32_t column, Seen* seen) noexcept;

  std::atomic<State> state_{State::kNone};
  std::atomic<bool> may_be_resident_{false};  ///< one was launched and is not known to have gone
  std::atomic<bool> is_held_{false};          ///< between Hold and GoOn
  std::atomic<uint64_t> asked_ns_{0};         ///< time of the last query (IsTimeToAsk)
  std::atomic<const Image*> image_{nullptr};  ///< that the MasterKernel serves; null: none
  const CUcontext context_;
  const uint32_t index_;
  // Held while the engine is set up and while its MasterKernel is launched. Each engine has its
  // own: setting up waits until stopped launches are over, and the agent, which resumes them,
  // meanwhile asks the other engines whether they run.
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  enum class Life : uint8_t { kAlive, kPaused, kEnded };
  std::atomic<Life> life_{Life::kAlive};
  CUstream stream_ = nullptr;               ///< into which the MasterKernel is launched
  std::atomic<bool> counts_stream_{false};  ///< stream_ counts as live (facts/live_streams.h)
  CUfunction master_ = nullptr;             ///< the MasterKernel that knows the image's functions
  uint32_t threads_ = 0;                    ///< of an MTB
  /// Mapped memory: the epoch of the MasterKernel that takes tasks. The host sets it before a
  /// launch; the MasterKernel clears it when it decides to leave. 0: none takes tasks.
  volatile uint32_t* running_ = nullptr;
  std::unique_ptr<runtime::TaskTable> table_;
  runtime::HostControl* control_ = nullptr;
  runtime::MasterParams params_{};
  TaskWatch watch_;
  /// The task on which a wait was last stuck: its column, then 48 bits of its sequence.
  std::atomic<uint64_t> stuck_at_{UINT64_MAX};
  ContextRest rest_;  ///< used under the mutex, or while the caller holds AllStreams
  int sms_ = 0;       ///< of the device
  uint32_t all_columns_ = 0;          ///< of the table: MTBs of the register class that has most
  std::atomic<uint32_t> columns_{0};  ///< see columns()
};

}  // namespace cupola::intercept::tasks
