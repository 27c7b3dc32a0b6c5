#include "intercept/preempt/waiting.h"

#include <algorithm>
#include <ctime>

#include <sched.h>
#include <xmmintrin.h>

#include "intercept/facts/live_streams.h"
#include "intercept/facts/streams.h"
#include "intercept/launch/gpu_board.h"
#include "intercept/launch/launch_context.h"
#include "intercept/launch/launch_counters.h"
#include "intercept/launch/own_call_scope.h"
#include "intercept/launch/preemption_settings.h"
#include "intercept/preempt/guarded_context.h"
#include "intercept/preempt/host_holds.h"
#include "intercept/preempt/wait_net.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/fast_clock.h"
#include "intercept/process/handle_map.h"
#include "intercept/process/mutex_lock.h"
#include "intercept/process/notice.h"
#include "intercept/process/participation.h"

namespace cupola::intercept::preempt {

namespace {

using State = LaunchContext::State;

constexpr uint64_t kAskEveryNs = 1'000'000;   // between questions whether the context still works
constexpr uint64_t kSpinNs = 20'000;          // then the core is offered to others
constexpr uint64_t kYieldNs = 5'000'000;      // then we sleep
// Sleeps grow with the wait, to a small part of it; faster while the process is held and nothing that is
// waited for can come, save what ran at that moment: many may be held at a time.
constexpr uint64_t kShortestNapNs = 50'000, kLongestNapNs = 1'000'000, kPartOfWait = 128;
constexpr uint64_t kLongestHeldNapNs = 20'000'000, kPartOfHeldWait = 16;
constexpr uint64_t kNoSlotNs = 500'000'000;   // the longest wait for a slot while nobody asks

/// One wait for guarded launches, on the waiting thread's stack: how long it has lasted decides how it goes on. It is not
/// PatientWait (process/patient_wait.h), since it sleeps until the process is let go, and looks after the context.
class Patience {
 public:
  explicit Patience(LaunchContext& context, WaitFor what = WaitFor::kAll,
                    uint64_t up_to = UINT64_MAX)
      : context_(context), progress_(context, what, up_to), start_ns_(NowNs()) {}

  /// Returns after a moment. False: the context is dead, nothing will come.
  bool Pause() {
    if (context_.state.load() == State::kDead) return false;
    const uint64_t waited = NowNs() - start_ns_;
    if (waited < kSpinNs) {
      for (int i = 0; i < 16; ++i) _mm_pause();
    } else if (context_.gpu->requests() != 0) {
      context_.gpu->WaitWhileHeld(
          std::clamp((waited - let_go_ns_) / kPartOfHeldWait, kShortestNapNs, kLongestHeldNapNs));
      if (context_.gpu->requests() == 0) let_go_ns_ = NowNs() - start_ns_;
    } else if (waited - let_go_ns_ < kYieldNs) {
      sched_yield();
    } else {
      Nap(std::clamp((waited - let_go_ns_) / kPartOfWait, kShortestNapNs, kLongestNapNs));
    }
    if (waited - asked_ns_ < kAskEveryNs) return true;
    asked_ns_ = waited;
    is_stuck_ = progress_.IsStuck(start_ns_ + waited);
    return IsWell(context_);
  }

  /// What is waited for does not go on, and from now on nothing of it is stopped: the wait is to end, and
  /// EndKept or KeepUntilComplete to be called.
  bool IsOver() { return is_stuck_ && BeginKept(context_); }  // plant: waits_for_ever

  uint64_t waited_ns() const { return NowNs() - start_ns_; }

 private:
  static void Nap(uint64_t ns) {
    const timespec nap{0, static_cast<long>(ns)};
    nanosleep(&nap, nullptr);
  }

