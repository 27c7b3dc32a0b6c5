// The definitions of TaskSystemOf's functions. cupola/task.h includes this header behind its
// declarations, and defines the words solo, hurry and kept. Host code. Where a comment says that
// the MasterKernel "runs" or "takes tasks", `running_` is not 0; the MasterKernel clears it when it
// decides to leave, and may still run tasks for a while after that.
#pragma once

#include "cupola/task.h"

namespace cupola::task {

// Whether a CUDA call, `call` by name, has failed. If so, all functions return kDevice from now on.
template <Registers kRegisters, auto... Functions>
bool TaskSystemOf<kRegisters, Functions...>::Failed(const char* call, cudaError_t error) {
  if (error == cudaSuccess) return false;
  failed_call_ = call;
  cuda_error_ = error;
  has_failed_.store(true, std::memory_order_release);
  return true;
}

// Sets the system up at the first Spawn. Allocates one block of host memory and one of device
// memory, and divides them. Host: the columns, the `done` words, and `words` bytes for HostControl
// and, 64 bytes behind it, MasterState. Device: `words` bytes for DeviceControl and, in the middle,
// the word of solo launches; then the heads and the kept tasks (MasterParams).
template <Registers kRegisters, auto... Functions>
Error TaskSystemOf<kRegisters, Functions...>::Open() {
  const std::lock_guard lock(mutex_);
  if (is_open_) return Error::kNone;
  if (!internal::IsLibraryOfHeaders()) return Error::kVersionMismatch;
  if (!internal::CountForks()) return Error::kNoMemory;
  forks_ = internal::forks;
  const internal::RelaxedCapture relaxed;
  int device = 0, sms = 0, blocks = 0;
  const auto kernel = internal::MasterKernel<kRegisters, Functions...>;
  if (Failed("cudaGetDevice", cudaGetDevice(&device)) ||
      Failed("cudaDeviceGetAttribute",
             cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device)) ||
      Failed("cudaOccupancyMaxActiveBlocksPerMultiprocessor",
             cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, MtbThreads(kRegisters),
                                                           kMostSharedBytes)))
    return Error::kDevice;
  // Load the kernel now: a later load might wait for a task that waits for another one.
  cudaFuncAttributes solo{};
  if (Failed("cudaFuncGetAttributes",
             cudaFuncGetAttributes(&solo, internal::SoloKernel<kRegisters, Functions...>)))
    return Error::kDevice;
  columns_ = static_cast<uint32_t>(sms * blocks);
  const uint32_t all_columns = columns_ + 1;  // the last one is for solo tasks
  const size_t records = all_columns * sizeof(runtime::TaskColumn),
               done = all_columns * runtime::kTaskRows * sizeof(uint32_t), words = 4096,
               heads = columns_ * sizeof(uint32_t), kept = heads * runtime::kTaskRows;
  if (!host_.Map(records + done + words) ||
      Failed("cudaHostRegister",
             cudaHostRegister(host_.bytes, host_.size, cudaHostRegisterMapped)) ||
      Failed("cudaMalloc", cudaMalloc(&device_, words + heads + kept)))
    return Error::kNoMemory;
  char* mapped = nullptr;
  if (Failed("cudaHostGetDevicePointer", cudaHostGetDevicePointer(&mapped, host_.bytes, 0)) ||
      Failed("cudaStreamCreateWithFlags",
             cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)) ||
      Failed("cudaStreamCreateWithFlags",
             cudaStreamCreateWithFlags(&solo_stream_, cudaStreamNonBlocking)) ||
      Failed("cudaMemsetAsync", cudaMemsetAsync(device_, 0, words + heads + kept, stream_)) ||
      Failed("cudaStreamSynchronize", cudaStreamSynchronize(stream_)))
    return Error::kDevice;
  char* const control = host_.bytes + records + done;
  control_ = reinterpret_cast<runtime::HostControl*>(control);
  table_ = std::make_unique<runtime::TaskTable>(
      runtime::TaskTable::Memory{.columns = reinterpret_cast<runtime::TaskColumn*>(host_.bytes),
                                 .done = reinterpret_cast<uint32_t*>(host_.bytes + records),
                                 .control = control_,
                                 .column_count = columns_,
                                 .has_solo_column = true});
  solo_blocks_ended_ = reinterpret_cast<uint32_t*>(device_ + words / 2);
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

// Launches the MasterKernel where none takes tasks. A MasterKernel that leaves clears `running_`
// before it ends; the next one is launched into the same stream, so it begins when that one has
// ended. `task`: the task that was put in just now, which travels with the launch, or null.
template <Registers kRegisters, auto... Functions>
Error TaskSystemOf<kRegisters, Functions...>::EnsureRunning(const runtime::TaskWords* task,
                                                            const TaskId& id) {
  const std::lock_guard lock(mutex_);
  return *running_ != 0 ? Error::kNone : LaunchMaster(task, id);
}

