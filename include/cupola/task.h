// Tasks: small kernels that run on the GPU without a launch for each (Pagoda, PPoPP 2017). A kernel
// is a `__device__` function; a MasterKernel that holds the GPU's warps calls it for the threads of
// each task. For programs, C++20 and nvcc. Names of the paper's Table 1 in brackets.
//
//   __device__ void Scale(float* values, int count, float factor) {
//     const unsigned i = cupola::task::ThreadId();
//     if (i < count) values[i] *= factor;
//   }
//   using Tasks = cupola::task::TaskSystem<Scale>;
//
//   Tasks tasks;                                     // allocates; launches nothing yet
//   cupola::task::TaskId id;
//   if (tasks.Spawn<Scale>({.threads = 128}, &id, values, 128, 2.0f) != cupola::task::Error::kNone)
//   ... tasks.Wait(id);
//
// Built with `nvcc -std=c++20 -I<root> -I<root>/include`, <root> being Cupola's, and linked with
// <root>/device/runtime/task_table.cpp; Cupola need not run beside it.
//
// What another task or the host writes while the system runs must not be read by `__ldg`, a
// `const __restrict__` pointer, a texture or a surface: nothing orders these behind a task's end.
//
// Any number of threads may use a TaskSystem at once, but for its end. Its functions return an Error,
// never throw; any may return kForked, and kDevice once CUDA has failed. What each says of errors is
// beside these.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>

#include "cupola/task_bodies.h"
#include "cupola/task_error.h"
#include "cupola/task_host.h"
#include "device/runtime/task_table.h"

namespace cupola::task {

using runtime::TaskId;

/// What a task needs.
struct TaskShape {
  uint32_t threads;  ///< of a block
  uint32_t blocks = 1;
  uint32_t shared_bytes = 0;  ///< of a block
  bool uses_barrier = false;  ///< SyncBlock is called
  /// It starts when this one has ended, and sees what it wrote; the device sees to that, the host
  /// waits for nothing. Sequence 0: none.
  TaskId after = {};
};

// In a task.

/// Of this thread in its block. [getTid]
__device__ inline uint32_t ThreadId() { return runtime::MyWarp().first_thread + threadIdx.x % 32; }

/// Of this thread's block in the task.
__device__ inline uint32_t BlockId() { return runtime::MyWarp().block; }

/// Threads of a block.
__device__ inline uint32_t BlockThreads() { return runtime::BlockThreads(); }

/// Blocks of the task.
__device__ inline uint32_t GridBlocks() { return runtime::MyHeader().blocks; }

/// All threads of the block wait for each other, but those that have returned. In a task that does
/// not say `uses_barrier` it traps: the MasterKernel ends with CUDA's error. [syncBlock]
__device__ inline void SyncBlock() {
  if (runtime::MyHeader().barrier == 0) __trap();
  runtime::MeetBlock(runtime::MyWarp().slot, true);
}

/// The block's shared memory, TaskShape::shared_bytes of it, at a multiple of 16; nullptr where
/// that is 0. Holds anything at first. [getSMPtr]
__device__ inline void* SharedMemory() {
  if (runtime::MyHeader().shared_bytes == 0) return nullptr;
  const runtime::BlockEntry& block = runtime::Mtb().blocks[runtime::MyWarp().slot];
  return runtime::Arena() + block.first_unit * kUnitBytes;
}

/// Tasks of these `__device__` functions, with so many registers a thread, on the current device.
/// Where the process forks, a system that was used before is the parent's: in the child its
/// functions return kForked. Where its device is reset tasks are lost: they return kDevice, and it
/// is ended before another is used. CUDA's calls that wait for the device wait for the MasterKernel
/// too: until all tasks have run that are put in before it has been idle for 125 us. Under an
/// arbiter it is a kernel that cannot be stopped, like others without a preemptible form: it
/// leaves when it is idle, or by LeaveNow.
template <Registers kRegisters, auto... Functions>
class TaskSystemOf {
 public:
  TaskSystemOf() = default;
  TaskSystemOf(const TaskSystemOf&) = delete;
  TaskSystemOf& operator=(const TaskSystemOf&) = delete;
  /// Waits until all tasks have run, also those that one in a hurry has left, and the MasterKernel
  /// has left; where CUDA has failed it does not wait.
  ~TaskSystemOf() { Close(); }

  /// Threads of a block, at most.
  static constexpr uint32_t kThreads = MtbThreads(kRegisters) - 32;

  /// Puts a task in; does not wait for the device unless the table is full. The first one allocates.
  /// Errors, and nothing was put in: kTooManyThreads, kTooManyBlocks, kTooMuchShared, kUnknownTask
  /// (`after`), kTimedOut (the table stays full), kNoMemory. [taskSpawn]
  template <auto Function, class... Arguments>
  Error Spawn(const TaskShape& shape, TaskId* id, Arguments... arguments);

  /// The same for a function that is known by its number among Functions, with a pointer to each
  /// of `count` arguments, as in cudaLaunchKernel. Errors, too: kUnknownBody, kBadArguments.
  Error SpawnBody(uint32_t body, const TaskShape& shape, TaskId* id, void* const* arguments,
                  uint32_t count);
  /// Parameters of that function.
  static constexpr uint32_t parameters(uint32_t body) {
    return internal::Bodies<Functions...>::kFacts[body].parameters;
  }

