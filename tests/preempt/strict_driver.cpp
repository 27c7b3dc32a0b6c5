// A driver that forbids what hangs a GPU: over the simulated driver, it ends the process with code
// 99 and a word when a call that may wait is entered behind a guard, or a guard is made while one
// is under way (docs/waiting.md, "Calls behind a guard"). A guard is a cuStreamWaitValue32 for a
// word of the device whose value has not been reached: to reach it takes a launch. It matters to
// calls in its own context, and to those that may end that [measured on an H200: guarded_calls.cu];
// to a synchronous copy where it holds a blocking stream, or one of those waits for its stream.
// A wait for a word of the host needs none, and harms nobody who waits; but with STRICT_HOST_WAITS
// it is a guard as well: the thread that is to write it may be the one that calls. It knows nothing
// of the library's own rules. STRICT_REFUSES: a call that it does not support, cuMemHostRegister_v2
// or cuStreamWaitValue32_v2. STRICT_TELLS_PRIORITY: it says which launches have a priority of their
// own. STRICT_TELLS_QUEUES: how many it has. STRICT_LOCKS: calls that wait keep others out (strict_lock.h).
// STRICT_HOLDS_CONTEXT: a synchronous copy keeps stream write values out of its context, as a thread that
// waits inside the driver may. STRICT_LATE_MS: launches of more than 32 blocks reach the driver so late,
// and where that loads the kernel, it waits until no stream has anything to do, and holds up other
// launches meanwhile, as lazy loading does. STRICT_QUERY_MS: whether a stream has work is answered so late.
// STRICT_GUARD_MS: a wait for a word reaches the driver so late. STRICT_ROOM: some copies need SMs (strict_room.h).
// STRICT_BESIDE: a launch may be resumed beside itself.
// A process that may not be asked to yield (BoardSlot::not_now of the board that CUPOLA_BOARD names) has no
// guard that matters: what it has launched does not stop. It must not be asked all the same, nor may that end,
// while such a call is under way.
// It also ends the process where a stream of a device that was reset is synchronised or destroyed
// [measured on an H200: SIGSEGV].
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "tests/preempt/strict_lock.h"
#include "tests/preempt/strict_place.h"
#include "tests/preempt/strict_real.h"
#include "tests/preempt/strict_room.h"

extern "C" const char* const strict_names[];
extern "C" __attribute__((visibility("hidden"))) void* strict_real[];
extern "C" void* strict_enter(size_t index);
extern "C" void strict_leave(size_t index);

