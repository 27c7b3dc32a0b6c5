#include "intercept/tasks/task_rules.h"

#include <string_view>
#include <utility>

#include "intercept/calls/call_rules.h"
#include "intercept/preempt/preemption.h"
#include "intercept/preempt/waiting.h"
#include "intercept/process/calls.h"
#include "intercept/process/stream_arguments.h"
#include "intercept/tasks/driver_work.h"
#include "intercept/tasks/task_copies.h"
#include "intercept/tasks/task_demand.h"
#include "intercept/tasks/task_engines.h"
#include "intercept/tasks/task_streams.h"
#include "intercept/tasks/task_worth.h"
#include "intercept/tasks/tasks.h"
#include "intercept/tasks/waiting_kernels.h"

namespace cupola::intercept::tasks {

std::atomic<uint32_t> scopes{0};

namespace {

Rule rules[kCallCount];

struct Waited {
  bool is_over = true;  ///< else a task is stuck, and the call goes on as it would have without tasks
  uint32_t kept = 0;    ///< of EndNotNow
};

// A task that does not go on may wait for the program. What comes after tasks is made to, and the MasterKernel
// that runs them is not sent away while the call is in the driver.
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

// First without the scope, for what there is now; then with it, for what came meanwhile.
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

// The launch that this thread makes may load its kernel: it is in a scope.
thread_local constinit bool loads __attribute__((tls_model("initial-exec"))) = false;
// Of EndNotNow: of that scope; of a synchronous copy that is in the driver.
thread_local constinit uint32_t kept_by_load __attribute__((tls_model("initial-exec"))) = 0;
thread_local constinit uint32_t kept_by_copy __attribute__((tls_model("initial-exec"))) = 0;

void AskToLeave(TaskEngine& engine) {
  if (engine.IsRunning()) engine.AskToLeave();
}

}  // namespace

WaitingScope::WaitingScope() noexcept {
  const Waited waited = OpenScope();
  is_clear_ = waited.is_over;
  kept_ = waited.kept;
}
WaitingScope::~WaitingScope() { CloseScope(kept_); }

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
  for (size_t call = 0; call < kCallCount; ++call) rules[call] = RuleFor(kCallNames[call]);
  preempt::Watch(1);
}

// The stream's tasks come first; with the legacy stream those of all streams do. Its blocks want
// the SMs that the MasterKernel holds. A kernel's first launch may load it, which waits for the
// device; where preemption is on that is seen to elsewhere (preempt/guarded_launch.cpp).
void BeforePlainLaunch(const void* function, CUstream stream, bool per_thread) noexcept {
  if (!AnyEngineIsReady()) return;
  BeforeWorkOf(stream, per_thread);
  if (function != nullptr && !preempt::PreemptionOn() && !preempt::IsKnownLoaded(function)) {
    kept_by_load = OpenScope().kept;
    loads = true;
  }
  TaskEngine* const engine = EngineOf(ResolveStream(stream, per_thread).context);
  if (engine != nullptr) AskToLeave(*engine);
}

// While no tasks are made nothing needs to be noted of one stream: all count as given work then. A
// MasterKernel that another thread's task began while the call was on its way has not been asked.
void AfterPlainLaunch(const void* function, CUstream stream, bool per_thread,
                      CUresult result) noexcept {
  if (!worth.IsQuiet() && AnyEngineIsReady()) {
    AfterWorkOf(stream, per_thread);
    if (TaskEngine* const engine = NoteKernel(stream, per_thread)) AskToLeave(*engine);
  }
  if (!loads) [[likely]] return;
  loads = false;
  if (result == CUDA_SUCCESS) preempt::NoteLoaded(function);
  CloseScope(std::exchange(kept_by_load, 0));
}

Behind BeforeMayWait(size_t index, const uint64_t* arguments) noexcept {
  if (!AnyEngineIsReady()) return {};
  const auto stream = reinterpret_cast<CUstream>(arguments[0]);
  switch (rules[index]) {
    case Rule::kNone:
    case Rule::kHook:
      return {};
    case Rule::kFlush:
      return BeforeStreamOrdered(index, arguments);
    case Rule::kWait: {
      const bool per_thread = std::string_view(kCallNames[index]).ends_with("_ptds");
      BeginDriverCopy(per_thread);
      return {.what = Behind::What::kEndWait, .per_thread = per_thread};
    }
    case Rule::kSyncStream:
    case Rule::kSyncStreamPerThread:
      (void)WaitForStream(stream, rules[index] == Rule::kSyncStreamPerThread);
      return {};
    case Rule::kSyncEvent:
      WatchOverEvent(reinterpret_cast<CUevent>(arguments[0]));
      return {};
    case Rule::kEndStream:
      if (!WaitForStream(stream, false, Until::kOverOrStuck)) BeforeWorkOf(stream, false);
      ForgetStream(stream);
      return {};
    case Rule::kWaitAndLeave:
      break;
  }
  ForgetMemory();
  const uint32_t kept = OpenScope().kept;
  ForEachReadyEngine([](TaskEngine& engine) { engine.AskToLeave(); });
  return {.what = Behind::What::kCloseScope, .kept = kept};
}

ContextWait BeginContextWait(CUcontext named) noexcept {
  if (!AnyEngineIsReady()) return {};
  const CUcontext current = CurrentContext();
  const CUcontext context = named != nullptr ? named : current;
  ContextWait wait{.context = reinterpret_cast<uint64_t>(context), .work = WorkBesideLegacy()};
  TaskEngine* const engine = EngineOf(wait.context);
  const bool may_be_short = context == current && engine != nullptr && engine->IsReady() &&
                            open_captures.load() == 0 && !worth.IsQuiet();
  if (may_be_short && HasRested(*engine, wait.work)) {
    Count(counters.waits);
    (void)WaitForStream(CU_STREAM_LEGACY, false);
    // Where the engine has died meanwhile the driver is to say why.
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
  if (engine != nullptr && result == CUDA_SUCCESS) NoteRested(*engine, wait.work);
  CloseScope(wait.kept);
}

Behind BeforeStreamOrdered(size_t index, const uint64_t* arguments) noexcept {
  if (!AnyEngineIsReady() || rules[index] == Rule::kHook) return {};
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
      (void)NoteKernel(behind.stream, behind.per_thread);
      return;
    case Behind::What::kCloseScope:
      // Before launches may become tasks again: what is waited for may have been given work.
      AfterWork();
      CloseScope(behind.kept);
      return;
    case Behind::What::kEndWait:
      EndDriverCopy();
      AfterWork();
      (void)NoteKernel(behind.stream, behind.per_thread);
      return;
    case Behind::What::kNoteWork:
      return AfterWork();
  }
}

}  // namespace cupola::intercept::tasks
