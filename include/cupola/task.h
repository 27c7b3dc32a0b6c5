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
// Any number of threads may use a TaskSystem. Its functions return an Error, never throw.
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
  TaskId after = {0, 0};
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
/// functions return kForked. Where its device is reset tasks are lost: they return kDevice, and it is
/// ended before another is used. CUDA's calls that wait for the device wait for the MasterKernel too:
/// until all tasks have run that are put in before it has been idle for 125 us.
template <Registers kRegisters, auto... Functions>
class TaskSystemOf {
 public:
  TaskSystemOf() = default;
  TaskSystemOf(const TaskSystemOf&) = delete;
  TaskSystemOf& operator=(const TaskSystemOf&) = delete;
  /// Waits for the MasterKernel, which leaves when all tasks have run.
  ~TaskSystemOf() { Close(); }

  /// Threads of a block, at most.
  static constexpr uint32_t kThreads = MtbThreads(kRegisters) - 32;

  /// Puts a task in; does not wait for the device unless the table is full. [taskSpawn]
  template <auto Function, class... Arguments>
  Error Spawn(const TaskShape& shape, TaskId* id, Arguments... arguments);

  /// The same for a function that is known by its number among Functions, with a pointer to each
  /// of `count` arguments, as in cudaLaunchKernel.
  Error SpawnBody(uint32_t body, const TaskShape& shape, TaskId* id, void* const* arguments,
                  uint32_t count);
  /// Parameters of that function.
  static constexpr uint32_t parameters(uint32_t body) {
    return internal::Bodies<Functions...>::kFacts[body].parameters;
  }

  /// Until the task has run; what it wrote can be seen, also by CUDA calls that follow. [wait]
  Error Wait(const TaskId& id);

  /// Whether it has run; does not wait. [check]
  Error Check(const TaskId& id, bool* is_done);

  /// Until all tasks that were put in before have run. [waitAll]
  Error WaitAll();

  /// Has the MasterKernel leave when it has run what was put in before, and returns when it is gone
  /// and the SMs are free: synchronises. Whoever puts a task in, then or meanwhile, has it launched
  /// again.
  Error Leave();

  /// Has the MasterKernel leave as soon as the blocks that run have ended, and returns when it is
  /// gone and the SMs are free: synchronises. What has not begun is run when a task is put in, or
  /// waited for, which launches it again.
  Error LeaveNow();

  /// What an error of this system means, with limits, CUDA's words, and of kUnknownTask the last id
  /// that was not known.
  std::string Describe(Error error) const;

  /// How long Wait, WaitAll and Leave, and Spawn where the table is full, wait before they give up
  /// with kTimedOut; the tasks go on, and may be waited for again. 60 s by default.
  void set_time_limit(std::chrono::nanoseconds limit) { time_limit_ = limit; }