namespace {

using namespace strict;  // NOLINT: its own

struct Guard {
  const uint32_t* word;
  uint32_t value;
  CUstream stream;
  bool blocking;  ///< it holds the legacy stream: itself, or through an event
  CUcontext context;
  uint64_t entry;  ///< number of what was put into streams
};

/// A call that may wait.
struct UnderWay {
  size_t index;
  CUcontext context;  ///< null: any
  bool is_copy;       ///< waits for the legacy stream
};

constexpr uint32_t kStreamHolds = 1024;
uint32_t queues = 0;  // as the environment says at cuInit

std::mutex loading;  // held by who loads; before the other
std::recursive_mutex mutex;
// Leaked: exit() may end them before it runs what still calls the driver.
auto& guards = *new std::vector<Guard>;
uint64_t entries = 0;
auto& queued = *new std::map<CUstream, std::deque<uint64_t>>;  // entries behind what holds it
auto& loaded = *new std::set<const void*>;
auto& streams = *new std::set<CUstream>;
auto& used = *new std::set<CUstream>;  // of these, the ones that were ever given a launch: only they take queues
auto& held = *new std::map<pthread_t, CUcontext>;  // by cuCtxSetCurrent
auto& gone = *new std::set<CUstream>;              // of a device that was reset
auto& under_way = *new std::vector<UnderWay>;
auto& copying = *new std::vector<UnderWay>;
auto& going_on = *new std::set<pthread_t>;  // who is in a call behind a guard of what does not stop
// Guards, by `entry`, that what a stream gets next comes behind through events; that an event, or
// the last launch of an executable graph, came behind.
auto& joined = *new std::map<CUstream, std::set<uint64_t>>;
auto& recorded = *new std::map<const void*, std::set<uint64_t>>;
// Streams of a context on the level next to the lowest: the first of them are those that resumes
// run on.
auto& helpers = *new std::map<CUcontext, uint32_t>;

__attribute__((constructor)) void FillTable() {
  for (size_t i = 0; strict_names[i] != nullptr; ++i) strict_real[i] = Real(strict_names[i]);
}

CUcontext Current() {
  CUcontext current = nullptr;
  const auto get_current = reinterpret_cast<CUresult (*)(CUcontext*)>(Real("cuCtxGetCurrent"));
  // Behind the driver's exit handler every call fails, and none waits.
  if (get_current(&current) == CUDA_ERROR_DEINITIALIZED) guards.clear();
  return current;
}

CUcontext ContextOf(CUstream stream) {
  CUcontext context = nullptr;
  const auto get = reinterpret_cast<CUresult (*)(CUstream, CUcontext*)>(Real("cuStreamGetCtx"));
  return get(stream, &context) == CUDA_SUCCESS ? context : Current();
}

/// `context`: null for any.
bool HasGuard(CUcontext context, bool only_blocking = false) {
  return std::ranges::any_of(guards, [&](const Guard& guard) {
    return (context == nullptr || guard.context == context) && (guard.blocking || !only_blocking);
  });
}

void DropReached() {
  (void)Current();
  std::erase_if(guards, [](const Guard& guard) {
    const uint32_t now = __atomic_load_n(guard.word, __ATOMIC_ACQUIRE);
    return static_cast<int32_t>(now - guard.value) >= 0;
  });
  if (guards.empty()) queued.clear();
}

/// The calling thread's default stream counts from its first launch until the thread ends.
class OwnStream {
 public:
  OwnStream() { streams.insert(handle()); }  // with the mutex held
  ~OwnStream() {
    const std::lock_guard lock(mutex);
    streams.erase(handle());
    used.erase(handle());
  }
  CUstream handle() { return reinterpret_cast<CUstream>(this); }
};

CUstream NameOf(CUstream stream, bool per_thread) {
  if (stream != CU_STREAM_PER_THREAD && !(per_thread && stream == nullptr)) return stream;
  thread_local OwnStream own;
  return own.handle();
}

// Without `mutex`: others are to do meanwhile what they can.
void ComeLate(const void* function, unsigned blocks) {
  constexpr int kLooks = 10'000;
  static const bool may_be_late = std::getenv("STRICT_LATE_MS") != nullptr;
  if (!may_be_late) return;
  const bool is_late = blocks > 32;
  if (is_late) SleepAsTold("STRICT_LATE_MS");
  const std::lock_guard hold(loading);
  for (int look = 0; is_late && look < kLooks; ++look) {
    {
      const std::lock_guard lock(mutex);
      if (loaded.count(FunctionOf(function)) != 0 || std::ranges::none_of(streams, HasWork)) return;
    }
    usleep(1000);
  }
  if (is_late) Violation("loads a kernel, and the device never rests", "a launch");
}

void CheckLaunch(const void* function, CUstream stream, bool per_thread, unsigned blocks) {
  ComeLate(function, blocks);
  const std::lock_guard lock(mutex);
  DropReached();
  const CUstream name = NameOf(stream, per_thread);
  if (streams.contains(name)) used.insert(name);
  const bool first = function != nullptr && loaded.insert(FunctionOf(function)).second;
  const CUcontext context = ContextOf(stream);
  if (!HasGuard(context)) return;
  if (first) Violation("loads a kernel behind a guard", "a launch");
  if (used.size() + 1 > queues && streams.contains(name)) {
    Violation("shares a hardware queue with a guard", "a launch");
  }
  // The first one is the oldest; what came before it is held by none.
  const bool is_blocking = IsBlocking(stream);
  const auto held_by = std::ranges::find_if(guards, [&](const Guard& guard) {
    return guard.stream == stream || (guard.context == context && guard.blocking && is_blocking);
  });
  if (held_by == guards.end()) return;
  std::deque<uint64_t>& behind = queued[stream];
  while (!behind.empty() && behind.front() < held_by->entry) behind.pop_front();
  behind.push_back(++entries);
  if (behind.size() > kStreamHolds) Violation("waits for room behind a guard", "a launch");
}

// Where a guard comes to hold what one of them waits for it must not.
void CheckUnderWay() {
  if (GoesOn()) return;
  for (const UnderWay& call : under_way) {
    if (HasGuard(call.context, call.is_copy)) {
      Violation("is under way while a guard is made", strict_names[call.index]);
    }
  }
}

/// `what`: an event, or an executable graph, which runs behind its last launch.
void NoteRecord(const void* what, CUstream stream) {
  const std::lock_guard lock(mutex);
  DropReached();
  const CUcontext context = ContextOf(stream);
  const bool is_blocking = IsBlocking(stream);
  std::set<uint64_t>& behind = recorded[what] = joined[Legacy(stream)];
  for (const Guard& guard : guards) {
    if (Legacy(guard.stream) == Legacy(stream) ||
        (guard.context == context && guard.blocking && is_blocking)) {
      behind.insert(guard.entry);
    }
  }
}

/// What blocking streams come behind all of them do, with a copy on the legacy stream between.
void MeasureWait(CUstream stream, const void* what) {
  const std::lock_guard lock(mutex);
  DropReached();
  const std::set<uint64_t>& behind = recorded[what];
  joined[Legacy(stream)].insert(behind.begin(), behind.end());
  if (!IsBlocking(stream)) return;
  for (Guard& guard : guards) guard.blocking |= behind.contains(guard.entry);
  CheckUnderWay();
}

CUresult PassGuard(const char* name, CUstream stream, CUdeviceptr address, cuuint32_t value,
                   unsigned flags) {
  if (Refuses("cuStreamWaitValue32_v2")) return CUDA_ERROR_NOT_SUPPORTED;
  SleepAsTold("STRICT_GUARD_MS");
  {
    const std::lock_guard lock(mutex);
    const auto* word = reinterpret_cast<const uint32_t*>(address);
    if (IsGuard(address, value)) {
      DropReached();
      guards.push_back({word, value, stream, IsBlocking(stream), ContextOf(stream), ++entries});
      queued[stream].push_back(entries);
      DropReached();
    }
    CheckUnderWay();
  }
  const Call call;
  return Forward(name, stream, address, value, flags);
}

template <typename Argument>
CUresult PassMayWait(const char* name, Argument argument) {
  size_t index = 0;
  while (std::strcmp(strict_names[index], name) != 0) ++index;
  void* const real = strict_enter(index);
  const CUresult result = reinterpret_cast<CUresult (*)(Argument)>(real)(argument);
  strict_leave(index);
  return result;
}

// Another may have got the handle of one that is gone.
void NoteMade(CUstream stream) {
  streams.insert(stream);
  gone.erase(stream);
}

void MustBeThere(const char* name, CUstream stream) {
  const std::lock_guard lock(mutex);
  if (gone.count(stream) != 0) Violation("of a device that was reset", name);
}

CUresult PassAsyncCopy(const char* name, uint64_t to, uint64_t from, size_t bytes,
                       CUstream stream) {
  {
    const std::lock_guard lock(mutex);
    DropReached();
    if (HasGuard(ContextOf(stream)) && !GoesOn() && !(IsKnown(to) && IsKnown(from))) {
      Violation("of pageable memory behind a guard", name);
    }
  }
  const unsigned type = MemoryType(to);
  if (type == CU_MEMORYTYPE_DEVICE && MemoryType(from) == type) BeginWithRoom(stream, name);
  return Forward(name, to, from, bytes, stream);
}

}  // namespace