  LaunchContext& context_;
  WaitProgress progress_;
  bool is_stuck_ = false;
  uint64_t start_ns_;       ///< when the wait began
  uint64_t asked_ns_ = 0;   ///< after so much of the wait the driver was last asked about the context
  uint64_t let_go_ns_ = 0;  ///< after so much of the wait the process was last let go
};

/// The next launch to wait for.
struct Target {
  bool found = false;
  uint32_t index = 0, sequence = 0;  ///< slot and sequence of the launch
  bool only_these = false;  ///< no thread is about to make another guarded launch
};

Target Find(LaunchContext& context, WaitFor what, uint64_t up_to) {
  Harvest(context);
  Target target;
  const Awaited awaited{what, up_to, context.joined.load()};
  const MutexLock lock(context.slots_mutex);
  LaunchSlots& slots = context.slots;
  for (uint32_t i = slots.in_use(); i-- > 0 && !target.found;) {
    const LaunchSlot& slot = slots.used(i);
    if (slot.state != LaunchSlot::State::kRunning || !awaited.Has(slot)) continue;
    target = {true, slots.IndexOf(&slot), slot.sequence};
  }
  target.only_these = context.outstanding.load() <= slots.running() + context.pieces.pending();
  return target;
}

// Waits for the launches up to number `up_to`; with `all_seen` also until no thread is about to make
// one. True: the wait was stuck and the launches are kept (wait_net.h).
bool WaitUntilComplete(LaunchContext& context, WaitFor what, uint64_t up_to, bool all_seen) {
  Patience patience(context, what, up_to);
  while (context.state.load() == State::kReady) {
    const Target target = Find(context, what, up_to);
    if (!target.found && (!all_seen || target.only_these)) return false;
    do {
      if (!patience.Pause()) return false;
      if (patience.IsOver()) return true;
    } while (target.found && !context.slots.IsDone(target.index, target.sequence));
  }
  return false;
}

// The number of the last deferred launch that such a call waits for.
uint32_t NumberToFeed(const PieceQueue& queue, WaitFor what) {
  return what == WaitFor::kAll ? queue.deferred.load() : queue.joined.load();
}

uint64_t LastNumber(LaunchContext& context) {
  const MutexLock lock(context.slots_mutex);
  return context.slots.last_number();
}

}  // namespace

// Waits twice. The first wait, without the scope, is for the launches that there are now; meanwhile
// other threads' launches stay preemptible. The second wait, with the scope open, is for the launches
// that came meanwhile. So the wait ends, however busy other threads are.
bool OpenScope(LaunchContext& context, WaitFor what) noexcept {
  bool is_kept = false;
  if (context.state.load() == State::kReady && context.outstanding.load() != 0) {
    Count(launch_counters.waits);
    is_kept = WaitUntilComplete(context, what, LastNumber(context), /*all_seen=*/false);  // plant: scope_at_once
  }
  // The scope counts itself before it looks for launches; see EnterAsGuarded.
  context.scopes.fetch_add(1);
  (void)AwaitFed(context, NumberToFeed(context.pieces, what));  // plant: not_fed
  if (context.state.load() != State::kReady) return is_kept;
  Count(launch_counters.scopes);
  if (!is_kept && context.outstanding.load() != 0) {  // plant: no_wait
    is_kept = WaitUntilComplete(context, what, UINT64_MAX, /*all_seen=*/true);
  }
  return is_kept;
}

void CloseScope(LaunchContext& context, bool is_kept) noexcept {
  context.scopes.fetch_sub(1);
  if (is_kept) EndKept(context);
}

WaitingScope::WaitingScope(LaunchContext& context, WaitFor what) noexcept
    : context_(context), is_kept_(OpenScope(context, what)) {}
WaitingScope::~WaitingScope() { CloseScope(context_, is_kept_); }

void WaitingScope::KeepOn() noexcept {
  if (is_kept_) KeepUntilComplete(context_, LastNumber(context_));
  is_kept_ = false;
}

void KeepRoom(LaunchContext& context) noexcept {
  if (context.queued.left() < kMostQueued) [[likely]] return;  // plant: no_room_kept
  const uint64_t total = context.queued.total();
  (void)AwaitFed(context);
  if (Harvest(context) == 0) return context.queued.MarkGone(total);
  if (context.kept_until.load() != 0) return;  // kept: waiting for room in the driver does no harm
  Count(launch_counters.waits);
  const uint64_t last = LastNumber(context);
  if (WaitUntilComplete(context, WaitFor::kAll, last, /*all_seen=*/false)) {
    return KeepUntilComplete(context, last);
  }
  context.queued.MarkGone(total);
}

void EnterPlain(LaunchContext& context) noexcept {
  if (context.outstanding.load() == 0) return;
  AwaitGuard(context);  // plant: between_guard
  KeepRoom(context);
  context.queued.Add(1);
}

// A call that waits for the legacy stream counts its scope before it reads `joined`. Here `joined` is
// raised before the scopes are read (both sequentially consistent). So one of the two sees the other.
void RecordJoin(LaunchContext& context, CUstream stream, bool per_thread) noexcept {
  if (context.outstanding.load() == 0) return;
  if (!IsBlocking(stream, per_thread)) return;  // a stream that joins it later is recorded then
  const uint64_t last = LastNumber(context);
  uint64_t before = context.joined.load();
  while (before < last && !context.joined.compare_exchange_weak(before, last)) {
  }
  context.pieces.joined.store(context.pieces.deferred.load());
  if (context.scopes.load() == 0) return;  // plant: join_unseen
  (void)AwaitFed(context);
  if (WaitUntilComplete(context, WaitFor::kAll, last, /*all_seen=*/false)) {
    KeepUntilComplete(context, last);
  }
}

// If the wait is stuck, the launch is kept. A launch that is not stopped any more needs no guard.
void WaitForSlot(LaunchContext& context, uint32_t index, uint32_t sequence) noexcept {
  Patience patience(context);
  while (!context.slots.IsDone(index, sequence) && patience.Pause()) {
    if (patience.IsOver()) return KeepUntilComplete(context, LastNumber(context));
  }
}

bool WaitForFreeSlot(LaunchContext& context) noexcept {
  Patience patience(context);
  uint64_t held_until = 0;
  for (;;) {
    Harvest(context);
    {
      const MutexLock lock(context.slots_mutex);
      if (context.slots.in_use() < kSlots) return true;
    }
    const uint64_t waited = patience.waited_ns();
    if (context.gpu->requests() != 0) held_until = waited;
    if (waited - held_until > kNoSlotNs || !patience.Pause()) return false;
    if (patience.IsOver()) {
      EndKept(context);
      return false;
    }
  }
}

void WaitAtExit(uint64_t deadline_ns) noexcept {
  ForEachContext([&](LaunchContext& context) {
    Patience patience(context);
    PieceWait pieces(context);
    while (context.pieces.pending() != 0 && context.state.load() != State::kDead && MonotonicNs() < deadline_ns) {
      if (!pieces.Pause()) break;
    }
    while (context.state.load() == State::kReady && Harvest(context) != 0 && MonotonicNs() < deadline_ns) {
      if (!patience.Pause()) break;
    }
  });
}

// A kernel that faulted never completes, but every driver call of its context returns an error. The
// program's own call then reports it.
bool IsWell(LaunchContext& context) noexcept {
  CUresult result = CUDA_SUCCESS;
  {
    const MutexLock lock(context.asking_mutex);
    if (context.state.load() != State::kReady) return false;
    result = AskStream(context.helpers[0]);
  }
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY) return true;
  Say(Level::kInfo, {"a context is beyond repair: error ", Decimal(result)});
  GiveUp(context);
  return false;
}

void EndGuardedWhereQueuesAreShared() noexcept {
  if (!PreemptionOn()) return;
  ForEachContext([](LaunchContext& context) {
    if (StreamsFitQueues()) return;
    WaitingScope scope(context);
    if (!scope.is_kept()) GiveBackReader(context);
    scope.KeepOn();
  });
}

}  // namespace cupola::intercept::preempt
