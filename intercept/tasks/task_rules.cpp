#include "intercept/tasks/task_rules.h"

#include <unistd.h>

#include <string_view>
#include <utility>

#include "intercept/launch/loaded_kernels.h"
#include "intercept/process/calls.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/fast_clock.h"
#include "intercept/process/stream_arguments.h"
#include "intercept/tasks/driver_work.h"
#include "intercept/tasks/task_copies.h"
#include "intercept/tasks/task_demand.h"
#include "intercept/tasks/task_engines.h"
#include "intercept/tasks/task_streams.h"
#include "intercept/tasks/task_watch.h"
#include "intercept/tasks/task_worth.h"
#include "intercept/tasks/tasks.h"
#include "intercept/tasks/waiting_kernels.h"

namespace cupola::intercept::tasks {

std::atomic<uint32_t> scopes{0};

namespace {

// After a thread has waited for an event for kEventSpinNs, it sleeps for kEventSleepUs between queries, which is then a
// small part of its wait.
constexpr uint64_t kEventSpinNs = 10'000'000;
constexpr useconds_t kEventSleepUs = 100;

/// How a wait for all tasks has ended.
struct Waited {
  bool is_over = true;  ///< false: a task is stuck, and the call goes on as it would without tasks
  /// If a task is stuck: what BeginNotNow returned, a bit for each GPU on which no other process
  /// may ask this one to yield until EndNotNow is given these bits (task_demand.h). Else 0.
  uint32_t kept = 0;
};

// Waits for all tasks. A task that makes no progress may wait for the program; then the call has to
// go on. In that case all streams are flushed instead, so that what comes after the tasks waits for
// them, and the MasterKernel that runs them is not sent away while the call is in the driver. If
// another process asks this one to yield already, the wait is tried again.
Waited WaitOrFlush(bool being_put) {
  while (!WaitForAllTasks(being_put)) {
    bool is_so = false;
    const uint32_t kept = BeginNotNow(&is_so);
    if (is_so) {
      FlushStuck();
      return {false, kept};
    }
    EndNotNow(kept);
  }
  return {};
}

// Called before the program waits in the driver for an event, which may be behind tasks. Returns when the event is
// reached or no task is left; until then it looks for a task that does not end and has it named (task_watch.h). Spins
// for 10 ms, then sleeps between looks.
void WatchOverEvent(CUevent event) {
  if (task_settings.notice_ns == 0) return;
  const RelaxedCapture relaxed;
  const auto query = CUPOLA_CALL_REAL(cuEventQuery, PFN_cuEventQuery_v2000);
  const uint64_t since = NowNs();
  uint32_t number = 0;
  for (uint32_t turn = 0; turn % TaskWatch::kLookEvery != 0 || LookAtNextStream(&number); ++turn) {
    if (query(event) != CUDA_ERROR_NOT_READY) return;
    if (NowNs() - since > kEventSpinNs) usleep(kEventSleepUs);
  }
}

// Waits twice: first without the scope, for the tasks that there are now, so that other threads can
// put tasks in meanwhile; then with the scope open, for the tasks that came meanwhile. If the first
// wait was stuck, there is no second: with the scope open, all streams are flushed once more, for
// the tasks that came since.
Waited OpenScope() {
  Waited waited = WaitOrFlush(/*being_put=*/false);
  scopes.fetch_add(1);
  if (waited.is_over) return WaitOrFlush(/*being_put=*/true);
  FlushStuck();
  return waited;
}

void CloseScope(uint32_t kept) {
  scopes.fetch_sub(1);
  EndNotNow(kept);
}

// Whether this thread is making a launch that may load its kernel, in a scope that AfterPlainLaunch
// closes.
thread_local constinit bool loads __attribute__((tls_model("initial-exec"))) = false;
// What this thread is to give EndNotNow (Waited::kept): for that scope, and for a synchronous copy
// that is in the driver.
thread_local constinit uint32_t kept_by_load __attribute__((tls_model("initial-exec"))) = 0;
thread_local constinit uint32_t kept_by_copy __attribute__((tls_model("initial-exec"))) = 0;

void AskToLeave(TaskEngine& engine) {
  if (engine.IsRunning()) engine.AskToLeave();
}

}  // namespace

NoTasksScope::NoTasksScope() noexcept {
  const Waited waited = OpenScope();
  is_clear_ = waited.is_over;
  kept_ = waited.kept;
}
NoTasksScope::~NoTasksScope() { CloseScope(kept_); }

void BeginDriverCopy(bool per_thread) noexcept {
  const Waited waited = WaitOrFlush(/*being_put=*/false);
  if (!waited.is_over) BeforeWorkOf(nullptr, per_thread);
  kept_by_copy |= waited.kept;
  BeginDriverWait();
}

void EndDriverCopy() noexcept {
  EndDriverWait();
  EndNotNow(std::exchange(kept_by_copy, 0));
}

void WatchCalls() noexcept {
  static std::atomic_flag done;
  if (done.test_and_set()) return;
  Watch(1);
}

// The launch comes after the tasks of its stream, or of all streams if it is into the legacy
// stream. The MasterKernel holds the SMs that the launch's blocks need, so it is asked to leave. A
// kernel's first launch may load it, which waits for the device, so that launch is in a scope;
// where preemption is on, path/plain_launch.cpp does what is needed instead (LaunchFirst).
void BeforePlainLaunch(const void* function, CUstream stream, bool per_thread) noexcept {
  if (!AnyEngineIsReady()) return;
  BeforeWorkOf(stream, per_thread);
  if (function != nullptr && !PreemptionOn() && !IsKnownLoaded(function)) {
    kept_by_load = OpenScope().kept;
    loads = true;
  }
  TaskEngine* const engine = EngineOf(ResolveStream(stream, per_thread).context);
  if (engine != nullptr) AskToLeave(*engine);
}

// While tasks do not pay (TaskWorth::IsQuiet), nothing needs to be recorded of single streams: when
// tasks are made again, all streams count as having been given work (AfterWork). The MasterKernel
// is asked to leave once more, because another thread's task may have started one while the call
// was under way.
void AfterPlainLaunch(const void* function, CUstream stream, bool per_thread,
                      CUresult result) noexcept {
  if (!worth.IsQuiet() && AnyEngineIsReady()) {
    AfterWorkOf(stream, per_thread);
    if (TaskEngine* const engine = RecordPendingKernel(stream, per_thread)) AskToLeave(*engine);
  }
  if (!loads) [[likely]] return;
  loads = false;
  if (result == CUDA_SUCCESS) MarkLoaded(function);
  CloseScope(std::exchange(kept_by_load, 0));
}

// After the switch only kWaitAndLeave is left: the call may wait for the device, and may free
// memory.
Behind BeforeMayWait(TaskRule rule, size_t index, const uint64_t* arguments) noexcept {
  if (!AnyEngineIsReady()) return {};
  const auto stream = reinterpret_cast<CUstream>(arguments[0]);
  switch (rule) {
    case TaskRule::kNone:
    case TaskRule::kHook:
      return {};
    case TaskRule::kFlush:
      return BeforeStreamOrdered(rule, index, arguments);
    case TaskRule::kWait: {
      const bool per_thread = std::string_view(kCallNames[index]).ends_with("_ptds");
      BeginDriverCopy(per_thread);
      return {.what = Behind::What::kEndWait, .per_thread = per_thread};
    }
    case TaskRule::kSyncStream:
    case TaskRule::kSyncStreamPerThread:
      (void)WaitForStream(stream, rule == TaskRule::kSyncStreamPerThread);
      return {};
    case TaskRule::kSyncEvent:
      WatchOverEvent(reinterpret_cast<CUevent>(arguments[0]));
      return {};
    case TaskRule::kEndStream:
      if (!WaitForStream(stream, false, Until::kOverOrStuck)) BeforeWorkOf(stream, false);
      ForgetStream(stream);
      return {};
    case TaskRule::kWaitAndLeave:
      break;
  }
  ForgetMemory();
  const uint32_t kept = OpenScope().kept;
  ForEachReadyEngine([](TaskEngine& engine) { engine.AskToLeave(); });
  return {.what = Behind::What::kCloseScope, .kept = kept};
}

// The short way, a wait for the legacy stream, is taken only for the current context, while the
// counts of driver work are kept (not IsQuiet) and no capture is open.
ContextWait BeginContextWait(CUcontext named) noexcept {
  if (!AnyEngineIsReady()) return {};
  const CUcontext current = CurrentContext();
  const CUcontext context = named != nullptr ? named : current;
  ContextWait wait{.context = reinterpret_cast<uint64_t>(context), .work = WorkBesideLegacy()};
  TaskEngine* const engine = EngineOf(wait.context);
  const bool may_be_short = context == current && engine != nullptr && engine->IsReady() &&
                            open_captures.load() == 0 && !worth.IsQuiet();
  if (may_be_short && HasRested(*engine, wait.work)) {
    Count(task_counters.waits);
    (void)WaitForStream(CU_STREAM_LEGACY, false);
    // If the engine has died meanwhile, the driver has to make the call and say why.
    wait.is_for_legacy_stream = engine->IsReady();
    if (wait.is_for_legacy_stream) return wait;
  }
  wait.is_in_scope = true;
  if (engine != nullptr && engine->IsReady()) WaitForContext(*engine);
  wait.kept = OpenScope().kept;
  ForEachReadyEngine([](TaskEngine& each) { each.AskToLeave(); });
  return wait;
}

void EndContextWait(const ContextWait& wait, CUresult result) noexcept {
  if (!wait.is_in_scope) return;
  const TaskEngine* const engine = EngineOf(wait.context);
  if (engine != nullptr && result == CUDA_SUCCESS) MarkRested(*engine, wait.work);
  CloseScope(wait.kept);
}

Behind BeforeStreamOrdered(TaskRule rule, size_t index, const uint64_t* arguments) noexcept {
  if (!AnyEngineIsReady() || rule == TaskRule::kHook) return {};
  const StreamArgument& argument = kStreamArguments[index];
  if (argument.at < 0) {
    BeforeWork();
    return {.what = Behind::What::kNoteWork};
  }
  const auto stream = reinterpret_cast<CUstream>(ArgumentAt(arguments, argument.at));
  BeforeWorkOf(stream, argument.per_thread);
  return {Behind::What::kNoteWorkOf, argument.per_thread, stream};
}

void DoBehind(const Behind& behind) noexcept {
  switch (behind.what) {
    case Behind::What::kNothing:
      return;
    case Behind::What::kNoteWorkOf:
      AfterWorkOf(behind.stream, behind.per_thread);
      (void)RecordPendingKernel(behind.stream, behind.per_thread);
      return;
    case Behind::What::kCloseScope:
      // Recorded before launches may become tasks again, since the call may have given a stream
      // work.
      AfterWork();
      CloseScope(behind.kept);
      return;
    case Behind::What::kEndWait:
      EndDriverCopy();
      AfterWork();
      (void)RecordPendingKernel(behind.stream, behind.per_thread);
      return;
    case Behind::What::kNoteWork:
      return AfterWork();
  }
}

}  // namespace cupola::intercept::tasks