  /// Until the task has run; what it wrote can be seen, also by CUDA calls that follow. Synchronises
  /// with the task, spinning. Errors: kUnknownTask, kTimedOut. [wait]
  Error Wait(const TaskId& id);

  /// Whether it has run; does not wait. Asks CUDA now and then, and launches the MasterKernel where
  /// that has left, but not while a LeaveNow of another thread waits. Where CUDA has failed:
  /// kDevice, unless it has run. Errors: kUnknownTask. [check]
  Error Check(const TaskId& id, bool* is_done);

  /// Until all tasks that were put in before have run. Synchronises with them, spinning. Errors:
  /// kTimedOut. [waitAll]
  Error WaitAll();

  /// Has the MasterKernel leave when it has run what was put in before, and returns when it is gone
  /// and the SMs are free: synchronises. Whoever puts a task in, then or meanwhile, has it launched
  /// again. Errors: kTimedOut.
  Error Leave();

  /// Has the MasterKernel leave as soon as the blocks that run have ended, and returns when it is
  /// gone and the SMs are free: synchronises. What has not begun is run when a task is put in,
  /// waited for or, behind that, asked for, which launches it again. Errors: kTimedOut.
  Error LeaveNow();

  /// What an error of this system means, with limits, CUDA's words, and of kUnknownTask the last id
  /// that was not known.
  std::string Describe(Error error) const;

  /// How long Wait, WaitAll and Leave, and Spawn where the table is full, wait before they give up
  /// with kTimedOut; the tasks go on, and may be waited for again. 60 s by default.
  void set_time_limit(std::chrono::nanoseconds limit) { time_limit_ = limit; }

  /// Why kDevice was returned.
  cudaError_t cuda_error() const { return cuda_error_; }
  /// Launches of the MasterKernel so far.
  uint32_t launches() const { return params_.epoch; }
  /// Tasks so far that were launched by themselves, since no MasterKernel ran.
  uint32_t solo_launches() const { return solo_launches_; }
  uint32_t awake() const { return table_ ? table_->awake() : 0; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr uint32_t kIdleNs = 125'000;
  static constexpr std::chrono::microseconds kSoon{20};
  static constexpr std::chrono::milliseconds kAskEvery{1};

  Error Open();
  Error EnsureRunning(const runtime::TaskWords* task = nullptr, const TaskId& id = {});
  Error LaunchMaster(const runtime::TaskWords* task, const TaskId& id);
  Error LaunchSolo(const runtime::TaskWords& task, const TaskId& id);
  Error PutSolo(runtime::TaskWords* task, TaskId* id, bool is_behind_solo, bool* is_put);
  bool MayPutSolo() const;
  bool EndsSoon(const TaskId& id);
  void Close();
  bool IsForked() const { return forks_ != internal::forks.load(std::memory_order_relaxed); }
  template <class Pack>
  Error Put(uint16_t body, uint32_t bytes, const TaskShape& shape, TaskId* id, const Pack& pack);
  Error AskToLeave(bool* takes_all);
  Error AwaitGone(Clock::time_point start);
  Error AskCuda();
  Error Unknown(const TaskId& id);
  std::string DescribeUnknown() const;
  bool Failed(cudaError_t error);
  template <class IsOver, class NeedsMaster>
  Error Await(IsOver is_over, NeedsMaster needs_master);

  mutable std::mutex mutex_;
  TaskId unknown_ = {};  ///< the last that was asked for
  std::unique_ptr<runtime::TaskTable> table_;
  runtime::MasterParams params_{};
  volatile uint32_t* running_ = nullptr;
  runtime::HostControl* control_ = nullptr;
  uint32_t forks_ = 0;  ///< internal::forks where this was opened
  internal::HostPages host_;
  char* device_ = nullptr;
  cudaStream_t stream_ = nullptr, solo_stream_ = nullptr;
  uint32_t columns_ = 0;
  uint32_t solo_launches_ = 0;
  uint32_t* solo_blocks_ended_ = nullptr;  ///< SoloParams::blocks_ended of all: one runs at a time
  TaskId last_solo_{};
  Clock::time_point last_solo_time_{};
  std::atomic<uint64_t> slow_solo_{0};      ///< sequence of the last that did not end soon; 0: none
  std::atomic<bool> may_have_kept_{false};  ///< tasks, in a hurry; until the next MasterKernel
  std::atomic<uint32_t> hurrying_{0};       ///< threads that are in LeaveNow
  std::atomic<Clock::duration> asked_{};    ///< when Check has asked CUDA
  std::atomic<cudaError_t> cuda_error_{cudaSuccess};
  std::atomic<std::chrono::nanoseconds> time_limit_{std::chrono::seconds(60)};
  std::atomic<bool> is_open_{false}, has_failed_{false};
};

/// With 32 registers a thread, so that most threads run at a time.
template <auto... Functions>
using TaskSystem = TaskSystemOf<Registers::k32, Functions...>;

}  // namespace cupola::task

#include "cupola/task_system.h"