// Launches the MasterKernel under a new epoch, which is never 0. The caller holds mutex_.
template <Registers kRegisters, auto... Functions>
Error TaskSystemOf<kRegisters, Functions...>::LaunchMaster(const runtime::TaskWords* task,
                                                           const TaskId& id) {
  ++params_.epoch;
  if (params_.epoch == 0) ++params_.epoch;
  *running_ = params_.epoch;
  may_have_kept_ = false;
  params_.first_column = task == nullptr ? runtime::kNoColumn : id.column;
  if (task != nullptr) runtime::TaskTable::Copy(*task, id, params_.first);
  void* arguments[] = {&params_};
  const auto kernel = internal::MasterKernel<kRegisters, Functions...>;
  if (Failed("cudaLaunchKernel",
             cudaLaunchKernel(reinterpret_cast<const void*>(kernel), columns_,
                              MtbThreads(kRegisters), arguments, kMostSharedBytes, stream_)))
    return Error::kDevice;
  return Error::kNone;
}

// Launches a solo task, which has been put into the solo column. The caller holds mutex_. Solo
// launches share one stream, so they run one behind the other.
template <Registers kRegisters, auto... Functions>
Error TaskSystemOf<kRegisters, Functions...>::LaunchSolo(const runtime::TaskWords& task,
                                                         const TaskId& id) {
  ++solo_launches_;
  const uint64_t row = (id.sequence - 1) % runtime::kTaskRows;
  runtime::SoloParams params{.record = {},
                             .done = params_.done + id.column * runtime::kTaskRows + row,
                             .blocks_ended = solo_blocks_ended_};
  runtime::TaskTable::Copy(task, id, params.record);
  void* arguments[] = {&params};
  const auto kernel = internal::SoloKernel<kRegisters, Functions...>;
  const uint32_t warps = (task.header.threads + 31u) / 32;
  if (Failed("cudaLaunchKernel",
             cudaLaunchKernel(reinterpret_cast<const void*>(kernel), task.header.blocks,
                              32 * (1 + warps), arguments, task.header.shared_bytes, solo_stream_)))
    return Error::kDevice;
  return Error::kNone;
}

// The caller holds mutex_. A task may be a launch of its own where, as far as is known, no
// MasterKernel runs and none has kept tasks, the last solo task was launched at least kIdleNs ago,
// and it has ended. Otherwise tasks follow each other closely, and then the MasterKernel pays.
template <Registers kRegisters, auto... Functions>
bool TaskSystemOf<kRegisters, Functions...>::MayPutSolo() const {
  return *running_ == 0 && !may_have_kept_ &&
         Clock::now() - last_solo_time_ >= std::chrono::nanoseconds(kIdleNs) &&
         (last_solo_.sequence == 0 || table_->IsDone(last_solo_));
}

// Makes a task a solo task where MayPutSolo allows it, or where it must be one because it comes
// behind a solo task that has not ended (`is_behind_solo`). Sets `*is_put` if it did. In the first
// case it does not wait; in the second it waits for room in the solo column. A MasterKernel that
// has left may have missed the last record of a column (TaskTable::LastHaveRun): then the next
// MasterKernel is launched too, after this task's launch.
template <Registers kRegisters, auto... Functions>
Error TaskSystemOf<kRegisters, Functions...>::PutSolo(runtime::TaskWords* task, TaskId* id,
                                                      bool is_behind_solo, bool* is_put) {
  Error launched = Error::kNone;
  const auto try_put = [&] {
    const std::lock_guard lock(mutex_);
    if (!is_behind_solo && !MayPutSolo()) return true;
    if (!table_->TryPutSolo(task, id)) return !is_behind_solo;
    *is_put = true;
    launched = LaunchSolo(*task, *id);
    last_solo_ = *id;
    last_solo_time_ = Clock::now();
    if (launched == Error::kNone && *running_ == 0 && !table_->LastHaveRun()) {
      launched = LaunchMaster(nullptr, {});
    }
    return true;
  };
  if (!try_put()) {
    const Error error = Await(try_put, [] { return false; });
    if (error != Error::kNone) return error;
  }
  return launched;
}

