#include "intercept/preempt/host_holds.h"

#include <pthread.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "intercept/facts/live_streams.h"
#include "intercept/launch/launch.h"
#include "intercept/launch/launch_context.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/fast_clock.h"
#include "intercept/process/mutex_lock.h"
#include "intercept/process/participation.h"
#include "intercept/process/patient_wait.h"
#include "intercept/process/thread_state.h"

namespace cupola::intercept::preempt {
namespace internal {

std::atomic<uint32_t> holds{0};

}  // namespace internal

namespace {

// The time between two questions about one stream. A question takes about a microsecond, a launch three.
constexpr uint64_t kHoldAskEveryNs = 50'000;
constexpr size_t kMostAsked = 16;  // the most streams that one launch asks about
constexpr int kNoWord = -1;

// A stream that is recorded as held, or all streams of a context (`is_all`).
struct HeldStream {
  uint64_t ticket = 0;   ///< the name of the hold; never given twice
  uint64_t context = 0;  ///< CUcontext; 0 = all contexts
  uint64_t id = 0;       ///< StreamKey::stream
  CUstream handle = nullptr;  ///< the handle by which the driver is asked about it
  const ThreadState* thread = nullptr;  ///< for a per-thread default stream: the thread that owns it,
                                        ///< which alone can name it; null: any thread can
  bool is_blocking = false;  ///< the stream synchronises with the legacy stream
  bool is_all = false;      ///< all streams of the context, until `event` is over
  CUevent event = nullptr;
  bool has_freed = false;   ///< memory was freed on the stream behind the hold
  uint32_t calls = 0;       ///< holding calls under way: the driver may not know of them yet
  bool is_paused = false;   ///< the driver must not be asked about it (PauseHoldsOf)
  uint32_t asking = 0;      ///< threads that are asking the driver about it without the mutex
  bool is_over = false;     ///< the hold has passed: removed when nobody asks about it
  uint64_t put = 0;         ///< number of the last hold that was put into the stream
  uint64_t marked = 0;      ///< number of the last hold that has a marker behind it
  int word = kNoWord;       ///< index of the context's word to which the stream's markers write
  uint32_t value = 0;       ///< the value that the last marker writes
  LaunchContext* words = nullptr;  ///< the context that `word` belongs to
  uint64_t asked_ns = 0;    ///< when the driver was last asked about it
};

pthread_mutex_t host_holds_mutex = PTHREAD_MUTEX_INITIALIZER;
// All under the mutex. The list is never freed.
std::vector<HeldStream>* streams = nullptr;
uint64_t tickets = 0, put_so_far = 0;

std::vector<HeldStream>& Streams() {
  if (streams == nullptr) streams = new std::vector<HeldStream>;
  return *streams;
}

HeldStream* FindLocked(uint64_t ticket) {
  const auto found = std::ranges::find(Streams(), ticket, &HeldStream::ticket);
  return found != Streams().end() ? &*found : nullptr;
}

HeldStream* FindLocked(uint64_t context, uint64_t id) {
  const auto found = std::ranges::find_if(Streams(), [=](const HeldStream& one) {
    return !one.is_all && one.context == context && one.id == id;
  });
  return found != Streams().end() ? &*found : nullptr;
}

HeldStream& AddLocked(const HeldStream& added) {
  Streams().push_back(added);
  Streams().back().ticket = ++tickets;
  Watch(1);  // from now on stream-ordered calls are looked at
  internal::holds.fetch_add(1);
  RaiseLaunchEpoch();
  return Streams().back();
}

void RemoveLocked(HeldStream* one) {
  if (one->word != kNoWord) one->words->hold_words &= ~(uint64_t{1} << one->word);
  Streams().erase(Streams().begin() + (one - Streams().data()));
  internal::holds.fetch_sub(1);
  Unwatch(1);
}

// Marks the hold as passed. The entry stays while a thread asks about the stream, because the thread
// that destroys the stream waits for that (Forget).
void EndLocked(HeldStream* one) {
  one->is_over = true;
  if (one->asking == 0) RemoveLocked(one);
}

bool IsReached(const HeldStream& one) {
  if (one.word == kNoWord || one.marked != one.put) return false;
  const uint32_t said = __atomic_load_n(one.words->HoldWord(one.word), __ATOMIC_ACQUIRE);
  return static_cast<int32_t>(said - one.value) >= 0;
}

// Whether this thread can ask the driver about the stream now. Only the owner of a per-thread default
// stream can name it, and a default stream only where its context is current.
bool CanBeAsked(const HeldStream& one, uint64_t now_ns) {
  if (one.is_paused || now_ns - one.asked_ns < kHoldAskEveryNs) return false;
  if (one.is_all) return one.event != nullptr;
  if (one.thread != nullptr && one.thread != &this_thread) return false;
  const bool is_default = reinterpret_cast<uintptr_t>(one.handle) <= 2;
  return !is_default || reinterpret_cast<uint64_t>(CurrentContext()) == one.context;
}

// Whether the driver says that the stream has nothing to do. A stream that captures must not be asked.
bool HasNothingToDo(const HeldStream& one) {
  const RelaxedCapture relaxed;
  if (one.is_all) {
    return CUPOLA_CALL_REAL(cuEventQuery, PFN_cuEventQuery_v2000)(one.event) != CUDA_ERROR_NOT_READY;
  }
  const NoCaptureBegins scope;
  return !scope.is_any_open() && AskStream(one.handle) != CUDA_ERROR_NOT_READY;
}

// Whether the hold may still be there. The caller holds the mutex, which is released while the driver is
// asked. In doubt the answer is true.
bool IsHeldLocked(uint64_t ticket) {
  HeldStream* one = FindLocked(ticket);
  if (one == nullptr || one->is_over) return false;
  if (one->calls != 0) return true;
  if (IsReached(*one)) {
    EndLocked(one);
    return false;
  }
  const uint64_t now = NowNs();
  if (!CanBeAsked(*one, now)) return true;
  one->asked_ns = now;
  ++one->asking;
  const HeldStream asked = *one;
  pthread_mutex_unlock(&host_holds_mutex);
  const bool has_passed = HasNothingToDo(asked);
  pthread_mutex_lock(&host_holds_mutex);
  one = FindLocked(ticket);
  if (one == nullptr) return false;  // the child of a fork
  --one->asking;
  const bool is_held = !one->is_over && !(has_passed && one->put == asked.put && one->calls == 0);
  if (!is_held) EndLocked(one);
  return is_held;
}

template <typename Matches>
bool AnyIsHeldLocked(Matches&& matches) {
  uint64_t found[kMostAsked];
  size_t count = 0;
  for (const HeldStream& one : Streams()) {
    if (one.is_over || !matches(one)) continue;
    if (count == kMostAsked) return true;
    found[count++] = one.ticket;
  }
  bool any = false;
  for (size_t i = 0; i < count; ++i) any |= IsHeldLocked(found[i]);
  return any;
}

// Removes the matching entries, once no thread asks the driver about them.
template <typename Matches>
void Forget(Matches&& matches) {
  if (!AnyIsHeld()) return;
  PatientWait wait;
  pthread_mutex_lock(&host_holds_mutex);
  for (;;) {
    const auto found = std::ranges::find_if(Streams(), matches);
    if (found == Streams().end()) break;
    if (found->asking == 0) {
      RemoveLocked(&*found);
      continue;
    }
    found->is_over = true;
    pthread_mutex_unlock(&host_holds_mutex);
    wait.Pause();
    pthread_mutex_lock(&host_holds_mutex);
  }
  pthread_mutex_unlock(&host_holds_mutex);
}

// A predicate: whether work on the stream `key` comes behind a held stream. Work of blocking streams comes
// behind that of the legacy stream and the other way round, so they all count as one stream.
auto ComesBefore(const StreamKey& key, bool is_blocking) {
  return [key, is_blocking](const HeldStream& one) {
    if (one.is_all) return one.context == 0 || one.context == key.context;
    return one.context == key.context &&
           (one.id == key.stream || (is_blocking && one.is_blocking));
  };
}

CUstream NameOf(const StreamKey& key, CUstream stream) {
  if ((key.flags & kFlagLegacyStream) != 0) return CU_STREAM_LEGACY;
  return (key.flags & kFlagPerThreadStream) != 0 ? CU_STREAM_PER_THREAD : stream;
}

}  // namespace

uint64_t BeginHold(const StreamKey& key, CUstream stream, bool per_thread) noexcept {
  const bool is_blocking = IsBlocking(stream, per_thread);
  const bool is_own = (key.flags & kFlagPerThreadStream) != 0;
  const MutexLock lock(host_holds_mutex);
  HeldStream* one = FindLocked(key.context, key.stream);
  if (one == nullptr) {
    one = &AddLocked({.context = key.context,
                      .id = key.stream,
                      .handle = NameOf(key, stream),
                      .thread = is_own ? &this_thread : nullptr,
                      .is_blocking = is_blocking});
  }
  one->is_over = false;
  one->put = ++put_so_far;
  ++one->calls;
  return one->ticket;
}

uint64_t BeginHoldOfAll(CUcontext context, CUevent event) noexcept {
  const MutexLock lock(host_holds_mutex);
  HeldStream& one = AddLocked(
      {.context = reinterpret_cast<uint64_t>(context), .is_all = true, .event = event, .calls = 1});
  one.put = ++put_so_far;
  return one.ticket;
}

void EndHold(uint64_t hold) noexcept {
  if (hold == 0) return;
  const MutexLock lock(host_holds_mutex);
  if (HeldStream* const one = FindLocked(hold)) --one->calls;
}

bool IsHeld(const StreamKey& key, CUstream stream, bool per_thread) noexcept {
  if (!AnyIsHeld()) return false;
  const auto comes_before = ComesBefore(key, IsBlocking(stream, per_thread));
  const MutexLock lock(host_holds_mutex);
  return AnyIsHeldLocked(comes_before);
}

bool IsHeldAnywhere(CUcontext context) noexcept {
  if (!AnyIsHeld()) return false;
  const auto of = reinterpret_cast<uint64_t>(context);
  const MutexLock lock(host_holds_mutex);
  return AnyIsHeldLocked([of](const HeldStream& one) { return one.context == 0 || one.context == of; });
}

bool IsStillHeld(uint64_t hold) noexcept {
  if (hold == 0 || !AnyIsHeld()) return false;
  const MutexLock lock(host_holds_mutex);
  return IsHeldLocked(hold);
}

// The marker goes into the same stream, by the same form of call, as the launch behind it.
void MarkHeld(LaunchContext& context, const Launch& launch, const StreamKey& key) noexcept {
  if (context.status_device == 0 || IsCapturing(launch.stream, launch.per_thread)) return;
  uint64_t ticket = 0, put = 0;
  uint32_t value = 0;
  int word = kNoWord;
  {
    const MutexLock lock(host_holds_mutex);
    HeldStream* const one = FindLocked(key.context, key.stream);
    if (one == nullptr || one->is_over || one->calls != 0 || one->marked == one->put) return;
    if (one->word == kNoWord) {
      const int free = std::countr_one(context.hold_words);
      if (free == LaunchContext::kHoldWords) return;
      context.hold_words |= uint64_t{1} << free;
      one->word = free;
      one->words = &context;
      one->value = context.hold_values[free];
    }
    word = one->word;
    ticket = one->ticket;
    put = one->put;
    value = ++context.hold_values[word];
  }
  const CUdeviceptr device = context.HoldWordDevice(word);
  if (StreamWritesWord(launch.stream, launch.per_thread, device, value) != CUDA_SUCCESS) return;
  if (context.outstanding.load() != 0) context.queued.Add(1);
  const MutexLock lock(host_holds_mutex);
  HeldStream* const one = FindLocked(ticket);
  if (one == nullptr || one->word != word) return;
  one->marked = put;
  one->value = value;
}

uint64_t HoldsSoFar() noexcept {
  const MutexLock lock(host_holds_mutex);
  return put_so_far;
}

void ReleaseHoldsWaitedFor(CUcontext context, uint64_t stream, bool whole_context,
                   uint64_t holds_before) noexcept {
  const auto of = reinterpret_cast<uint64_t>(context);
  const MutexLock lock(host_holds_mutex);
  for (size_t i = Streams().size(); i-- > 0;) {
    HeldStream& one = Streams()[i];
    const bool is_waited_for =
        one.context == of && !one.is_all &&
        (whole_context || one.id == stream || (stream == 0 && one.is_blocking));
    if (is_waited_for && one.calls == 0 && one.put <= holds_before) EndLocked(&one);
  }
}

void OnMemoryFreed(const StreamKey& key, CUstream stream, bool per_thread) noexcept {
  if (!IsHeld(key, stream, per_thread)) return;
  const auto comes_before = ComesBefore(key, IsBlocking(stream, per_thread));
  const MutexLock lock(host_holds_mutex);
  for (HeldStream& one : Streams()) one.has_freed |= comes_before(one);
}

bool MayBeFreedBehindHold(const StreamKey& key) noexcept {
  if (!AnyIsHeld()) return false;
  const MutexLock lock(host_holds_mutex);
  return AnyIsHeldLocked([key](const HeldStream& one) {
    return one.has_freed && (one.is_all || one.context != key.context || one.id != key.stream);
  });
}

void PauseHoldsOf(CUcontext context) noexcept {
  if (!AnyIsHeld()) return;
  const auto of = reinterpret_cast<uint64_t>(context);
  PatientWait wait;
  bool any_asks = true;
  while (any_asks) {
    any_asks = false;
    {
      const MutexLock lock(host_holds_mutex);
      for (HeldStream& one : Streams()) {
        if (one.context != of) continue;
        one.is_paused = true;
        any_asks |= one.asking != 0;
      }
    }
    if (any_asks) wait.Pause();
  }
}

void ResumeHoldsOf(CUcontext context) noexcept {
  if (!AnyIsHeld()) return;
  const auto of = reinterpret_cast<uint64_t>(context);
  const MutexLock lock(host_holds_mutex);
  for (HeldStream& one : Streams()) one.is_paused &= one.context != of;
}

void StartHostHolds() noexcept {
  stream_ends.destroyed.Subscribe([](CUstream stream) {
    Forget([stream](const HeldStream& one) { return one.handle == stream && !one.is_all; });
  });
  stream_ends.with_context.Subscribe([](CUcontext context) {
    const auto of = reinterpret_cast<uint64_t>(context);
    Forget([of](const HeldStream& one) { return of != 0 && one.context == of; });
  });
  stream_ends.with_thread.Subscribe(
      [] { Forget([](const HeldStream& one) { return one.thread == &this_thread; }); });
}

void ForgetHoldsAfterFork() noexcept {
  host_holds_mutex = PTHREAD_MUTEX_INITIALIZER;
  streams = nullptr;  // not freed: another thread of the parent may have been changing it
  internal::holds.store(0);
  ForgetHeldEventsAfterFork();
}

}  // namespace cupola::intercept::preempt