  cudaError_t cuda_error() const { return cuda_error_; }
  /// Launches of the MasterKernel so far.
  uint32_t launches() const { return params_.epoch; }
  uint32_t awake() const { return table_ ? table_->awake() : 0; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr uint32_t kIdleNs = 125'000;

  Error Open();
  Error EnsureRunning(const runtime::TaskWords* task = nullptr, const TaskId& id = {});
  void Close();
  bool IsForked() const { return forks_ != internal::forks.load(std::memory_order_relaxed); }
  template <class Pack>
  Error Put(uint16_t body, uint32_t bytes, const TaskShape& shape, TaskId* id, const Pack& pack);
  Error AskToLeave(bool* takes_all);
  Error AwaitGone(Clock::time_point start);
  Error Unknown(const TaskId& id);
  std::string DescribeUnknown() const;
  bool Failed(cudaError_t error);
  template <class IsOver>
  Error Await(IsOver is_over);

  mutable std::mutex mutex_;
  TaskId unknown_ = {0, 0};  ///< the last that was asked for
  std::unique_ptr<runtime::TaskTable> table_;
  runtime::MasterParams params_{};
  volatile uint32_t* running_ = nullptr;
  runtime::HostControl* control_ = nullptr;
  uint32_t forks_ = 0;         ///< internal::forks where this was opened
  internal::HostPages host_;
  char* device_ = nullptr;
  cudaStream_t stream_ = nullptr;
  uint32_t columns_ = 0;
  cudaError_t cuda_error_ = cudaSuccess;
  std::chrono::nanoseconds time_limit_ = std::chrono::seconds(60);
  std::atomic<bool> is_open_{false}, has_failed_{false};
};

template <Registers kRegisters, auto... Functions>
bool TaskSystemOf<kRegisters, Functions...>::Failed(cudaError_t error) {
  if (error == cudaSuccess) return false;
  cuda_error_ = error;
  has_failed_.store(true, std::memory_order_release);
  return true;
}

// Memory of both sides, in one allocation each.
template <Registers kRegisters, auto... Functions>
Error TaskSystemOf<kRegisters, Functions...>::Open() {
  const std::lock_guard lock(mutex_);
  if (is_open_) return Error::kNone;
  if (!internal::CountForks()) return Error::kNoMemory;
  forks_ = internal::forks;
  const internal::RelaxedCapture relaxed;
  int device = 0, sms = 0, blocks = 0;
  const auto kernel = internal::MasterKernel<kRegisters, Functions...>;
  if (Failed(cudaGetDevice(&device)) ||
      Failed(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device)) ||
      Failed(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, MtbThreads(kRegisters),
                                                           kMostSharedBytes)))
    return Error::kDevice;
  columns_ = static_cast<uint32_t>(sms * blocks);
  const size_t records = columns_ * sizeof(runtime::TaskColumn),
               done = columns_ * runtime::kTaskRows * sizeof(uint32_t), words = 4096,
               heads = columns_ * sizeof(uint32_t), kept = heads * runtime::kTaskRows;
  if (!host_.Map(records + done + words) ||
      Failed(cudaHostRegister(host_.bytes, host_.size, cudaHostRegisterMapped)) ||
      Failed(cudaMalloc(&device_, words + heads + kept)))
    return Error::kNoMemory;
  char* mapped = nullptr;
  if (Failed(cudaHostGetDevicePointer(&mapped, host_.bytes, 0)) ||
      Failed(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)) ||
      Failed(cudaMemsetAsync(device_, 0, words + heads + kept, stream_)) ||
      Failed(cudaStreamSynchronize(stream_)))
    return Error::kDevice;
  char* const control = host_.bytes + records + done;
  control_ = reinterpret_cast<runtime::HostControl*>(control);
  table_ = std::make_unique<runtime::TaskTable>(
      runtime::TaskTable::Memory{.columns = reinterpret_cast<runtime::TaskColumn*>(host_.bytes),
                                 .done = reinterpret_cast<uint32_t*>(host_.bytes + records),
                                 .control = control_,
                                 .column_count = columns_});
  running_ = reinterpret_cast<uint32_t*>(control + 64);
  char* const mapped_control = mapped + records + done;
  params_ = {.columns = reinterpret_cast<runtime::TaskColumn*>(mapped),
             .done = reinterpret_cast<uint32_t*>(mapped + records),
             .host = reinterpret_cast<runtime::HostControl*>(mapped_control),
             .state = reinterpret_cast<runtime::MasterState*>(mapped_control + 64),
             .device = reinterpret_cast<runtime::DeviceControl*>(device_),
             .heads = reinterpret_cast<uint32_t*>(device_ + words),
             .kept = reinterpret_cast<uint32_t*>(device_ + words + heads),
             .epoch = 0,
             .idle_ns = kIdleNs,
             .unit_bytes = kUnitBytes};
  is_open_.store(true, std::memory_order_release);
  return Error::kNone;
}

// One that leaves has said so before, so that the next is launched behind it. `task`: one that was
// put in just now, if any.
template <Registers kRegisters, auto... Functions>
Error TaskSystemOf<kRegisters, Functions...>::EnsureRunning(const runtime::TaskWords* task,
                                                            const TaskId& id) {
  const std::lock_guard lock(mutex_);
  if (*running_ != 0) return Error::kNone;
  ++params_.epoch;
  if (params_.epoch == 0) ++params_.epoch;
  *running_ = params_.epoch;
  params_.first_column = task == nullptr ? runtime::kNoColumn : id.column;
  if (task != nullptr) runtime::TaskTable::Copy(*task, id, params_.first);
  void* arguments[] = {&params_};
  const auto kernel = internal::MasterKernel<kRegisters, Functions...>;
  if (Failed(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), columns_,
                              MtbThreads(kRegisters), arguments, kMostSharedBytes, stream_)))
    return Error::kDevice;
  return Error::kNone;
}

template <Registers kRegisters, auto... Functions>
template <auto Function, class... Arguments>
Error TaskSystemOf<kRegisters, Functions...>::Spawn(const TaskShape& shape, TaskId* id,
                                                    Arguments... arguments) {
  constexpr uint16_t body = internal::Bodies<Functions...>::template Index<Function>();
  static_assert(body != 0xffff, "the TaskSystem does not know this function");
  using Packed = internal::Body<Function>;
  return Put(body, Packed::kBytes, shape, id, [&](char* to) { Packed::Pack(to, arguments...); });
}

