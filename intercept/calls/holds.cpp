#include "intercept/calls/holds.h"

#include <cuda.h>

#include "intercept/calls/call_table.h"
#include "intercept/facts/streams.h"
#include "intercept/preempt/host_holds.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/stream_arguments.h"

namespace cupola::intercept {
namespace {

// Whether one of the operations of cuStreamBatchMemOp is a wait. Arguments: (stream, count, operations, flags).
bool HasWait(const uint64_t* arguments) {
  const auto* const operations = reinterpret_cast<const CUstreamBatchMemOpParams*>(ArgumentAt(arguments, 2));
  const auto count = static_cast<unsigned>(ArgumentAt(arguments, 1));
  for (unsigned i = 0; operations != nullptr && i < count; ++i) {
    const CUstreamBatchMemOpType operation = operations[i].operation;
    if (operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 || operation == CU_STREAM_MEM_OP_WAIT_VALUE_64) return true;
  }
  return false;
}

CUevent EventAt(const uint64_t* arguments, int at) { return reinterpret_cast<CUevent>(ArgumentAt(arguments, at)); }

CUcontext ContextOfGreen(uint64_t green) {
  CUcontext context = nullptr;
  const auto get = CUPOLA_CALL_REAL(cuCtxFromGreenCtx, PFN_cuCtxFromGreenCtx_v12040);
  return get(&context, reinterpret_cast<CUgreenCtx>(green)) == CUDA_SUCCESS ? context : nullptr;
}

// For calls that concern all streams of a context. Arguments: (context, event).
uint64_t BeginHoldInContext(HoldRule rule, const uint64_t* arguments) {
  const CUevent event = EventAt(arguments, 1);
  if (rule == HoldRule::kRecordsInContext) preempt::OnEventRecordedInContext(event);
  if (rule == HoldRule::kRecordsInContext || !preempt::MayHold(event)) return 0;
  const uint64_t first = ArgumentAt(arguments, 0);
  const CUcontext context = rule == HoldRule::kWaitsInGreenContext ? ContextOfGreen(first)
                            : first != 0                           ? reinterpret_cast<CUcontext>(first)
                                                                   : CurrentContext();
  return preempt::BeginHoldOfAll(context, event);
}

}  // namespace

uint64_t BeginHoldOf(size_t call, const uint64_t* arguments) noexcept {
  const HoldRule rule = kCallTable[call].holds;
  if (rule == HoldRule::kNone) return 0;
  const StreamArgument& argument = kStreamArguments[call];
  if (argument.at < 0) return BeginHoldInContext(rule, arguments);
  const auto stream = reinterpret_cast<CUstream>(ArgumentAt(arguments, argument.at));
  const bool per_thread = argument.per_thread;
  if (IsCapturing(stream, per_thread)) return 0;  // the call becomes part of a graph and puts nothing on the stream
  const StreamKey key = ResolveStream(stream, per_thread);
  switch (rule) {
    case HoldRule::kHoldsIfItWaits:
      if (!HasWait(arguments)) return 0;
      [[fallthrough]];
    case HoldRule::kHolds:
      return preempt::BeginHold(key, stream, per_thread);
    case HoldRule::kRecordsEvent:
      preempt::OnEventRecorded(EventAt(arguments, 0), key, stream, per_thread);
      return 0;
    case HoldRule::kWaitsForEvent:
      return preempt::MayHold(EventAt(arguments, 1)) ? preempt::BeginHold(key, stream, per_thread) : 0;
    case HoldRule::kFreesMemory:
      preempt::OnMemoryFreed(key, stream, per_thread);
      return 0;
    case HoldRule::kAllocatesMemory:
      return preempt::MayBeFreedBehindHold(key) ? preempt::BeginHold(key, stream, per_thread) : 0;
    default:
      return 0;
  }
}

}  // namespace cupola::intercept
