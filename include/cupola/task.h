/// @file
/// TaskSystem runs tasks: small kernels that run on the GPU without a launch for each (Pagoda,
/// PPoPP 2017). The code of a task is a `__device__` function. A MasterKernel, which holds the
/// GPU's warps, calls that function for the threads of each task. For C++20 that nvcc compiles;
/// programs include cupola/cupola.h. Square brackets give the names of the paper's Table 1.
///
///     __device__ void Scale(float* values, int count, float factor) {
///       const unsigned i = cupola::task::ThreadId();
///       if (i < count) values[i] *= factor;
///     }
///     using Tasks = cupola::task::TaskSystem<Scale>;
///
///     Tasks tasks;                        // makes no CUDA call; the first Spawn allocates
///     cupola::task::TaskId id;
///     if (tasks.Spawn<Scale>({.threads = 128}, &id, values, 128, 2.0f) !=
///     cupola::task::Error::kNone)
///     ... tasks.Wait(id);
///
/// Build the program with `nvcc -std=c++20 -I$CUPOLA -I$CUPOLA/include`, where $CUPOLA is Cupola's
/// folder, and link it with $CUPOLA/device/runtime/task_table.cpp; or with find_package(Cupola) and
/// Cupola::tasks. Nothing else of Cupola is needed.
///
/// Memory that another task or the host writes while the system runs must not be read by `__ldg`, a
/// `const __restrict__` pointer, a texture or a surface: nothing orders such reads behind a task's
/// end [PTX ISA, ld.global.nc].
///
/// Words: the tasks lie in columns of 64 rows in host memory, the TaskTable; each block of the
/// MasterKernel (an MTB, of a scheduler warp and executor warps) pulls tasks from one column. A
/// *solo* task is a launch of its own, without the MasterKernel: a task that comes alone is one. A
/// MasterKernel leaves *in a hurry* when it ends without running the tasks that have not begun;
/// these are *kept* for the next MasterKernel.
///
/// Any number of threads may use a TaskSystem at once, except for its destructor. Its functions
/// return an Error and never throw. Any of them may return kForked, and kDevice once CUDA has
/// failed; the comment of each function names only the other errors.
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

/// Names a task: Spawn writes it, and Wait, Check and TaskShape::after read it. A value, of 16
/// bytes; sequence 0 is that of no task.
using TaskId = runtime::TaskId;

/// What a task needs. The caller of Spawn fills it in. A value; its layout may change with the
/// minor version.
struct TaskShape {
  uint32_t threads;           ///< number of threads of a block, 1 to TaskSystemOf::kThreads
  uint32_t blocks = 1;        ///< number of blocks, 1 to kMostBlocks
  uint32_t shared_bytes = 0;  ///< shared memory of a block, in bytes, at most kMostSharedBytes
  bool uses_barrier = false;  ///< whether the function calls SyncBlock
  /// The task starts when the task `after` has ended, and sees what that one wrote. The device
  /// keeps this order; the host waits for nothing. Sequence 0: the task waits for no other.
  TaskId after = {};
};

// The functions below are called by the threads of a task.

/// Index of the calling thread in its block. [getTid]
/// @return 0 to BlockThreads() - 1
__device__ inline uint32_t ThreadId() { return runtime::MyWarp().first_thread + threadIdx.x % 32; }

/// Index of the calling thread's block in the task.
/// @return 0 to GridBlocks() - 1
__device__ inline uint32_t BlockId() { return runtime::MyWarp().block; }

/// Number of threads of a block.
/// @return TaskShape::threads
__device__ inline uint32_t BlockThreads() { return runtime::BlockThreads(); }

/// Number of blocks of the task.
/// @return TaskShape::blocks
__device__ inline uint32_t GridBlocks() { return runtime::MyHeader().blocks; }

/// All threads of the block wait for each other, except those that have returned; what they wrote
/// before can be seen behind it by all of them. In a task whose TaskShape does not say
/// `uses_barrier` the call traps: the MasterKernel ends with CUDA's error. A barrier in shared
/// memory, since those of `bar.sync` count warps [PTX ISA 9.7.13.15, mbarrier]. [syncBlock]
__device__ inline void SyncBlock() {
  if (runtime::MyHeader().barrier == 0) __trap();
  runtime::MeetBlock(runtime::MyWarp().slot, true);
}

/// The block's shared memory, with undefined content at first. [getSMPtr]
/// @return TaskShape::shared_bytes bytes at an address that is a multiple of 16; nullptr where
///         shared_bytes is 0
__device__ inline void* SharedMemory() {
  if (runtime::MyHeader().shared_bytes == 0) return nullptr;
  const runtime::BlockEntry& block = runtime::Mtb().blocks[runtime::MyWarp().slot];
  return runtime::Arena() + block.first_unit * kUnitBytes;
}