template <Registers kRegisters, auto... Functions>
Error TaskSystemOf<kRegisters, Functions...>::SpawnBody(uint32_t body, const TaskShape& shape,
                                                        TaskId* id, void* const* arguments,
                                                        uint32_t count) {
  if (body >= sizeof...(Functions)) return Error::kUnknownBody;
  const internal::BodyFacts& facts = internal::Bodies<Functions...>::kFacts[body];
  if (count != facts.parameters) return Error::kBadArguments;
  return Put(static_cast<uint16_t>(body), facts.bytes, shape, id,
             [&](char* to) { facts.pack(to, arguments); });
}

template <Registers kRegisters, auto... Functions>
template <class Pack>
Error TaskSystemOf<kRegisters, Functions...>::Put(uint16_t body, uint32_t bytes,
                                                  const TaskShape& shape, TaskId* id,
                                                  const Pack& pack) {
  if (has_failed_.load(std::memory_order_relaxed)) return Error::kDevice;
  if (shape.threads == 0 || shape.threads > kThreads) return Error::kTooManyThreads;
  if (shape.blocks == 0 || shape.blocks > kMostBlocks) return Error::kTooManyBlocks;
  if (shape.shared_bytes > kMostSharedBytes) return Error::kTooMuchShared;
  if (!is_open_.load(std::memory_order_acquire)) {
    if (const Error error = Open(); error != Error::kNone) return error;
  }
  if (IsForked()) return Error::kForked;
  if (shape.after.sequence != 0 && !table_->Knows(shape.after)) return Unknown(shape.after);
  const uint32_t words = (sizeof(runtime::TaskHeader) + (bytes + 3) / 4 * 4) / 4;
  runtime::TaskWords task;
  task.header = {
      .body = body,
      .chunks = static_cast<uint8_t>((words + runtime::kChunkWords - 1) / runtime::kChunkWords),
      .barrier = shape.uses_barrier,
      .threads = static_cast<uint16_t>(shape.threads),
      .after = 0,
      .blocks = shape.blocks,
      .shared_bytes = shape.shared_bytes};
  pack(reinterpret_cast<char*>(task.words + sizeof task.header / 4));
  const auto put = [&] {
    if (shape.after.sequence == 0) return table_->TryPut(task, id);
    return table_->TryPutIn(shape.after.column, shape.after.sequence, &task, id);
  };
  if (!put()) {
    if (const Error error = Await(put); error != Error::kNone) return error;
  }
  return *running_ != 0 ? Error::kNone : EnsureRunning(&task, *id);
}

// Spins, and looks now and then whether the MasterKernel runs and CUDA is well.
template <Registers kRegisters, auto... Functions>
template <class IsOver>
Error TaskSystemOf<kRegisters, Functions...>::Await(IsOver is_over) {
  const auto start = Clock::now();
  for (uint32_t turn = 1; !is_over(); ++turn) {
    if (turn % 64 != 0) continue;
    if (*running_ == 0) {
      if (const Error error = EnsureRunning(); error != Error::kNone) return error;
    }
    if (turn % 16384 == 0) {
      const internal::RelaxedCapture relaxed;
      const cudaError_t state = cudaStreamQuery(stream_);
      if (state != cudaErrorNotReady && Failed(state)) return Error::kDevice;
      if (Clock::now() - start > time_limit_) return Error::kTimedOut;
    }
  }
  return Error::kNone;
}

template <Registers kRegisters, auto... Functions>
Error TaskSystemOf<kRegisters, Functions...>::Check(const TaskId& id, bool* is_done) {
  if (!is_open_ || !table_->Knows(id)) return Unknown(id);
  if (IsForked()) return Error::kForked;
  *is_done = table_->IsDone(id);
  return Error::kNone;
}

template <Registers kRegisters, auto... Functions>
Error TaskSystemOf<kRegisters, Functions...>::Wait(const TaskId& id) {
  if (!is_open_ || !table_->Knows(id)) return Unknown(id);
  if (IsForked()) return Error::kForked;
  uint32_t turns = 0;
  return Await([&] {
    if (table_->IsDone(id)) return true;
    if (++turns % 256 == 0 && id.column >= table_->awake()) table_->WakeColumn(id.column);
    return false;
  });
}

template <Registers kRegisters, auto... Functions>
Error TaskSystemOf<kRegisters, Functions...>::WaitAll() {
  if (!is_open_) return Error::kNone;
  if (IsForked()) return Error::kForked;
  runtime::TasksBefore before(*table_);
  uint32_t turns = 0;
  const Error error = Await([&] {
    if (before.HaveRun()) return true;
    if (++turns % 256 == 0 && before.column() >= table_->awake()) {
      table_->WakeColumn(before.column());
    }
    return false;
  });
  if (error == Error::kNone) table_->LetColumnsSleep();
  return error;
}