extern "C" {

__attribute__((visibility("hidden"))) void* strict_enter(size_t index) {
  const char* const name = strict_names[index];
  std::unique_lock lock(mutex);
  DropReached();
  bool harmless = StartsWith(name, "cuMemset");
  for (const char* one : kHarmless) harmless |= std::strcmp(name, one) == 0;
  const bool copy = StartsWith(name, "cuMemcpy");
  const bool may_end_contexts = MayEndContexts(name);
  // Afterwards another context may get the same handle.
  if (may_end_contexts) helpers.clear();
  const bool is_of_all =
      may_end_contexts || StartsWith(name, "cuLibraryUnload") || IsCopyBetween(name);
  const CUcontext context = is_of_all ? nullptr : Current();
  if (!harmless) under_way.push_back({index, context, copy});
  if (copy && std::getenv("STRICT_HOLDS_CONTEXT") != nullptr) {
    copying.push_back({index, context, copy});
    std::fprintf(stderr, "STRICT: a copy is under way\n");
  }
  if (!harmless && HasGuard(context, /*only_blocking=*/copy)) {
    if (!GoesOn()) Violation("is entered behind a guard", name);
    if (IsAsked()) Violation("is entered by a process that is asked", name);
    going_on.insert(pthread_self());
  }
  lock.unlock();
  // Long enough for others to do meanwhile what they must not.
  if (!harmless) usleep(300);
  EnterWithRoom(name);
  if (LocksOthersOut(name)) call_mutex.lock();
  return strict_real[index];
}

__attribute__((visibility("hidden"))) void strict_leave(size_t index) {
  if (LocksOthersOut(strict_names[index])) call_mutex.unlock();
  const std::lock_guard lock(mutex);
  if (going_on.erase(pthread_self()) != 0 && (!GoesOn() || IsAsked())) {
    Violation("was under way when its process might stop", strict_names[index]);
  }
  for (auto* calls : {&under_way, &copying}) {
    const auto left = std::ranges::find(*calls, index, &UnderWay::index);
    if (left != calls->end()) calls->erase(left);
  }
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                 unsigned flags) {
  const auto is_held = [context = ContextOf(stream)] {
    const std::lock_guard lock(mutex);
    return std::ranges::find(copying, context, &UnderWay::context) != copying.end();
  };
  while (is_held()) usleep(100);
  const Call call;
  return Forward("cuStreamWriteValue32_v2", stream, address, value, flags);
}

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                unsigned flags) {
  return PassGuard("cuStreamWaitValue32_v2", stream, address, value, flags);
}

