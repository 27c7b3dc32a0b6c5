// The MasterKernel of this process and its TaskTable: memory that both sides see, launching it,
// putting tasks in, waiting for them. One for a process, for the context whose launches came first;
// it serves one module at a time. docs/narrow-tasks.md.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "device/runtime/task_table.h"
#include "intercept/preempt/images.h"

namespace cupola::intercept::tasks {

class TaskEngine {
 public:
  enum class State : uint8_t { kNone, kReady, kDead };

  State state() const noexcept { return state_.load(std::memory_order_acquire); }
  bool IsOf(uint64_t context) const noexcept {
    return reinterpret_cast<CUcontext>(context) == context_;
  }
  /// Whether it calls functions of this image; null: whether it serves none, its own was unloaded.
  bool Serves(const preempt::Image* image) const noexcept {
    return image_.load(std::memory_order_acquire) == image;
  }

  /// Sets it up for an image of the current context. May wait for the device. Once: afterwards the
  /// state is kReady or kDead.
  void Open(preempt::Image* image, CUcontext context) noexcept;

  /// Serves another image of its context from now on; goes on with its own where that cannot be
  /// loaded. Waits for all tasks and until the MasterKernel is gone; may wait for the device. Nobody
  /// puts a task in meanwhile (AllStreams).
  void TurnTo(preempt::Image* image) noexcept;

  /// Puts a task behind `last` of the same column, and `last` becomes the new one. Waits while the
  /// column is full. False: the engine is dead.
  bool Put(uint32_t column, runtime::TaskWords* words, runtime::TaskId* last) noexcept;

  /// Launches the MasterKernel unless one takes tasks. Inline: the usual case is one load.
  bool EnsureRunning() noexcept { return *running_ != 0 || Launch(); }
  bool IsRunning() const noexcept { return *running_ != 0; }

  /// What was put in will be run, whatever the host does: to be called before it may block on it.
  void MakeSureOf() noexcept;

  bool IsDone(const runtime::TaskId& id) const noexcept { return table_->IsDone(id); }
  /// Until it has run, or the engine is dead.
  void WaitFor(const runtime::TaskId& id) noexcept;
  void WaitForAll() noexcept;

  /// Has the MasterKernel leave when it has run what is there.
  void AskToLeave() noexcept;

  /// Whether one is on the GPU, or on its way there. Asks the driver while one leaves.
  bool IsResident() noexcept;

  /// Asks the driver; false: the context has faulted, and the engine is dead.
  bool IsWell() noexcept;

  /// The word that says that a task is done, for the device, and what it says then.
  CUdeviceptr DoneAddress(const runtime::TaskId& id) const noexcept;

  /// That are pulled from: MTBs of the module that it serves.
  uint32_t columns() const noexcept { return columns_.load(std::memory_order_relaxed); }
  CUcontext context() const noexcept { return context_; }

  /// An image is about to be unloaded; its tasks have run.
  void ForgetImage(const void* owner) noexcept {
    const preempt::Image* const image = image_.load(std::memory_order_acquire);
    if (image != nullptr && image->owner == owner) image_.store(nullptr, std::memory_order_release);
  }

  /// The context ends, or its tasks cannot run any more.
  void Close() noexcept { state_.store(State::kDead, std::memory_order_release); }

 private:
  const char* Allocate() noexcept;
  const char* Bind(preempt::Image* image) noexcept;
  const char* Prepare(preempt::Image* image) noexcept;
  bool Launch() noexcept;
  template <typename IsOver>
  bool Await(IsOver is_over) noexcept;

  std::atomic<State> state_{State::kNone};
  std::atomic<bool> may_be_resident_{false};
  std::atomic<const preempt::Image*> image_{nullptr};
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  CUfunction master_ = nullptr;
  uint32_t threads_ = 0;  ///< of an MTB
  volatile uint32_t* running_ = nullptr;
  std::unique_ptr<runtime::TaskTable> table_;
  runtime::HostControl* control_ = nullptr;
  runtime::MasterParams params_{};
  int sms_ = 0;
  uint32_t all_columns_ = 0;  ///< of the table: MTBs of the class that has most
  std::atomic<uint32_t> columns_{0};
};

/// The process's; made at first use, never destroyed.
extern TaskEngine* engine;

}  // namespace cupola::intercept::tasks
