#include "intercept/calls/waits.h"

#include <atomic>

#include "intercept/calls/call_table.h"
#include "intercept/launch/launch_context.h"
#include "intercept/launch/own_call_scope.h"
#include "intercept/preempt/host_holds.h"
#include "intercept/preempt/waiting.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/stream_arguments.h"

namespace cupola::intercept {
namespace {

using preempt::WaitFor;

// The CUmemorytype of the memory at an address. 0 for pageable memory, which the driver does not know.
unsigned MemoryType(uint64_t address) {
  unsigned type = 0;
  const auto get = CUPOLA_CALL_REAL(cuPointerGetAttribute, PFN_cuPointerGetAttribute_v4000);
  // plant: pageable_is_pinned
  return get(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == CUDA_SUCCESS ? type : 0;
}

bool IsKnownToDriver(uint64_t address) { return MemoryType(address) != 0; }

bool IsManaged(uint64_t address) {
  unsigned is_managed = 0;
  const auto get = CUPOLA_CALL_REAL(cuPointerGetAttribute, PFN_cuPointerGetAttribute_v4000);
  return get(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address) == CUDA_SUCCESS && is_managed != 0;
}

template <typename Copy>
bool IsBetweenHostAndDevice(uint64_t argument) {
  const auto* const copy = reinterpret_cast<const Copy*>(argument);
  if (copy == nullptr) return false;
  const auto is = [copy](CUmemorytype to, CUmemorytype from) {
    return copy->dstMemoryType == to && copy->srcMemoryType == from;
  };
  return is(CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE) || is(CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST);
}

// Whether the host waits for the default stream in a synchronous copy or fill. It does not in a copy on the device
// [CUDA Driver API, "API synchronization behavior"]. For copies of arrays and the like the answer is always no.
// Here and below, register arguments are as entry.S has them: the first at arguments[0], each next one word below it.
bool WaitsForDefaultStream(WaitRule rule, const uint64_t* arguments) {
  const uint64_t to = arguments[0], from = arguments[-1], bytes = arguments[-2];
  switch (rule) {
    case WaitRule::kCopyHost:
      return bytes != 0;
    case WaitRule::kCopyUnified: {
      const bool is_to_device = MemoryType(to) == CU_MEMORYTYPE_DEVICE;
      return bytes != 0 && is_to_device != (MemoryType(from) == CU_MEMORYTYPE_DEVICE);
    }
    case WaitRule::kCopy2D:
      return IsBetweenHostAndDevice<CUDA_MEMCPY2D>(to);
    case WaitRule::kCopy3D:
      return IsBetweenHostAndDevice<CUDA_MEMCPY3D>(to);
    case WaitRule::kFill:
      return true;
    default:
      return false;
  }
}

LaunchContext* CurrentLaunchContext() { return FindContext(CurrentContext()); }

// The context of the call's stream, which need not be the current one; for a call without a stream the current one.
LaunchContext* ContextOf(size_t call, const uint64_t* arguments) {
  const StreamArgument& argument = kStreamArguments[call];
  if (argument.at < 0) return CurrentLaunchContext();
  const auto stream = reinterpret_cast<CUstream>(ArgumentAt(arguments, argument.at));
  const StreamKey key = ResolveStream(stream, argument.per_thread);
  return FindContext(reinterpret_cast<CUcontext>(key.context));
}

// For a context that preemption does not know: none of its launches is guarded yet, and none may be until the call is
// over. There is no LaunchContext to count that in, so it is counted for the whole process (own_call_scope.h).
void OpenElsewhere(CallWait* wait) {
  scopes_elsewhere.fetch_add(1);
  wait->is_elsewhere = true;
}

// Opens a scope in one context. Null: a context that preemption does not know.
void OpenIn(LaunchContext* context, WaitFor what, CallWait* wait) {
  if (context == nullptr) return OpenElsewhere(wait);
  wait->context = context;
  wait->is_context_kept = preempt::OpenScope(*context, what);
}

static_assert(launch_contexts::kMost <= 64);

// Opens a scope in every context, known to preemption or not.
void OpenInAll(CallWait* wait) {
  OpenElsewhere(wait);
  const uint32_t count = launch_contexts::count.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < count; ++i) {
    LaunchContext* const context = launch_contexts::all[i].load(std::memory_order_acquire);
    if (context->state.load() == LaunchContext::State::kDead) continue;
    if (preempt::OpenScope(*context, WaitFor::kAll)) wait->kept |= uint64_t{1} << i;
    wait->scopes |= uint64_t{1} << i;
  }
}

// Opens a scope for a synchronous copy or fill, whose stream is the default stream of the current context. If the
// program waits for that stream, the end of the call may also show that a burst is over.
void OpenForCopy(WaitRule rule, const uint64_t* arguments, CallWait* wait) {
  LaunchContext* const context = CurrentLaunchContext();
  if (context != nullptr && WaitsForDefaultStream(rule, arguments)) {
    wait->sync = BeforeSync(context, 0, /*whole_context=*/false);
  }
  OpenIn(context, WaitFor::kBlocking, wait);
}

// Prepares for the time after the call: when the program has waited for a stream or a context, the holds of that stream
// or context which were there before the call are over.
void WillHaveWaitedFor(const StreamKey& key, bool is_whole_context, CallWait* wait) {
  if (!preempt::AnyIsHeld()) return;
  wait->waits_for_held = true;
  wait->is_whole_context = is_whole_context;
  wait->key = key;
  wait->holds_before = preempt::HoldsSoFar();
}

// For calls that wait for a context or a stream in the driver without harm: no scope is opened. Records what is waited
// for, since after the call no work of it is left.
void SyncContext(CUcontext context, CallWait* wait) {
  WillHaveWaitedFor({reinterpret_cast<uint64_t>(context), 0, 0}, /*is_whole_context=*/true, wait);
  wait->sync = BeforeSync(FindContext(context), kNoStream, /*whole_context=*/true);
}

void SyncStream(CUstream stream, bool per_thread, CallWait* wait) {
  const StreamKey key = ResolveStream(stream, per_thread);
  WillHaveWaitedFor(key, /*is_whole_context=*/false, wait);
  wait->sync = BeforeSync(FindContext(reinterpret_cast<CUcontext>(key.context)), key.stream,
                          /*whole_context=*/false);
}

}  // namespace

void OpenWait(size_t call, const uint64_t* arguments, CallWait* wait) noexcept {
  const WaitRule rule = kCallTable[call].waits;
  const uint64_t to = arguments[0], from = arguments[-1];
  switch (rule) {
    case WaitRule::kNone:
      return;
    case WaitRule::kSyncEvent:
      if (MayAskAtEventSync()) BeforeEventSync(CurrentLaunchContext());
      return;
    case WaitRule::kContext:
      return OpenIn(ContextOf(call, arguments), WaitFor::kAll, wait);
    case WaitRule::kAllContexts:
      return OpenInAll(wait);
    case WaitRule::kCopy:
    case WaitRule::kCopyHost:
    case WaitRule::kCopyUnified:
    case WaitRule::kCopy2D:
    case WaitRule::kCopy3D:
      return OpenForCopy(rule, arguments, wait);
    case WaitRule::kFill:
      if (MemoryType(to) != CU_MEMORYTYPE_HOST && !IsManaged(to)) return;  // a fill of device memory does not wait
      return OpenForCopy(rule, arguments, wait);
    case WaitRule::kCopyPeer:
      wait->sync = BeforeSync(CurrentLaunchContext(), 0, /*whole_context=*/false);
      return OpenInAll(wait);
    case WaitRule::kCopyAsync: {
      if (LaunchContext* const context = ContextOf(call, arguments)) AwaitGuard(*context);
      if (IsKnownToDriver(to) && IsKnownToDriver(from)) return;
      return OpenIn(ContextOf(call, arguments), WaitFor::kAll, wait);
    }
    case WaitRule::kSyncNamed:
      if (to != 0) return SyncContext(reinterpret_cast<CUcontext>(to), wait);
      [[fallthrough]];
    case WaitRule::kSyncContext:
      return SyncContext(CurrentContext(), wait);
    case WaitRule::kSyncStream:
    case WaitRule::kSyncStreamPerThread:
      return SyncStream(reinterpret_cast<CUstream>(to), rule == WaitRule::kSyncStreamPerThread, wait);
  }
}

void CloseWait(const CallWait& wait, bool has_succeeded) noexcept {
  for (uint64_t rest = wait.scopes; rest != 0; rest &= rest - 1) {
    const int index = __builtin_ctzll(rest);
    preempt::CloseScope(*launch_contexts::all[index].load(std::memory_order_acquire), (wait.kept >> index & 1) != 0);
  }
  if (wait.context != nullptr) preempt::CloseScope(*wait.context, wait.is_context_kept);
  if (wait.is_elsewhere) scopes_elsewhere.fetch_sub(1);
  if (wait.waits_for_held && has_succeeded) {
    preempt::ReleaseHoldsWaitedFor(reinterpret_cast<CUcontext>(wait.key.context), wait.key.stream, wait.is_whole_context,
                           wait.holds_before);
  }
}

void WaitForRoom(size_t call, const uint64_t* arguments) noexcept {
  LaunchContext* const context = ContextOf(call, arguments);
  if (context == nullptr) return;
  preempt::EnterPlain(*context);
  if (!kCallTable[call].may_join) return;
  const StreamArgument& argument = kStreamArguments[call];
  preempt::RecordJoin(*context, reinterpret_cast<CUstream>(ArgumentAt(arguments, argument.at)), argument.per_thread);
}

}  // namespace cupola::intercept
