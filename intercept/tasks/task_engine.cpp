#include "intercept/tasks/task_engine.h"

#include <sys/mman.h>
#include <xmmintrin.h>

#include <algorithm>
#include <new>
#include <utility>

#include "device/runtime/task_grid.h"
#include "intercept/facts/live_streams.h"
#include "intercept/facts/streams.h"
#include "intercept/launch/own_call_scope.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/mutex_lock.h"
#include "intercept/process/notice.h"
#include "intercept/process/patient_wait.h"
#include "intercept/tasks/task_rules.h"
#include "intercept/tasks/tasks.h"

namespace cupola::intercept::tasks {

namespace {

using runtime::TaskId;

constexpr uint32_t kIdleNs = 125'000;
constexpr uint32_t kSharedBytes = runtime::kArenaUnits * runtime::kTaskUnitBytes;
constexpr size_t kControlBytes = 4096, kPage = 4096;
// Turns of a wait: between looks at the engine; before it sleeps and queries the driver.
constexpr uint32_t kLookEvery = 64, kAskEvery = 16384;
constexpr uint64_t kLookAgainNs = 500'000;  // between queries, once a wait sleeps

/// Makes a context current while it lives: a thread that waits for tasks, and so may launch the
/// MasterKernel, may have another context current.
class CurrentScope {
 public:
  explicit CurrentScope(CUcontext context)
      : before_(CurrentContext()), changes_(before_ != context) {
    if (changes_) Set(context);
  }
  ~CurrentScope() {
    if (changes_) Set(before_);
  }
  CurrentScope(const CurrentScope&) = delete;
  CurrentScope& operator=(const CurrentScope&) = delete;