CUresult cuStreamWaitValue32_v2_ptsz(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                     unsigned flags) {
  return PassGuard("cuStreamWaitValue32_v2_ptsz", stream, address, value, flags);
}

CUresult cuInit(unsigned flags) {
  const char* const connections = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  // A client of MPS that asks for none gets fewer than a process by itself.
  const uint32_t own = IsUnderMps() ? 2 : 8;
  queues = connections != nullptr ? static_cast<uint32_t>(std::atoi(connections)) : own;
  if (std::getenv("STRICT_TELLS_QUEUES") != nullptr) {
    std::fprintf(stderr, "STRICT: %u queues\n", queues);
  }
  return Forward("cuInit", flags);
}

CUresult cuMemHostRegister_v2(void* memory, size_t bytes, unsigned flags) {
  if (Refuses("cuMemHostRegister_v2")) return CUDA_ERROR_NOT_SUPPORTED;
  return Forward("cuMemHostRegister_v2", memory, bytes, flags);
}

CUresult cuFuncLoad(CUfunction function) {
  {
    const std::lock_guard lock(mutex);
    DropReached();
    if (HasGuard(Current())) Violation("is entered behind a guard", "cuFuncLoad");
    loaded.insert(function);
  }
  return Forward("cuFuncLoad", function);
}

CUresult cuStreamQuery(CUstream stream) {
  CUresult result = CUDA_SUCCESS;
  {
    const Call call;
    result = Forward("cuStreamQuery", stream);
  }
  SleepAsTold("STRICT_QUERY_MS");
  return result;
}

#define STRICT_LAUNCH(name, per_thread)                                                        \
  CUresult name(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, \
                unsigned bz, unsigned shared, CUstream stream, void** params, void** extra) {  \
    CheckLaunch(f, stream, per_thread, gx * gy * gz);                                          \
    NoteHolder(stream, shared);                                                                \
    const Call call;                                                                   \
    return Forward(#name, f, gx, gy, gz, bx, by, bz, shared, stream, params, extra);           \
  }
STRICT_LAUNCH(cuLaunchKernel, false)
STRICT_LAUNCH(cuLaunchKernel_ptsz, true)

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** params, void** extra) {
  CheckLaunch(f, config->hStream, false,
              config->gridDimX * config->gridDimY * config->gridDimZ);
  TellPriority(config);
  return Forward("cuLaunchKernelEx", config, f, params, extra);
}

CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig* config, CUfunction f, void** params,
                               void** extra) {
  CheckLaunch(f, config->hStream, true, config->gridDimX * config->gridDimY * config->gridDimZ);
  TellPriority(config);
  return Forward("cuLaunchKernelEx_ptsz", config, f, params, extra);
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  NoteRecord(event, stream);
  return Forward("cuEventRecord", event, stream);
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  MeasureWait(stream, event);
  return Forward("cuStreamWaitEvent", stream, event, flags);
}

CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream) {
  MeasureWait(stream, graph);
  NoteRecord(graph, stream);
  return Forward("cuGraphLaunch", graph, stream);
}

#define STRICT_COPY(name)                                                             \
  CUresult strict_##name(uint64_t, uint64_t, size_t, CUstream) __asm__(#name);        \
  CUresult strict_##name(uint64_t to, uint64_t from, size_t bytes, CUstream stream) { \
    return PassAsyncCopy(#name, to, from, bytes, stream);                             \
  }
STRICT_COPY(cuMemcpyHtoDAsync_v2)
STRICT_COPY(cuMemcpyDtoHAsync_v2)
STRICT_COPY(cuMemcpyDtoDAsync_v2)
STRICT_COPY(cuMemcpyAsync)
STRICT_COPY(cuMemcpyHtoDAsync_v2_ptsz)
STRICT_COPY(cuMemcpyDtoHAsync_v2_ptsz)
STRICT_COPY(cuMemcpyAsync_ptsz)

CUresult cuMemcpyBatchAsync_v2(CUdeviceptr* to, CUdeviceptr* from, size_t* bytes, size_t count,
                               CUmemcpyAttributes* attributes, size_t* indices, size_t attribute_count,
                               CUstream stream) {
  BeginWithRoom(stream, "cuMemcpyBatchAsync_v2");
  return Forward("cuMemcpyBatchAsync_v2", to, from, bytes, count, attributes, indices, attribute_count,
                 stream);
}

CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  const CUresult result = Forward("cuStreamCreate", stream, flags);
  const std::lock_guard lock(mutex);
  if (result == CUDA_SUCCESS) NoteMade(*stream);
  return result;
}

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  const CUresult result = Forward("cuStreamCreateWithPriority", stream, flags, priority);
  CUcontext context = nullptr;
  (void)Forward("cuCtxGetCurrent", &context);
  const std::lock_guard lock(mutex);
  if (priority == -1 && ++helpers[context] > MostHelpers()) {
    Violation("shares the level of resumes", "a stream");
  }
  if (result == CUDA_SUCCESS) NoteMade(*stream);
  return result;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  {
    const std::lock_guard lock(mutex);
    held[pthread_self()] = context;
  }
  return Forward("cuCtxSetCurrent", context);
}

#undef cuCtxPushCurrent
CUresult cuCtxPushCurrent(CUcontext context) {
  {
    const std::lock_guard lock(mutex);
    for (const auto& [thread, its] : held) {
      if (its == context && thread != pthread_self()) return CUDA_ERROR_INVALID_CONTEXT;
    }
  }
  return Forward("cuCtxPushCurrent", context);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  const CUresult result = PassMayWait("cuDevicePrimaryCtxReset_v2", device);
  const std::lock_guard lock(mutex);
  gone.merge(streams);
  used.clear();
  return result;
}

CUresult cuStreamSynchronize(CUstream stream) {
  MustBeThere("cuStreamSynchronize", stream);
  return PassMayWait("cuStreamSynchronize", stream);
}

CUresult cuStreamDestroy_v2(CUstream stream) {
  MustBeThere("cuStreamDestroy_v2", stream);
  {
    const std::lock_guard lock(mutex);
    used.erase(stream);
    streams.erase(stream);  // before: afterwards another may get the same handle
  }
  return PassMayWait("cuStreamDestroy_v2", stream);
}

}  // extern "C"