// Where the MasterKernel says, behind a fence, that it takes tasks, it takes all that were put in
// before (docs/narrow-tasks.md, "What the host may rely on").
template <Registers kRegisters, auto... Functions>
Error TaskSystemOf<kRegisters, Functions...>::AskToLeave(bool* takes_all) {
  const std::lock_guard lock(mutex_);
  __atomic_store_n(&control_->leave, params_.epoch, __ATOMIC_RELEASE);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  *takes_all = *running_ != 0;
  return has_failed_ ? Error::kDevice : Error::kNone;
}

// Asks CUDA until nothing of it is on the device.
template <Registers kRegisters, auto... Functions>
Error TaskSystemOf<kRegisters, Functions...>::AwaitGone(Clock::time_point start) {
  const internal::RelaxedCapture relaxed;
  for (;;) {
    const cudaError_t state = cudaStreamQuery(stream_);
    if (state == cudaSuccess) return Error::kNone;
    if (state != cudaErrorNotReady && Failed(state)) return Error::kDevice;
    if (Clock::now() - start > time_limit_) return Error::kTimedOut;
  }
}

template <Registers kRegisters, auto... Functions>
Error TaskSystemOf<kRegisters, Functions...>::Leave() {
  if (!is_open_) return Error::kNone;
  if (IsForked()) return Error::kForked;
  const auto start = Clock::now();
  for (bool takes_all = false;;) {
    if (const Error error = AskToLeave(&takes_all); error != Error::kNone) return error;
    if (const Error error = AwaitGone(start); error != Error::kNone) return error;
    if (takes_all || runtime::TasksBefore(*table_).HaveRun()) return Error::kNone;
    if (const Error error = EnsureRunning(); error != Error::kNone) return error;
  }
}

template <Registers kRegisters, auto... Functions>
Error TaskSystemOf<kRegisters, Functions...>::LeaveNow() {
  if (!is_open_) return Error::kNone;
  if (IsForked()) return Error::kForked;
  if (has_failed_) return Error::kDevice;
  {
    const std::lock_guard lock(mutex_);
    __atomic_store_n(&control_->hurry, params_.epoch, __ATOMIC_RELEASE);
  }
  return AwaitGone(Clock::now());
}

template <Registers kRegisters, auto... Functions>
Error TaskSystemOf<kRegisters, Functions...>::Unknown(const TaskId& id) {
  const std::lock_guard lock(mutex_);
  unknown_ = id;
  return Error::kUnknownTask;
}

template <Registers kRegisters, auto... Functions>
std::string TaskSystemOf<kRegisters, Functions...>::DescribeUnknown() const {
  const std::lock_guard lock(mutex_);
  const std::string text = "no task of this system has that id: ";
  if (!is_open_) return text + "none was put in yet";
  if (unknown_.sequence == 0) return text + "sequence 0 is that of no task";
  if (unknown_.table != table_->number()) {
    return text + "it is of table " + std::to_string(unknown_.table) + ", and this is table " +
           std::to_string(table_->number());
  }
  if (unknown_.column >= columns_) {
    return text + "column " + std::to_string(unknown_.column) + " of " + std::to_string(columns_);
  }
  return text + "number " + std::to_string(unknown_.sequence) + " of column " +
         std::to_string(unknown_.column) + ", which has had " +
         std::to_string(table_->Tail(unknown_.column));
}

template <Registers kRegisters, auto... Functions>
std::string TaskSystemOf<kRegisters, Functions...>::Describe(Error error) const {
  const std::string text = task::Describe(error);
  if (error == Error::kDevice) return text + ": " + cudaGetErrorString(cuda_error_);
  if (error == Error::kUnknownTask) return DescribeUnknown();
  if (error == Error::kTooManyThreads) {
    return "a block has 1 to " + std::to_string(kThreads) + " threads";
  }
  if (error != Error::kTimedOut) return text;
  const auto limit = std::chrono::duration_cast<std::chrono::microseconds>(time_limit_);
  return text + ", " + std::to_string(limit.count()) + " us";
}

template <Registers kRegisters, auto... Functions>
void TaskSystemOf<kRegisters, Functions...>::Close() {
  if (IsForked()) return;              // it is the parent's, as is the MasterKernel
  if (host_.bytes == nullptr) return;  // it has made no CUDA call, and makes none now
  const internal::RelaxedCapture relaxed;
  if (stream_ != nullptr) {
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
  }
  if (device_ != nullptr) cudaFree(device_);
  cudaHostUnregister(host_.bytes);
}

/// With 32 registers a thread, so that most threads run at a time.
template <auto... Functions>
using TaskSystem = TaskSystemOf<Registers::k32, Functions...>;

}  // namespace cupola::task
