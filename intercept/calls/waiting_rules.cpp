// Which driver call waits for which guarded launches, and what the forwarding stubs of the build
// call (entry.S) when launches are outstanding or the process has demand. The rules follow what an
// H200 does behind a guard (docs/preemption.md, "Calls behind a guard"); what is not named here and
// is classed kMayWait waits for all.
#include <new>

#include "intercept/batches/batches.h"
#include "intercept/calls/hold_rules.h"
#include "intercept/facts/allocations.h"
#include "intercept/facts/streams.h"
#include "intercept/preempt/demand.h"
#include "intercept/preempt/host_holds.h"
#include "intercept/preempt/preempt_context.h"
#include "intercept/preempt/preemption.h"
#include "intercept/preempt/waiting.h"
#include "intercept/process/calls.h"
#include "intercept/process/driver.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/stream_arguments.h"
#include "intercept/process/thread_state.h"
#include "intercept/tasks/task_rules.h"
#include "intercept/tasks/tasks.h"

namespace cupola::intercept::preempt {
namespace {

enum class Rule : uint8_t {
  kWait,          ///< for all guarded launches of the context of the call's stream, else the current one
  kWaitAll,       ///< of all contexts: the call may end another than the current one
  kCopy,          ///< synchronous copies: for those on blocking streams, and what these joined
  kCopyHost,      ///< the same between host and device, (to, from, bytes): its stream is waited for
  kCopyUnified,   ///< the same where it is between host and device
  kCopyFlat,      ///< the same of a CUDA_MEMCPY2D
  kCopyBox,       ///< the same of a CUDA_MEMCPY3D
  kCopyBetween,   ///< synchronous copies between contexts: for all launches of all contexts
  kCopyTo,        ///< asynchronous, (to, from, ...): waits unless both are pinned or on the device
  kFill,          ///< (to, ...): as kCopy where that is the host's memory or managed, else returns at once
  kNone,          ///< was measured to return at once
  kSyncContext,   ///< waits inside the driver without harm, and shows that nothing is left
  kSyncNamed,     ///< the same for the context that is the first argument
  kSyncStream,    ///< the same for one stream, the first argument
  kSyncStreamPerThread,
  kSyncEvent,
};

Rule rules[kCallCount];
bool makes_memory[kCallCount];  // calls that may wait, and make memory
bool may_join[kCallCount];      // calls that may put their stream behind what other streams hold

// Beside graphs, which are launches. Memory that another stream has freed brings that stream with
// it [CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES].
constexpr const char* kJoiningNames[] = {"cuStreamWait*", "cuStreamBatchMemOp*",
                                         "cuWaitExternalSemaphoresAsync*", "cuMemAllocAsync*",
                                         "cuMemAllocFromPoolAsync*"};

constexpr uint64_t kHasHook = 1u << 30;  // generate/stubs.py

struct NamedRule {
  const char* pattern;  ///< MatchesName
  Rule rule;
};

// Later ones win.
constexpr NamedRule kNamedRules[] = {
    {"cuMemcpy*", Rule::kCopy},
    {"cuMemcpyHtoD*", Rule::kCopyHost},
    {"cuMemcpyDtoH*", Rule::kCopyHost},
    {"cuMemcpy", Rule::kCopyUnified},
    {"cuMemcpy_ptds", Rule::kCopyUnified},
    {"cuMemcpy2D_v2*", Rule::kCopyFlat},
    {"cuMemcpy2DUnaligned_v2*", Rule::kCopyFlat},
    {"cuMemcpy3D_v2*", Rule::kCopyBox},
    {"cuMemcpyPeer*", Rule::kCopyBetween},
    {"cuMemcpy3DPeer*", Rule::kCopyBetween},
    {"cuMemcpyAsync*", Rule::kCopyTo},
    {"cuMemcpyHtoDAsync*", Rule::kCopyTo},
    {"cuMemcpyDtoHAsync*", Rule::kCopyTo},
    {"cuMemcpy2DAsync*", Rule::kWait},
    {"cuMemcpy3DAsync*", Rule::kWait},
    {"cuMemcpyBatchAsync*", Rule::kWait},
    {"cuMemcpy3DBatchAsync*", Rule::kWait},
    {"cuMemcpyAtoHAsync*", Rule::kWait},
    {"cuMemcpyHtoAAsync*", Rule::kWait},
    {"cuMemset*", Rule::kNone},
    {"cuMemsetD8_v2*", Rule::kFill},
    {"cuMemsetD16_v2*", Rule::kFill},
    {"cuMemsetD32_v2*", Rule::kFill},
    {"cuMemsetD2D8_v2*", Rule::kFill},
    {"cuMemsetD2D16_v2*", Rule::kFill},
    {"cuMemsetD2D32_v2*", Rule::kFill},
    {"cuMemAlloc", Rule::kNone},
    {"cuMemAlloc_v2", Rule::kNone},
    {"cuMemAllocPitch*", Rule::kNone},
    {"cuMemAllocHost*", Rule::kNone},
    {"cuMemHostAlloc", Rule::kNone},
    {"cuMemHostRegister*", Rule::kNone},
    {"cuMemGetInfo*", Rule::kNone},
    {"cuCtxSynchronize", Rule::kSyncContext},
    {"cuCtxSynchronize_v2", Rule::kSyncNamed},
    {"cuStreamSynchronize", Rule::kSyncStream},
    {"cuStreamSynchronize_ptsz", Rule::kSyncStreamPerThread},
    {"cuEventSynchronize", Rule::kSyncEvent},
    {"cuCtxDestroy*", Rule::kWaitAll},
    {"cuCtxDetach", Rule::kWaitAll},
    {"cuDevicePrimaryCtxRe*", Rule::kWaitAll},
    {"cuLibraryUnload", Rule::kWaitAll},
    {"cuGreenCtxDestroy", Rule::kWaitAll},
};

constexpr const char* kMakeMemory[] = {
    "cuMemAlloc*", "cuMemHostAlloc", "cuMemHostRegister*", "cuMemMap", "cuIpcOpenMemHandle*",
    "cuExternalMemoryGetMappedBuffer", "cuMemPoolImportPointer",
};

// Pinned host memory and device memory are known to the driver; pageable memory is not: 0.
unsigned MemoryType(uint64_t address) {
  unsigned type = 0;
  const auto get = CUPOLA_CALL_REAL(cuPointerGetAttribute, PFN_cuPointerGetAttribute_v4000);
  return get(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == CUDA_SUCCESS ? type : 0;
}

bool IsKnownToDriver(uint64_t address) { return MemoryType(address) != 0; }

bool IsManaged(uint64_t address) {
  unsigned is_managed = 0;
  const auto get = CUPOLA_CALL_REAL(cuPointerGetAttribute, PFN_cuPointerGetAttribute_v4000);
  return get(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address) == CUDA_SUCCESS &&
         is_managed != 0;
}

template <typename Box>
bool IsBetweenHostAndDevice(uint64_t argument) {
  const auto* const box = reinterpret_cast<const Box*>(argument);
  if (box == nullptr) return false;
  const auto is = [box](CUmemorytype to, CUmemorytype from) {
    return box->dstMemoryType == to && box->srcMemoryType == from;
  };
  return is(CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE) ||
         is(CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST);
}

// Whether the host waits for the stream of a synchronous copy: not of one on the device [CUDA Driver
// API, "API synchronization behavior"]. Of arrays and the like it is not looked into.
bool IsWaitedFor(Rule rule, const uint64_t* arguments) {
  switch (rule) {
    case Rule::kCopyHost: return arguments[-2] != 0;
    case Rule::kCopyUnified: {
      const bool to_device = MemoryType(arguments[0]) == CU_MEMORYTYPE_DEVICE;
      return arguments[-2] != 0 &&
             to_device != (MemoryType(arguments[-1]) == CU_MEMORYTYPE_DEVICE);
    }
    case Rule::kCopyFlat: return IsBetweenHostAndDevice<CUDA_MEMCPY2D>(arguments[0]);
    case Rule::kCopyBox: return IsBetweenHostAndDevice<CUDA_MEMCPY3D>(arguments[0]);
    case Rule::kFill: return true;
    default: return false;
  }
}

/// A call that is under way on this thread, between cupola_enter_may_wait or
/// cupola_enter_stream_ordered, and cupola_leave_call. It lies in the frame of entry.S, which has
/// kCallBytes for it.
struct CallUnderWay {
  uint64_t scopes;          ///< bit i: a scope is open in internal::contexts[i]
  uint64_t kept;            ///< bit i: its launches are kept on (CloseScope)
  bool context_kept;        ///< the same of `context`
  bool elsewhere;           ///< counted in scopes_elsewhere
  bool deepened;            ///< this_thread.depth was raised
  bool makes_memory;
  tasks::Behind tasks;
  PreemptContext* context;  ///< whose scope is open
  SyncPoint sync;
  uint64_t hold;            ///< of EndHold
  bool waits_for_held;      ///< for `key`'s stream or, with `whole_context`, context, with holds so far
  bool whole_context;
  StreamKey key;
  uint64_t holds_before;
  CUevent* opened;          ///< where an event of another process will be
};
constexpr size_t kCallBytes = 192;
static_assert(sizeof(CallUnderWay) <= kCallBytes && alignof(CallUnderWay) <= 16);

/// Null when none is.
thread_local constinit CallUnderWay* call_under_way __attribute__((tls_model("initial-exec"))) = nullptr;

PreemptContext* Current() { return FindContext(CurrentContext()); }

// Of the call's stream, where it has one: that may be of another context than the current one.
PreemptContext* ContextOf(size_t call, const uint64_t* arguments) {
  const StreamArgument& argument = kStreamArguments[call];
  if (argument.at < 0) return Current();
  const auto stream = reinterpret_cast<CUstream>(ArgumentAt(arguments, argument.at));
  const StreamKey key = ResolveStream(stream, argument.per_thread);
  return FindContext(reinterpret_cast<CUcontext>(key.context));
}

static_assert(internal::kMostContexts <= 64);

// Nothing of a context that is not known is guarded; nothing may be until the call is over.
void OpenElsewhere() {
  CallUnderWay& under_way = *call_under_way;
  scopes_elsewhere.fetch_add(1);
  under_way.elsewhere = true;
}

void OpenAll() {
  CallUnderWay& under_way = *call_under_way;
  OpenElsewhere();
  const uint32_t count = internal::context_count.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < count; ++i) {
    PreemptContext* const context = internal::contexts[i].load(std::memory_order_acquire);
    if (context->state.load() == PreemptContext::State::kDead) continue;
    if (OpenScope(*context, WaitFor::kAll)) under_way.kept |= uint64_t{1} << i;
    under_way.scopes |= uint64_t{1} << i;
  }
}

// What the program holds of a stream has passed when it has waited for that.
void WillHaveWaitedFor(const StreamKey& key, bool whole_context) {
  CallUnderWay& under_way = *call_under_way;
  if (!AnyIsHeld()) return;
  under_way.waits_for_held = true;
  under_way.whole_context = whole_context;
  under_way.key = key;
  under_way.holds_before = HoldsSoFar();
}

void Open(size_t call, const uint64_t* arguments) {
  CallUnderWay& under_way = *call_under_way;
  const Rule rule = rules[call];
  if (call == static_cast<size_t>(Call::k_cuIpcOpenEventHandle)) {
    under_way.opened = reinterpret_cast<CUevent*>(arguments[0]);
  }
  switch (rule) {
    case Rule::kNone: return;
    case Rule::kWaitAll:
      OpenAll();
      return;
    case Rule::kCopyBetween:
      under_way.sync = BeforeSync(Current(), 0, false);
      OpenAll();
      return;
    case Rule::kCopyTo:
      if (PreemptContext* const context = ContextOf(call, arguments)) AwaitGuard(*context);
      if (IsKnownToDriver(arguments[0]) && IsKnownToDriver(arguments[-1])) return;
      [[fallthrough]];
    case Rule::kWait:
      under_way.context = ContextOf(call, arguments);
      if (under_way.context == nullptr) return OpenElsewhere();
      under_way.context_kept = OpenScope(*under_way.context, WaitFor::kAll);
      return;
    case Rule::kFill:
      if (MemoryType(arguments[0]) != CU_MEMORYTYPE_HOST && !IsManaged(arguments[0])) return;
      [[fallthrough]];
    case Rule::kCopy:
    case Rule::kCopyHost:
    case Rule::kCopyUnified:
    case Rule::kCopyFlat:
    case Rule::kCopyBox:
      under_way.context = Current();
      if (under_way.context == nullptr) return OpenElsewhere();
      if (IsWaitedFor(rule, arguments)) under_way.sync = BeforeSync(under_way.context, 0, false);
      under_way.context_kept = OpenScope(*under_way.context, WaitFor::kBlocking);
      return;
    case Rule::kSyncNamed:
      if (arguments[0] != 0) {
        PreemptContext* const named = FindContext(reinterpret_cast<CUcontext>(arguments[0]));
        WillHaveWaitedFor({arguments[0], 0, 0}, /*whole_context=*/true);
        under_way.sync = BeforeSync(named, kNoStream, true);
        return;
      }
      [[fallthrough]];
    case Rule::kSyncContext:
      WillHaveWaitedFor({reinterpret_cast<uint64_t>(CurrentContext()), 0, 0}, /*whole_context=*/true);
      under_way.sync = BeforeSync(Current(), kNoStream, true);
      return;
    case Rule::kSyncStream:
    case Rule::kSyncStreamPerThread: {
      const StreamKey key = ResolveStream(reinterpret_cast<CUstream>(arguments[0]),
                                          rule == Rule::kSyncStreamPerThread);
      WillHaveWaitedFor(key, /*whole_context=*/false);
      under_way.sync = BeforeSync(FindContext(reinterpret_cast<CUcontext>(key.context)),
                                  key.stream, false);
      return;
    }
    case Rule::kSyncEvent: return;
  }
}

bool HasTasksBehind() { return call_under_way->tasks.what != tasks::Behind::What::kNothing; }

// A hook raises the depth itself; without one, what the driver calls meanwhile is its own affair.
uint64_t Enter(uint64_t index) {
  CallUnderWay& under_way = *call_under_way;
  under_way.deepened = (index & kHasHook) == 0;
  if (under_way.deepened) ++this_thread.depth;
  return 1;
}

// Nothing is to be done behind the call.
uint64_t Leave() {
  call_under_way = nullptr;
  return 0;
}

}  // namespace

void StartWaitingRules() noexcept {
  for (size_t call = 0; call < kCallCount; ++call) {
    rules[call] = Rule::kWait;
    for (const NamedRule& named : kNamedRules) {
      if (MatchesName(named.pattern, kCallNames[call])) rules[call] = named.rule;
    }
    for (const char* pattern : kMakeMemory) {
      makes_memory[call] |= MatchesName(pattern, kCallNames[call]);
    }
    for (const char* pattern : kJoiningNames) {
      may_join[call] |= kStreamArguments[call].at >= 0 && MatchesName(pattern, kCallNames[call]);
    }
  }
}

extern "C" {

/// Called by entry.S before call `index` (bit 30: it has a hook of ours) with its register
/// arguments, the first at `arguments[0]`, the next below it, and kCallBytes at `storage` that last until
/// cupola_leave_call. Returns nonzero if that is to be called after it.
__attribute__((visibility("hidden"))) uint64_t cupola_enter_may_wait(
    uint64_t index, const uint64_t* arguments, void* storage) noexcept {
  if (InsideHook() || call_under_way != nullptr) return 0;
  if (!PreemptionOn() && !tasks::TasksOn()) return 0;
  batches::BeforeCall(index & ~kHasHook);
  {
    const HookScope scope;  // what we ask of the driver here is not the program's
    call_under_way = new (storage) CallUnderWay{};
    CallUnderWay& under_way = *call_under_way;
    // First tasks: launches may wait for them, they for no launch.
    if (tasks::TasksOn()) under_way.tasks = tasks::BeforeMayWait(index & ~kHasHook, arguments);
    under_way.makes_memory = makes_memory[index & ~kHasHook];
    if (PreemptionOn()) Open(index & ~kHasHook, arguments);
  }
  return PreemptionOn() || HasTasksBehind() ? Enter(index) : Leave();
}

/// The same for a stream-ordered call.
__attribute__((visibility("hidden"))) uint64_t cupola_enter_stream_ordered(
    uint64_t index, const uint64_t* arguments, void* storage) noexcept {
  if (InsideHook() || call_under_way != nullptr) return 0;
  batches::BeforeCall(index & ~kHasHook);
  call_under_way = new (storage) CallUnderWay{};
  CallUnderWay& under_way = *call_under_way;
  if (tasks::TasksOn()) {
    const HookScope scope;
    under_way.tasks = tasks::BeforeStreamOrdered(index & ~kHasHook, arguments);
  }
  if (PreemptionOn()) {
    const HookScope scope;
    under_way.hold = BeforeStreamOrdered(index & ~kHasHook, arguments);
    PreemptContext* const context = ContextOf(index & ~kHasHook, arguments);
    if (context != nullptr) EnterPlain(*context);
    if (context != nullptr && may_join[index & ~kHasHook]) {
      const StreamArgument& argument = kStreamArguments[index & ~kHasHook];
      NoteJoin(*context, reinterpret_cast<CUstream>(ArgumentAt(arguments, argument.at)), argument.per_thread);
    }
  }
  return HasTasksBehind() || under_way.hold != 0 ? Enter(index) : Leave();
}

__attribute__((visibility("hidden"))) void cupola_leave_call(CUresult result) noexcept {
  CallUnderWay& under_way = *call_under_way;
  if (under_way.deepened) --this_thread.depth;
  for (uint64_t rest = under_way.scopes; rest != 0; rest &= rest - 1) {
    const int index = __builtin_ctzll(rest);
    CloseScope(*internal::contexts[index].load(std::memory_order_acquire),
               (under_way.kept >> index & 1) != 0);
  }
  if (under_way.context != nullptr) CloseScope(*under_way.context, under_way.context_kept);
  if (under_way.elsewhere) scopes_elsewhere.fetch_sub(1);
  EndHold(under_way.hold);
  if (under_way.opened != nullptr && result == CUDA_SUCCESS) NoteForeignEvent(*under_way.opened);
  if (under_way.waits_for_held && result == CUDA_SUCCESS) {
    NoteWaitedFor(reinterpret_cast<CUcontext>(under_way.key.context), under_way.key.stream,
                  under_way.whole_context, under_way.holds_before);
  }
  if (under_way.makes_memory) NoteMemoryMade();
  tasks::DoBehind(under_way.tasks);
  if (result == CUDA_SUCCESS) AfterSync(under_way.sync);
  call_under_way = nullptr;
}

}  // extern "C"
}  // namespace cupola::intercept::preempt
