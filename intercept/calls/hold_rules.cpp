#include "intercept/calls/hold_rules.h"

#include <cuda.h>

#include "intercept/facts/streams.h"
#include "intercept/preempt/host_holds.h"
#include "intercept/process/calls.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/stream_arguments.h"

namespace cupola::intercept::preempt {
namespace {

enum class HoldRule : uint8_t {
  kNone,
  kHolds,        ///< what its stream is given next waits for the program
  kMayWait,      ///< (stream, count, operations, flags): where one of these is a wait
  kRecord,       ///< (event, stream)
  kWait,         ///< (stream, event)
  kRecordInAll,  ///< (context, event)
  kWaitInAll,    ///< (context, event)
  kWaitInGreen,  ///< (green context, event)
  kFree,         ///< (address, stream)
  kAllocate,     ///< memory that another stream has freed brings that stream with it
                 ///< [CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES]
};
HoldRule rules[kCallCount];

struct NamedRule {
  const char* pattern;  ///< MatchesName
  HoldRule rule;
};

// What is named kHolds or kMayWait here is so in generate/stubs.py (HOLDS), for it is looked at also while
// nothing is held or guarded.
constexpr NamedRule kNamedRules[] = {
    {"cuLaunchHostFunc*", HoldRule::kHolds},
    {"cuStreamAddCallback*", HoldRule::kHolds},
    {"cuStreamWaitValue*", HoldRule::kHolds},
    {"cuWaitExternalSemaphoresAsync*", HoldRule::kHolds},
    {"cuStreamBatchMemOp*", HoldRule::kMayWait},
    {"cuEventRecord*", HoldRule::kRecord},
    {"cuStreamWaitEvent*", HoldRule::kWait},
    {"cuCtxRecordEvent", HoldRule::kRecordInAll},
    {"cuGreenCtxRecordEvent", HoldRule::kRecordInAll},
    {"cuCtxWaitEvent", HoldRule::kWaitInAll},
    {"cuGreenCtxWaitEvent", HoldRule::kWaitInGreen},
    {"cuMemFreeAsync*", HoldRule::kFree},
    {"cuMemAllocAsync*", HoldRule::kAllocate},
    {"cuMemAllocFromPoolAsync*", HoldRule::kAllocate},
};

bool HasWait(const uint64_t* arguments) {
  const auto* const operations =
      reinterpret_cast<const CUstreamBatchMemOpParams*>(ArgumentAt(arguments, 2));
  const auto count = static_cast<unsigned>(ArgumentAt(arguments, 1));
  for (unsigned i = 0; operations != nullptr && i < count; ++i) {
    const CUstreamBatchMemOpType operation = operations[i].operation;
    if (operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 || operation == CU_STREAM_MEM_OP_WAIT_VALUE_64) {
      return true;
    }
  }
  return false;
}

CUevent EventAt(const uint64_t* arguments, int at) {
  return reinterpret_cast<CUevent>(ArgumentAt(arguments, at));
}

CUcontext ContextOfGreen(uint64_t green) {
  CUcontext context = nullptr;
  const auto get = CUPOLA_CALL_REAL(cuCtxFromGreenCtx, PFN_cuCtxFromGreenCtx_v12040);
  return get(&context, reinterpret_cast<CUgreenCtx>(green)) == CUDA_SUCCESS ? context : nullptr;
}

// Of calls that have no stream.
uint64_t BeforeAll(HoldRule rule, const uint64_t* arguments) {
  const CUevent event = EventAt(arguments, 1);
  if (rule == HoldRule::kRecordInAll) NoteRecordedInAll(event);
  if (rule == HoldRule::kRecordInAll || !MayHold(event)) return 0;
  const uint64_t first = ArgumentAt(arguments, 0);
  return BeginHoldOfAll(rule == HoldRule::kWaitInGreen ? ContextOfGreen(first)
                        : first != 0                   ? reinterpret_cast<CUcontext>(first)
                                                       : CurrentContext(),
                        event);
}

}  // namespace

void StartHoldRules() noexcept {
  for (size_t call = 0; call < kCallCount; ++call) {
    for (const NamedRule& named : kNamedRules) {
      if (MatchesName(named.pattern, kCallNames[call])) rules[call] = named.rule;
    }
  }
}

uint64_t BeforeStreamOrdered(size_t call, const uint64_t* arguments) noexcept {
  const HoldRule rule = rules[call];
  if (rule == HoldRule::kNone) return 0;
  const StreamArgument& argument = kStreamArguments[call];
  if (argument.at < 0) return BeforeAll(rule, arguments);
  const auto stream = reinterpret_cast<CUstream>(ArgumentAt(arguments, argument.at));
  const bool per_thread = argument.per_thread;
  if (IsCapturing(stream, per_thread)) return 0;  // a graph comes of it, if anything
  const StreamKey key = ResolveStream(stream, per_thread);
  switch (rule) {
    case HoldRule::kMayWait:
      if (!HasWait(arguments)) return 0;
      [[fallthrough]];
    case HoldRule::kHolds:
      return BeginHold(key, stream, per_thread);
    case HoldRule::kRecord:
      NoteRecorded(EventAt(arguments, 0), key, stream, per_thread);
      return 0;
    case HoldRule::kWait:
      return MayHold(EventAt(arguments, 1)) ? BeginHold(key, stream, per_thread) : 0;
    case HoldRule::kFree:
      NoteFreed(key, stream, per_thread);
      return 0;
    case HoldRule::kAllocate:
      return MayBeFreedBehindHold(key) ? BeginHold(key, stream, per_thread) : 0;
    default:
      return 0;
  }
}

}  // namespace cupola::intercept::preempt