 private:
  static void Set(CUcontext context) {
    (void)CUPOLA_CALL_REAL(cuCtxSetCurrent, PFN_cuCtxSetCurrent_v4000)(context);
  }
  const CUcontext before_;
  const bool changes_;
};

}  // namespace

// Allocates host memory and device memory, in one piece each. The host memory is Cupola's own
// mapping, registered with the driver, and is never freed: after its context has ended a thread
// that waits for all tasks may still read it.
const char* TaskEngine::Allocate() noexcept {
  using runtime::HostControl, runtime::MasterState, runtime::TaskColumn;
  CUdevice device = 0;
  const auto get_device = CUPOLA_CALL_REAL(cuCtxGetDevice, PFN_cuCtxGetDevice_v2000);
  const auto attribute = CUPOLA_CALL_REAL(cuDeviceGetAttribute, PFN_cuDeviceGetAttribute_v2000);
  if (get_device(&device) != CUDA_SUCCESS ||
      attribute(&sms_, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device) != CUDA_SUCCESS) {
    return "the device says nothing of itself";
  }
  all_columns_ = static_cast<uint32_t>(sms_) * runtime::MtbsOfAnSm(0);
  const size_t records = all_columns_ * sizeof(TaskColumn),
               done = all_columns_ * runtime::kTaskRows * sizeof(uint32_t),
               heads = all_columns_ * sizeof(uint32_t), kept = heads * runtime::kTaskRows,
               words = kControlBytes + heads + kept;
  const size_t host_bytes = (records + done + kControlBytes + kPage - 1) / kPage * kPage;
  const auto add = CUPOLA_CALL_REAL(cuMemHostRegister_v2, PFN_cuMemHostRegister_v6050);
  const auto address_of =
      CUPOLA_CALL_REAL(cuMemHostGetDevicePointer_v2, PFN_cuMemHostGetDevicePointer_v3020);
  const auto allocate = CUPOLA_CALL_REAL(cuMemAlloc_v2, PFN_cuMemAlloc_v3020);
  const auto fill = CUPOLA_CALL_REAL(cuMemsetD8Async, PFN_cuMemsetD8Async_v3020);
  const auto wait = CUPOLA_CALL_REAL(cuStreamSynchronize, PFN_cuStreamSynchronize_v2000);
  // MAP_SHARED, so that after a fork the parent keeps the pages that the device uses. The child
  // reads none of them.
  void* const host =
      mmap(nullptr, host_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CUdeviceptr mapped = 0, memory = 0;
  if (host == MAP_FAILED ||
      add(host, host_bytes, CU_MEMHOSTREGISTER_DEVICEMAP) != CUDA_SUCCESS ||
      address_of(&mapped, host, 0) != CUDA_SUCCESS ||
      allocate(&memory, words) != CUDA_SUCCESS) {
    return "no memory";
  }
  if (fill(memory, 0, words, stream_) != CUDA_SUCCESS ||
      wait(stream_) != CUDA_SUCCESS) {
    return "device memory cannot be cleared";
  }
  auto* const bytes = static_cast<char*>(host);
  control_ = reinterpret_cast<HostControl*>(bytes + records + done);
  auto* const state = reinterpret_cast<MasterState*>(control_ + 1);
  running_ = &state->running;
  table_.reset(new (std::nothrow)
                   runtime::TaskTable({.columns = reinterpret_cast<TaskColumn*>(bytes),
                                       .done = reinterpret_cast<uint32_t*>(bytes + records),
                                       .control = control_,
                                       .column_count = all_columns_}));
  const CUdeviceptr mapped_control = mapped + records + done;
  params_ = {.columns = reinterpret_cast<const TaskColumn*>(mapped),
             .done = reinterpret_cast<uint32_t*>(mapped + records),
             .host = reinterpret_cast<const HostControl*>(mapped_control),
             .state = reinterpret_cast<MasterState*>(mapped_control + sizeof(HostControl)),
             .device = reinterpret_cast<runtime::DeviceControl*>(memory),
             .heads = reinterpret_cast<uint32_t*>(memory + kControlBytes),
             .kept = reinterpret_cast<uint32_t*>(memory + kControlBytes + heads),
             .epoch = 0,
             .idle_ns = kIdleNs,
             .unit_bytes = runtime::kTaskUnitBytes};
  return table_ == nullptr ? "no memory" : nullptr;
}

// Loads the MasterKernel that knows this image's functions. Returns what failed, or null.
const char* TaskEngine::Bind(Image* image) noexcept {
  const auto set = CUPOLA_CALL_REAL(cuFuncSetAttribute, PFN_cuFuncSetAttribute_v9000);
  const auto occupancy = CUPOLA_CALL_REAL(cuOccupancyMaxActiveBlocksPerMultiprocessor,
                                          PFN_cuOccupancyMaxActiveBlocksPerMultiprocessor_v6050);
  CUfunction master = nullptr;
  {
    const MutexLock lock(ImagesMutex());
    master = FunctionBeside(image, store::ImageKind::kTasks, context_, stream_,
                            "cupola_master_kernel");
  }
  int blocks = 0;
  if (master == nullptr) return "it cannot be loaded";
  if (set(master, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kSharedBytes) != CUDA_SUCCESS) {
    return "it cannot have its shared memory";
  }
  const uint32_t threads = runtime::MtbThreads(image->bundle.header().task_registers);
  if (occupancy(&blocks, master, static_cast<int>(threads), kSharedBytes) != CUDA_SUCCESS ||
      blocks == 0) {
    return "it does not fit on the device";
  }
  master_ = master;
  threads_ = threads;
  columns_ = std::min(static_cast<uint32_t>(sms_ * blocks), all_columns_);
  image_.store(image, std::memory_order_release);
  return nullptr;
}

const char* TaskEngine::Prepare(Image* image) noexcept {
  const auto create = CUPOLA_CALL_REAL(cuStreamCreate, PFN_cuStreamCreate_v2000);
  CountStream();
  if (create(&stream_, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) {
    UncountStream();
    return "no stream";
  }
  counts_stream_.store(true);
  const char* const why = Allocate();
  return why != nullptr ? why : Bind(image);
}

// The engine's stream counts as a live one as long as the context goes on.
void TaskEngine::Pause() noexcept {
  {
    const MutexLock lock(mutex_);
    if (!IsAlive()) return;
    life_.store(Life::kPaused, std::memory_order_release);
  }
  if (stream_ != nullptr && counts_stream_.exchange(false)) UncountStream();
}

void TaskEngine::Resume() noexcept {
  {
    const MutexLock lock(mutex_);
    if (life_.load() != Life::kPaused) return;
    life_.store(Life::kAlive, std::memory_order_release);
  }
  if (stream_ != nullptr && !counts_stream_.exchange(true)) CountStream();
}

void TaskEngine::EndForGood() noexcept {
  const MutexLock lock(mutex_);
  if (life_.load() == Life::kPaused) life_.store(Life::kEnded, std::memory_order_release);
}

void TaskEngine::Open(Image* image) noexcept {
  const MutexLock lock(mutex_);
  if (state() != State::kNone) return;
  const RelaxedCapture relaxed;
  if (!rest_.Comes(context_)) return;
  const OwnCallScope scope;
  if (!scope.may_ask()) return;
  const char* const why = Prepare(image);
  if (why == nullptr) WatchCalls();
  if (why != nullptr) Say(Level::kWarn, {"launches do not become tasks: ", why});
  state_.store(why == nullptr ? State::kReady : State::kDead, std::memory_order_release);
}

// The next MasterKernel goes on with the same TaskTable where the previous module's left off:
// neither knows more of a task than its record.
void TaskEngine::TurnTo(Image* image) noexcept {
  if (!WaitForAll(Until::kOverOrStuck)) return;
  AskToLeave();
  // A MasterKernel that faulted never clears `running`, so the driver is queried as well.
  for (PatientWait wait; IsResident(); wait.Pause(IsHeld())) {
    if (IsTimeToAsk(NowNs(), kAskEveryNs) && !IsWell()) return;
  }
  if (state() != State::kReady) return;
  const RelaxedCapture relaxed;
  if (!rest_.Comes(context_)) return;
  const OwnCallScope scope;
  if (!scope.may_ask()) return;
  if (const char* const why = Bind(image); why != nullptr) {
    Say(Level::kInfo, {"launches of another module do not become tasks: ", why});
    if (Serves(nullptr)) Close();
    return;
  }
  Count(task_counters.turns);
}

void TaskEngine::ForgetImage(const void* owner) noexcept {
  const MutexLock lock(mutex_);
  const Image* const image = image_.load(std::memory_order_acquire);
  if (image != nullptr && image->owner == owner) image_.store(nullptr, std::memory_order_release);
}

// A MasterKernel clears `running` before it leaves, and the next one is launched behind it in the
// same stream. If the image was unloaded there is nothing to run, and the result is true: the
// caller saw a task that was outstanding, and that task has run since.
bool TaskEngine::Launch() noexcept {
  const MutexLock lock(mutex_);
  if (*running_ != 0 || is_held_.load() || Serves(nullptr)) return true;
  if (!IsReady()) return false;
  const RelaxedCapture relaxed;
  if (++params_.epoch == 0) ++params_.epoch;
  *running_ = params_.epoch;
  may_be_resident_.store(true);
  const CurrentScope scope(context_);
  void* arguments[] = {&params_};
  const auto launch = CUPOLA_CALL_REAL(cuLaunchKernel, PFN_cuLaunchKernel_v4000);
  Count(task_counters.starts);
  if (launch(master_, columns(), 1, 1, threads_, 1, 1, kSharedBytes, stream_, arguments, nullptr) ==
      CUDA_SUCCESS) {
    return true;
  }
  Say(Level::kInfo, {"the MasterKernel cannot be launched"});
  Close();
  return false;
}

// The host writes a record and then reads `running`; the MasterKernel clears `running` and then
// looks at the table a last time. Without a fence both could miss the other's write. With a fence
// on each side between the write and the read, whichever is later sees the other's write.
void TaskEngine::MakeSureOf() noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  (void)EnsureRunning();
}

// Called repeatedly, so it writes the word that the device reads only once for each MasterKernel.
void TaskEngine::AskToLeave() noexcept {
  if (__atomic_load_n(&control_->leave, __ATOMIC_RELAXED) == params_.epoch) return;
  __atomic_store_n(&control_->leave, params_.epoch, __ATOMIC_RELEASE);
}

void TaskEngine::Hold() noexcept {
  const MutexLock lock(mutex_);
  if (!is_held_.exchange(true)) Count(task_counters.holds);
  __atomic_store_n(&control_->hurry, params_.epoch, __ATOMIC_RELEASE);
}

// While the MasterKernel that was told to leave still takes tasks, the engine stays held: that
// MasterKernel will still leave.
bool TaskEngine::GoOn() noexcept {
  if (!IsHeld()) return true;
  {
    const MutexLock lock(mutex_);
    if (*running_ != 0 && state() == State::kReady) return false;
    is_held_.store(false);
  }
  // From here on a thread that puts a task in launches the MasterKernel itself.
  if (state() == State::kReady && !runtime::TasksBefore(*table_).HaveRun()) MakeSureOf();
  return true;
}

bool TaskEngine::HasHeldTasks() const noexcept {
  return IsReady() && IsHeld() && !runtime::TasksBefore(*table_).HaveRun();
}

bool TaskEngine::IsResident() noexcept {
  if (state() != State::kReady || !may_be_resident_.load()) return false;
  if (*running_ != 0) return true;
  const MutexLock lock(mutex_);
  if (!IsAlive()) return false;  // the context has ended, and the stream with it
  if (*running_ != 0 || AskStream(stream_) == CUDA_ERROR_NOT_READY) return true;
  may_be_resident_.store(false);
  return false;
}

// A body that traps ends the context. The program hears of the error from the next call that it
// makes, as it would for the kernel.
bool TaskEngine::IsWell() noexcept {
  CUresult result = CUDA_SUCCESS;
  {
    const MutexLock lock(mutex_);
    if (!IsReady()) return false;
    result = AskStream(stream_);
  }
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY) return true;
  Say(Level::kInfo, {"a context is beyond repair: error ", Decimal(result)});
  Close();
  return false;
}

// The time in which the engine is held does not count. If an earlier wait was stuck on the same
// task, this one gives up after an eighth of the limit.
bool TaskEngine::IsStuck(uint32_t column, Seen* seen) noexcept {
  constexpr uint64_t kPartOfLimit = 8;
  if (task_settings.wait_limit_ns == 0 || column >= all_columns_) return false;
  const uint64_t oldest = table_->OldestLeft(column), now = NowNs();
  if (seen->column != column || seen->oldest != oldest) {
    *seen = {column, oldest, now, now};
    return false;
  }
  const uint64_t passed_ns = now - std::exchange(seen->looked_ns, now);
  if (IsHeld()) {
    seen->since_ns += passed_ns;
    return false;
  }
  const uint64_t at = uint64_t{column} << 48 | oldest;
  const bool was_stuck = stuck_at_.load(std::memory_order_relaxed) == at;
  if (now - seen->since_ns < task_settings.wait_limit_ns / (was_stuck ? kPartOfLimit : 1)) return false;
  stuck_at_.store(at, std::memory_order_relaxed);
  Count(task_counters.stuck);
  static std::atomic_flag said;
  SayOnce(said, Level::kInfo, {"a task does not go on, and a call of the program waits for it: it goes on"});
  return true;
}

// Spins, since most tasks are short, and checks now and then that the MasterKernel runs. After the
// first kAskEvery turns, some tenths of a millisecond, it waits with ever longer sleeps, since a
// held task may stay so for as long as another process has the GPU. It then also checks that the
// context has not faulted and whether the column's oldest task is still the same.
template <typename IsOver, typename Column>
TaskEngine::End TaskEngine::Await(IsOver is_over, Column column, Until until) noexcept {
  Seen seen;
  PatientWait wait;
  uint64_t looked_ns = 0;
  for (uint32_t turn = 1; !is_over(); ++turn) {
    if (turn < kAskEvery) {
      _mm_pause();
      if (turn % kLookEvery != 0) continue;
    } else {
      turn = kAskEvery;
      wait.Pause(IsHeld());
    }
    if (!IsReady() || !EnsureRunning()) return End::kDead;
    if (turn < kAskEvery || NowNs() - looked_ns < kLookAgainNs) continue;
    looked_ns = NowNs();
    if (!IsWell()) return End::kDead;
    LookAt(column());
    if (until == Until::kOverOrStuck && IsStuck(column(), &seen)) return End::kStuck;
  }
  return End::kOver;
}

bool TaskEngine::Put(uint32_t column, runtime::TaskWords* words, TaskId* last,
                     bool* was_full) noexcept {
  const auto put = [&] { return table_->TryPutIn(column, last->sequence, words, last); };
  if (put()) [[likely]]
    return EnsureRunning();
  *was_full = true;
  return Await(put, [&] { return column; }, Until::kOverOrStuck) == End::kOver && EnsureRunning();
}

// A binary search, since the tasks of a stream end in their order.
uint32_t TaskEngine::CountLeft(const TaskId& last) const noexcept {
  uint32_t left = 0;
  const auto is_done = [&](uint32_t back) {
    return back >= last.sequence ||
           IsDone({.column = last.column, .sequence = last.sequence - back});
  };
  for (uint32_t half = runtime::kTaskRows / 2; half != 0; half /= 2) {
    if (!is_done(left + half - 1)) left += half;
  }
  return is_done(left) ? left : left + 1;
}

bool TaskEngine::WaitFor(const TaskId& id, Until until) noexcept {
  const auto is_done = [&] { return table_->IsDone(id); };
  return Await(is_done, [&] { return id.column; }, until) != End::kStuck;
}

bool TaskEngine::HaveAllRun() const noexcept {
  return table_->LastHaveRun() && runtime::TasksBefore(*table_).HaveRun();
}

bool TaskEngine::WaitForAll(Until until) noexcept {
  runtime::TasksBefore before(*table_);
  return Await([&] { return before.HaveRun(); }, [&] { return before.column(); }, until) !=
         End::kStuck;
}

void TaskEngine::LookAt(uint32_t column) noexcept {
  watch_.Look(*table_, column, image_.load(std::memory_order_acquire));
}

CUdeviceptr TaskEngine::DoneAddress(const TaskId& id) const noexcept {
  const uint64_t at = id.column * runtime::kTaskRows + (id.sequence - 1) % runtime::kTaskRows;
  return reinterpret_cast<CUdeviceptr>(params_.done + at);
}

}  // namespace cupola::intercept::tasks
