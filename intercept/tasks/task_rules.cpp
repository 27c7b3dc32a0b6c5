#include "intercept/tasks/task_rules.h"

#include <string_view>

#include "intercept/calls.h"
#include "intercept/preempt/preemption.h"
#include "intercept/preempt/waiting.h"
#include "intercept/stream_arguments.h"
#include "intercept/tasks/call_rules.h"
#include "intercept/tasks/task_copies.h"
#include "intercept/tasks/task_engines.h"
#include "intercept/tasks/task_streams.h"
#include "intercept/tasks/task_worth.h"
#include "intercept/tasks/tasks.h"
#include "intercept/tasks/waiting_kernels.h"

namespace cupola::intercept::tasks {

std::atomic<uint32_t> scopes{0};

namespace {

Rule rules[kCallCount];

// First without the scope, for what there is now; then with it, for what came meanwhile.
void OpenScope() {
  WaitForAllTasks();
  scopes.fetch_add(1);
  WaitForAllTasks(/*being_put=*/true);
}

// The launch that this thread makes may load its kernel: it is in a scope.
thread_local constinit bool loads __attribute__((tls_model("initial-exec"))) = false;

void AskToLeave(TaskEngine& engine) {
  if (engine.IsRunning()) engine.AskToLeave();
}

}  // namespace

WaitingScope::WaitingScope() noexcept { OpenScope(); }
WaitingScope::~WaitingScope() { scopes.fetch_sub(1); }

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
    OpenScope();
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
  scopes.fetch_sub(1);
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
    case Rule::kWait:
      WaitForAllTasks();
      BeginDriverWait();
      return {.what = Behind::What::kEndWait,
              .per_thread = std::string_view(kCallNames[index]).ends_with("_ptds")};
    case Rule::kSyncStream:
    case Rule::kSyncStreamPerThread:
      WaitForStream(stream, rules[index] == Rule::kSyncStreamPerThread);
      return {};
    case Rule::kSyncEvent:
      WatchOverEvent(reinterpret_cast<CUevent>(arguments[0]));
      return {};
    case Rule::kEndStream:
      WaitForStream(stream, false);
      ForgetStream(stream);
      return {};
    case Rule::kWaitAndLeave:
      ForgetMemory();
      OpenScope();
      ForEachReadyEngine([](TaskEngine& engine) { engine.AskToLeave(); });
      return {.what = Behind::What::kCloseScope};
  }
  return {};
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
    WaitForStream(CU_STREAM_LEGACY, false);
    // Where the engine has died meanwhile the driver is to say why.
    wait.is_for_legacy_stream = engine->IsReady();
    if (wait.is_for_legacy_stream) return wait;
  }
  wait.is_in_scope = true;
  OpenScope();
  ForEachReadyEngine([](TaskEngine& each) { each.AskToLeave(); });
  return wait;
}

void EndContextWait(const ContextWait& wait, CUresult result) noexcept {
  if (!wait.is_in_scope) return;
  const TaskEngine* const engine = EngineOf(wait.context);
  if (engine != nullptr && result == CUDA_SUCCESS) NoteRested(*engine, wait.work);
  scopes.fetch_sub(1);
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
      scopes.fetch_sub(1);
      return;
    case Behind::What::kEndWait:
      EndDriverWait();
      AfterWork();
      (void)NoteKernel(behind.stream, behind.per_thread);
      return;
    case Behind::What::kNoteWork:
      return AfterWork();
  }
}

}  // namespace cupola::intercept::tasks