/// A MasterKernel that can run tasks of these `__device__` functions, with `kRegisters` registers a
/// thread, on the device that is current at the first Spawn.
///
/// After a fork, a system that was used before belongs to the parent: in the child its functions
/// return kForked. When the device is reset the tasks are lost: the functions return kDevice, and
/// the program must destroy this system before it uses another one. CUDA calls that wait for the
/// device wait for the MasterKernel too: until all tasks have run that are put in before it has
/// been idle for 125 us. An arbiter cannot stop the MasterKernel, as it cannot stop other kernels
/// without a preemptible variant: the MasterKernel leaves when it is idle, or by LeaveNow.
/// @tparam kRegisters  how many registers a thread of the functions may have
/// @tparam Functions   pointers to `__device__` functions that return nothing; their arguments have
///                     176 bytes at most, are aligned to 16 at most, and can be copied as bytes
template <Registers kRegisters, auto... Functions>
class TaskSystemOf {
 public:
  /// Makes no CUDA call, and allocates nothing: the first Spawn does.
  TaskSystemOf() = default;
  TaskSystemOf(const TaskSystemOf&) = delete;
  TaskSystemOf& operator=(const TaskSystemOf&) = delete;
  /// Waits until all tasks have run, including those that a MasterKernel left in a hurry
  /// (LeaveNow), and until the MasterKernel has left. Where CUDA has failed it does not wait. No
  /// other thread may use the system meanwhile.
  ~TaskSystemOf() { Close(); }

  /// The most threads of a block: an MTB's threads without those of its scheduler warp.
  static constexpr uint32_t kThreads = MtbThreads(kRegisters) - 32;

  /// Puts a task in. Does not wait for the device unless the table is full. The first call
  /// allocates, and synchronises with a stream of the system's own. What other streams do to memory
  /// that the task uses must be over before the call. [taskSpawn]
  /// @tparam Function   one of Functions
  /// @tparam Arguments  what can be converted to its parameters
  /// @param shape       what the task needs
  /// @param[out] id     of the task; not null. Unchanged on an error
  /// @param arguments   the arguments of the function, which are copied
  /// @return on an error nothing was put in: kTooManyThreads, kTooManyBlocks, kTooMuchShared,
  ///         kUnknownTask (`after`), kTimedOut (the table stays full), kNoMemory, kVersionMismatch
  template <auto Function, class... Arguments>
  Error Spawn(const TaskShape& shape, TaskId* id, Arguments... arguments);

  /// Like Spawn, for a function that is known by its number.
  /// @param body       number of the function among Functions, from 0
  /// @param shape      what the task needs
  /// @param[out] id    of the task; not null. Unchanged on an error
  /// @param arguments  pointers to the `count` arguments in their order, as for cudaLaunchKernel
  ///                   [CUDA Runtime API, "Execution Control"]; may be null where `count` is 0
  /// @param count      number of arguments
  /// @return as Spawn; further errors: kUnknownBody, kBadArguments
  Error SpawnBody(uint32_t body, const TaskShape& shape, TaskId* id, void* const* arguments,
                  uint32_t count);
  /// Number of parameters of a function.
  /// @param body  number of the function among Functions, from 0; a larger one is undefined
  /// @return number of parameters
  static constexpr uint32_t parameters(uint32_t body) {
    return internal::Bodies<Functions...>::kFacts[body].parameters;
  }

  /// Waits until the task has run. What the task wrote can be seen afterwards, also by CUDA calls
  /// that follow. Synchronises with the task by spinning. [wait]
  /// @param id  of a task of this system
  /// @return kNone when it has run; errors: kUnknownTask, kTimedOut
  Error Wait(const TaskId& id);

  /// Says whether the task has run; does not wait. At most once a millisecond the call asks CUDA
  /// for errors. It launches the MasterKernel where that has left, except while another thread is
  /// in LeaveNow. [check]
  /// @param id            of a task of this system
  /// @param[out] is_done  whether it has run; not null
  /// @return errors: kUnknownTask; kDevice only if the task has not run
  Error Check(const TaskId& id, bool* is_done);

  /// Waits until all tasks have run that were put in before. Synchronises with them by spinning.
  /// [waitAll]
  /// @return errors: kTimedOut
  Error WaitAll();

  /// Asks the MasterKernel to leave when it has run all tasks that were put in before. Returns when
  /// it has gone and the SMs are free: synchronises. A Spawn of any thread, meanwhile or later,
  /// launches it again.
  /// @return errors: kTimedOut
  Error Leave();

  /// Asks the MasterKernel to leave in a hurry: as soon as the blocks that run have ended. Returns
  /// when it has gone and the SMs are free: synchronises. Tasks that have not begun are kept. The
  /// next Spawn or wait, or a Check after this call has returned, launches the MasterKernel again,
  /// which runs them.
  /// @return errors: kTimedOut
  Error LeaveNow();

  /// What an error of this system means and what to do, with what this system knows of it: the
  /// limit that the last refused Spawn passed and what it asked for, the CUDA call that failed and
  /// CUDA's words, the last id that was not known, the time limit. Does not wait.
  /// @param error  that a function of this system has returned
  /// @return one line without its end
  std::string Describe(Error error) const;

