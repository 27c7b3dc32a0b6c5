#include "intercept/tasks/task_rules.h"

#include <cstring>

#include "intercept/calls.h"
#include "intercept/preempt/preemption.h"
#include "intercept/tasks/task_copies.h"
#include "intercept/tasks/task_engines.h"
#include "intercept/tasks/task_streams.h"
#include "intercept/tasks/tasks.h"

namespace cupola::intercept::tasks {

std::atomic<uint32_t> scopes{0};

namespace {

enum class Rule : uint8_t {
  kNone,                 ///< has nothing to do with tasks
  kHook,                 ///< its hook sees to it (task_copies.h)
  kFlush,                ///< gives a stream work: it comes after the stream's tasks
  kWait,                 ///< tasks are waited for; the MasterKernel may stay
  kWaitAndLeave,         ///< may wait for the device
  kSyncStream,           ///< tasks of one stream are waited for
  kSyncStreamPerThread,  ///< the same, the _ptsz form
  kEndStream,
};

struct NamedRule {
  const char* pattern;  ///< of a name; '*' at its end stands for anything
  Rule rule;
};

// The last that matches counts; what none matches may wait for the device. Events are recorded
// behind the tasks of their stream, so who waits for one waits for these too.
constexpr NamedRule kNamedRules[] = {
    {"cuMemcpy*", Rule::kWait},
    {"cuMemset*", Rule::kWait},
    {"cuEventSynchronize", Rule::kNone},
    {"cuEventDestroy*", Rule::kNone},
    {"cuMemAlloc*", Rule::kNone},
    {"cuMemHostAlloc", Rule::kNone},
    {"cuMemcpyHtoDAsync_v2*", Rule::kHook},
    {"cuMemcpyDtoHAsync_v2*", Rule::kHook},
    {"cuMemcpyDtoDAsync_v2*", Rule::kHook},
    {"cuMemcpyAsync*", Rule::kHook},
    {"cuMemcpyHtoD_v2*", Rule::kHook},
    {"cuMemcpyDtoH_v2*", Rule::kHook},
    {"cuMemcpyDtoD_v2*", Rule::kHook},
    {"cuMemcpy", Rule::kHook},
    {"cuMemcpy_ptds", Rule::kHook},
    {"cuMemsetD8Async*", Rule::kHook},
    {"cuMemsetD8_v2*", Rule::kHook},
    {"cuMemsetD16Async*", Rule::kHook},
    {"cuMemsetD16_v2*", Rule::kHook},
    {"cuMemsetD32Async*", Rule::kHook},
    {"cuMemsetD32_v2*", Rule::kHook},
    {"cuStreamSynchronize", Rule::kSyncStream},
    {"cuStreamSynchronize_ptsz", Rule::kSyncStreamPerThread},
    {"cuStreamDestroy*", Rule::kEndStream},
};

Rule rules[kCallCount];

/// Where a call's stream is among its register arguments.
struct StreamArgument {
  int8_t at = -1;  ///< -1: nowhere
  bool per_thread = false;
};
StreamArgument stream_arguments[kCallCount];

bool Matches(const char* pattern, const char* name) {
  const size_t length = strlen(pattern);
  if (pattern[length - 1] == '*') return strncmp(pattern, name, length - 1) == 0;
  return strcmp(pattern, name) == 0;
}

// Names with Async give work to a stream, and wait for the host's memory at most.
Rule RuleFor(const char* name) {
  Rule rule = Rule::kWaitAndLeave;
  for (const NamedRule& named : kNamedRules) {
    if (Matches(named.pattern, name)) rule = named.rule;
  }
  return rule != Rule::kHook && strstr(name, "Async") != nullptr ? Rule::kFlush : rule;
}

// First without the scope, for what there is now; then with it, for what came meanwhile.
void OpenScope() {
  WaitForAllTasks();
  scopes.fetch_add(1);
  WaitForAllTasks();
  ForEachReadyEngine([](TaskEngine& engine) { engine.AskToLeave(); });
}

}  // namespace

void WatchCalls() noexcept {
  static std::atomic_flag done;
  if (done.test_and_set()) return;
  for (size_t call = 0; call < kCallCount; ++call) rules[call] = RuleFor(kCallNames[call]);
#define CUPOLA_STREAM_ARGUMENT(name, at, per_thread) \
  stream_arguments[static_cast<size_t>(Call::k_##name)] = {at, per_thread};
#include "intercept/stream_arguments.inc"
#undef CUPOLA_STREAM_ARGUMENT
  preempt::Watch(1);
}

// The stream's tasks come first; with the legacy stream those of all streams do. Its blocks want
// the SMs that the MasterKernel holds.
void BeforePlainLaunch(CUstream stream, bool per_thread) noexcept {
  if (!AnyEngineIsReady()) return;
  BeforeWorkOf(stream, per_thread);
  TaskEngine* const engine = EngineOf(ResolveStream(stream, per_thread).context);
  if (engine != nullptr && engine->IsRunning()) engine->AskToLeave();
}

void AfterPlainLaunch(CUstream stream, bool per_thread) noexcept {
  if (AnyEngineIsReady()) AfterWorkOf(stream, per_thread);
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
      return {.what = Behind::What::kNoteWork};
    case Rule::kSyncStream:
    case Rule::kSyncStreamPerThread:
      WaitForStream(stream, rules[index] == Rule::kSyncStreamPerThread);
      return {};
    case Rule::kEndStream:
      WaitForStream(stream, false);
      ForgetStream(stream);
      return {};
    case Rule::kWaitAndLeave:
      ForgetMemory();
      OpenScope();
      return {.what = Behind::What::kCloseScope};
  }
  return {};
}

Behind BeforeStreamOrdered(size_t index, const uint64_t* arguments) noexcept {
  if (!AnyEngineIsReady() || rules[index] == Rule::kHook) return {};
  const StreamArgument& argument = stream_arguments[index];
  if (argument.at < 0) {
    BeforeWork();
    return {.what = Behind::What::kNoteWork};
  }
  const auto stream = reinterpret_cast<CUstream>(arguments[-argument.at]);
  BeforeWorkOf(stream, argument.per_thread);
  return {Behind::What::kNoteWorkOf, argument.per_thread, stream};
}

void DoBehind(const Behind& behind) noexcept {
  switch (behind.what) {
    case Behind::What::kNothing:
      return;
    case Behind::What::kNoteWorkOf:
      return AfterWorkOf(behind.stream, behind.per_thread);
    case Behind::What::kCloseScope:
      // Before launches may become tasks again: what is waited for may have been given work.
      AfterWork();
      scopes.fetch_sub(1);
      return;
    case Behind::What::kNoteWork:
      return AfterWork();
  }
}

}  // namespace cupola::intercept::tasks