// Whether a solo task has run, or ends within kSoon, for which the function waits. Solo tasks run
// in their order, so it does not wait for a task behind one that was too slow before and has not
// ended.
template <Registers kRegisters, auto... Functions>
bool TaskSystemOf<kRegisters, Functions...>::EndsSoon(const TaskId& id) {
  const uint64_t slow = slow_solo_.load(std::memory_order_relaxed);
  const bool is_behind = slow != 0 && id.sequence >= slow;
  if (is_behind && !table_->IsDone({.column = id.column, .sequence = slow})) return false;
  for (const auto start = Clock::now(); !table_->IsDone(id);) {
    if (Clock::now() - start <= kSoon) continue;
    slow_solo_.store(id.sequence, std::memory_order_relaxed);
    return false;
  }
  return true;
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

// Puts a task in for Spawn and SpawnBody; `pack` writes its `bytes` bytes of arguments. A task
// behind a solo task that does not end soon becomes a solo task. A task that comes while no
// MasterKernel takes tasks may become one, unless the task that it waits for may still run in a
// MasterKernel that leaves. Other tasks go into a column that an MTB pulls from: any column, or
// that of the task `after`.
template <Registers kRegisters, auto... Functions>
template <class Pack>
Error TaskSystemOf<kRegisters, Functions...>::Put(uint16_t body, uint32_t bytes,
                                                  const TaskShape& shape, TaskId* id,
                                                  const Pack& pack) {
  if (has_failed_.load(std::memory_order_relaxed)) return Error::kDevice;
  if (shape.threads == 0 || shape.threads > kThreads) return Refuse(Error::kTooManyThreads, shape);
  if (shape.blocks == 0 || shape.blocks > kMostBlocks) return Refuse(Error::kTooManyBlocks, shape);
  if (shape.shared_bytes > kMostSharedBytes) return Refuse(Error::kTooMuchShared, shape);
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
  const bool is_after_solo = shape.after.sequence != 0 && table_->IsSolo(shape.after);
  const bool is_behind_solo = is_after_solo && !EndsSoon(shape.after);
  // Whether the task must come behind one that is not solo and has not ended: a MasterKernel that
  // leaves, and has cleared `running_`, may still run that one.
  const auto is_behind_another = [&] {
    return shape.after.sequence != 0 && !is_after_solo && !table_->IsDone(shape.after);
  };
  if (is_behind_solo || (*running_ == 0 && !is_behind_another())) {
    bool is_put = false;
    const Error error = PutSolo(&task, id, is_behind_solo, &is_put);
    if (error != Error::kNone || is_put) return error;
  }
  const auto put = [&] {
    // A solo task `after` has ended by now (EndsSoon), so nothing is left to wait for.
    if (shape.after.sequence == 0 || is_after_solo) return table_->TryPut(task, id);
    return table_->TryPutIn(shape.after.column, shape.after.sequence, &task, id);
  };
  if (!put()) {
    if (const Error error = Await(put, [] { return true; }); error != Error::kNone) return error;
  }
  return *running_ != 0 ? Error::kNone : EnsureRunning(&task, *id);
}

// Returns kDevice where CUDA has failed. A body that traps shows as an error in any stream.
template <Registers kRegisters, auto... Functions>
Error TaskSystemOf<kRegisters, Functions...>::AskCuda() {
  const internal::RelaxedCapture relaxed;
  const cudaError_t state = cudaStreamQuery(stream_);
  return state != cudaErrorNotReady && Failed("cudaStreamQuery", state) ? Error::kDevice
                                                                        : Error::kNone;
}

// Spins until `is_over`. Every 64 turns it launches the MasterKernel where none runs and
// `needs_master` says that the wait needs it; every 16,384 turns it asks CUDA for errors and looks
// at the time limit.
template <Registers kRegisters, auto... Functions>
template <class IsOver, class NeedsMaster>
Error TaskSystemOf<kRegisters, Functions...>::Await(IsOver is_over, NeedsMaster needs_master) {
  const auto start = Clock::now();
  for (uint32_t turn = 1; !is_over(); ++turn) {
    if (turn % 64 != 0) continue;
    if (*running_ == 0 && needs_master()) {
      if (const Error error = EnsureRunning(); error != Error::kNone) return error;
    }
    if (turn % 16384 == 0) {
      if (const Error error = AskCuda(); error != Error::kNone) return error;
      if (Clock::now() - start > time_limit_.load()) return Error::kTimedOut;
    }
  }
  return Error::kNone;
}

template <Registers kRegisters, auto... Functions>
Error TaskSystemOf<kRegisters, Functions...>::Check(const TaskId& id, bool* is_done) {
  if (!is_open_ || !table_->Knows(id)) return Unknown(id);
  if (IsForked()) return Error::kForked;
  *is_done = table_->IsDone(id);
  if (*is_done) return Error::kNone;
  if (has_failed_.load(std::memory_order_relaxed)) return Error::kDevice;
  const Clock::duration now = Clock::now().time_since_epoch();
  if (now - asked_.load(std::memory_order_relaxed) >= kAskEvery) {
    asked_.store(now, std::memory_order_relaxed);
    if (const Error error = AskCuda(); error != Error::kNone) return error;
  }
  // A MasterKernel that has left may have missed the task's record, or kept it in a hurry, and
  // perhaps no other thread launches the next one.
  if (*running_ != 0 || hurrying_ != 0 || table_->IsSolo(id)) return Error::kNone;
  return EnsureRunning();
}

template <Registers kRegisters, auto... Functions>
Error TaskSystemOf<kRegisters, Functions...>::Wait(const TaskId& id) {
  if (!is_open_ || !table_->Knows(id)) return Unknown(id);
  if (IsForked()) return Error::kForked;
  uint32_t turns = 0;
  return Await(
      [&] {
        if (table_->IsDone(id)) return true;
        if (++turns % 256 == 0 && id.column >= table_->awake()) table_->WakeColumn(id.column);
        return false;
      },
      [&] { return !table_->IsSolo(id); });
}

template <Registers kRegisters, auto... Functions>
Error TaskSystemOf<kRegisters, Functions...>::WaitAll() {
  if (!is_open_) return Error::kNone;
  if (IsForked()) return Error::kForked;
  runtime::TasksBefore before(*table_);
  uint32_t turns = 0;
  const Error error = Await(
      [&] {
        if (before.HaveRun()) return true;
        if (++turns % 256 == 0 && before.column() >= table_->awake()) {
          table_->WakeColumn(before.column());
        }
        return false;
      },
      [&] { return before.column() < columns_; });
  if (error == Error::kNone) table_->LetColumnsSleep();
  return error;
}

// Sets `*takes_all` to whether the MasterKernel runs all tasks that were put in before this call.
// It does if `running_`, read after a fence, still says that it takes tasks
// (docs/task-waits.md, "What the host may rely on").
template <Registers kRegisters, auto... Functions>
Error TaskSystemOf<kRegisters, Functions...>::AskToLeave(bool* takes_all) {
  const std::lock_guard lock(mutex_);
  __atomic_store_n(&control_->leave, params_.epoch, __ATOMIC_RELEASE);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  *takes_all = *running_ != 0;
  return has_failed_ ? Error::kDevice : Error::kNone;
}

// Asks CUDA until neither the MasterKernel nor a solo task is on the device.
template <Registers kRegisters, auto... Functions>
Error TaskSystemOf<kRegisters, Functions...>::AwaitGone(Clock::time_point start) {
  const internal::RelaxedCapture relaxed;
  for (;;) {
    cudaError_t state = cudaStreamQuery(stream_);
    if (state == cudaSuccess) state = cudaStreamQuery(solo_stream_);
    if (state == cudaSuccess) return Error::kNone;
    if (state != cudaErrorNotReady && Failed("cudaStreamQuery", state)) return Error::kDevice;
    if (Clock::now() - start > time_limit_.load()) return Error::kTimedOut;
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
  ++hurrying_;
  {
    const std::lock_guard lock(mutex_);
    may_have_kept_ = true;
    __atomic_store_n(&control_->hurry, params_.epoch, __ATOMIC_RELEASE);
  }
  const Error error = AwaitGone(Clock::now());
  --hurrying_;
  return error;
}

// Records an id that a caller gave and that no task has, for Describe. Returns kUnknownTask.
template <Registers kRegisters, auto... Functions>
Error TaskSystemOf<kRegisters, Functions...>::Unknown(const TaskId& id) {
  const std::lock_guard lock(mutex_);
  unknown_ = id;
  return Error::kUnknownTask;
}

// Records a shape that passed a limit, for Describe. Returns the error.
template <Registers kRegisters, auto... Functions>
Error TaskSystemOf<kRegisters, Functions...>::Refuse(Error error, const TaskShape& shape) {
  const std::lock_guard lock(mutex_);
  refused_ = shape;
  return error;
}

// Where CUDA has failed nothing can be freed. Where the device was reset nothing is left to free:
// the old handles are invalid. A query of an invalid stream returns an error, but to synchronise
// and destroy invalid streams ends the process [measured on an H200], so Close queries first.
template <Registers kRegisters, auto... Functions>
void TaskSystemOf<kRegisters, Functions...>::Close() {
  if (IsForked()) return;              // memory and MasterKernel belong to the parent
  if (host_.bytes == nullptr) return;  // this system has made no CUDA call, and makes none now
  const internal::RelaxedCapture relaxed;
  if (is_open_) {
    if (has_failed_) return;
    const cudaError_t state = cudaStreamQuery(stream_);
    if (state != cudaSuccess && state != cudaErrorNotReady) return;
    // Also runs tasks that a MasterKernel left in a hurry. Waits as long as that takes.
    Error error = WaitAll();
    while (error == Error::kTimedOut) error = WaitAll();
    if (error != Error::kNone) return;
  }
  for (cudaStream_t const stream : {stream_, solo_stream_}) {
    if (stream == nullptr) continue;
    cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
  }
  if (device_ != nullptr) cudaFree(device_);
  cudaHostUnregister(host_.bytes);
}

}  // namespace cupola::task