  /// Sets how long Wait, WaitAll, Leave and LeaveNow, and Spawn while the table is full, wait
  /// before they give up with kTimedOut. The tasks go on, and the program may wait for them again.
  /// @param limit  60 s by default
  void set_time_limit(std::chrono::nanoseconds limit) { time_limit_ = limit; }

  /// The CUDA error because of which kDevice was returned.
  /// @return cudaSuccess where none was
  cudaError_t cuda_error() const { return cuda_error_; }
  /// How often the MasterKernel was launched.
  /// @return number of launches so far
  uint32_t launches() const { return params_.epoch; }
  /// How many tasks were launches of their own.
  /// @return number of solo tasks so far
  uint32_t solo_launches() const { return solo_launches_; }
  /// How many columns the MasterKernel pulls tasks from now. The system wakes more columns as tasks
  /// come, and lets all but one sleep when WaitAll has seen all tasks run.
  /// @return number of columns; 0 before the first Spawn
  uint32_t awake() const { return table_ ? table_->awake() : 0; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr uint32_t kIdleNs = 125'000;           ///< idle time before a MasterKernel leaves
  static constexpr std::chrono::microseconds kSoon{20};  ///< the longest wait of EndsSoon
  static constexpr std::chrono::milliseconds kAskEvery{1};  ///< between CUDA calls of Check

  Error Open();
  Error EnsureRunning(const runtime::TaskWords* task = nullptr, const TaskId& id = {});
  Error LaunchMaster(const runtime::TaskWords* task, const TaskId& id);
  Error LaunchSolo(const runtime::TaskWords& task, const TaskId& id);
  Error PutSolo(runtime::TaskWords* task, TaskId* id, bool is_behind_solo, bool* is_put);
  bool MayPutSolo() const;
  bool EndsSoon(const TaskId& id);
  void Close();
  /// Whether this process is a fork of the one that opened this system.
  bool IsForked() const { return forks_ != internal::forks.load(std::memory_order_relaxed); }
  template <class Pack>
  Error Put(uint16_t body, uint32_t bytes, const TaskShape& shape, TaskId* id, const Pack& pack);
  Error AskToLeave(bool* takes_all);
  Error AwaitGone(Clock::time_point start);
  Error AskCuda();
  Error Unknown(const TaskId& id);
  std::string DescribeUnknown() const;
  Error Refuse(Error error, const TaskShape& shape);
  std::string DescribeRefused(Error error) const;
  bool Failed(const char* call, cudaError_t error);
  template <class IsOver, class NeedsMaster>
  Error Await(IsOver is_over, NeedsMaster needs_master);

  /// Orders launches of both kinds and requests to leave; guards unknown_ and refused_.
  mutable std::mutex mutex_;
  TaskShape refused_{};  ///< the shape of the last Spawn that passed a limit
  TaskId unknown_ = {};  ///< the last id that a caller gave and that was not known
  std::unique_ptr<runtime::TaskTable> table_;
  runtime::MasterParams params_{};
  volatile uint32_t* running_ = nullptr;  ///< MasterState::running, in host memory
  runtime::HostControl* control_ = nullptr;
  uint32_t forks_ = 0;  ///< internal::forks when this system was opened
  internal::HostPages host_;
  char* device_ = nullptr;              ///< one allocation of device memory
  cudaStream_t stream_ = nullptr;       ///< of the MasterKernel
  cudaStream_t solo_stream_ = nullptr;  ///< of tasks that are launches of their own
  uint32_t columns_ = 0;        ///< columns that MTBs pull from; the next one is for solo tasks
  uint32_t solo_launches_ = 0;  ///< see solo_launches()
  /// SoloParams::blocks_ended of all solo launches, which run one at a time.
  uint32_t* solo_blocks_ended_ = nullptr;
  TaskId last_solo_{};                  ///< the last solo task; sequence 0: there was none
  Clock::time_point last_solo_time_{};  ///< when last_solo_ was launched
  /// Sequence of the last solo task that did not end within kSoon; 0: there was none.
  std::atomic<uint64_t> slow_solo_{0};
  /// A MasterKernel that left in a hurry may have kept tasks; true until the next one is launched.
  std::atomic<bool> may_have_kept_{false};
  std::atomic<uint32_t> hurrying_{0};     ///< number of threads that are in LeaveNow
  std::atomic<Clock::duration> asked_{};  ///< time at which Check last asked CUDA
  std::atomic<cudaError_t> cuda_error_{cudaSuccess};
  std::atomic<const char*> failed_call_{""};  ///< the CUDA call that returned cuda_error_
  std::atomic<std::chrono::nanoseconds> time_limit_{std::chrono::seconds(60)};
  std::atomic<bool> is_open_{false};     ///< Open has succeeded
  std::atomic<bool> has_failed_{false};  ///< a CUDA call has failed; cuda_error_ says how
};

/// A TaskSystemOf with 32 registers a thread, so that most threads run at a time.
/// @tparam Functions  as TaskSystemOf
template <auto... Functions>
using TaskSystem = TaskSystemOf<Registers::k32, Functions...>;

}  // namespace cupola::task

#include "cupola/task_describe.h"
#include "cupola/task_system.h"
