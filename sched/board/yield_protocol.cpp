#include "sched/board/yield_protocol.h"

#include <climits>

#include <linux/futex.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace cupola::sched {
namespace {

static_assert(kDirectSlots == 62, "more_requests begins with bits 62 and 63 of its first word");

/// The word and the bit in which a requester's request stands.
struct Place {
  std::atomic<uint64_t>& word;
  uint64_t bit;
};

Place PlaceOf(BoardSlot& victim, uint32_t requester) {
  if (requester == kDaemonBit) return {victim.yield_requests, kDaemonRequest};
  const uint64_t bit = uint64_t{1} << requester % 64;
  if (requester < kDirectSlots) return {victim.yield_requests, bit};
  return {victim.more_requests.words[requester / 64], bit};
}

bool IsDirect(uint32_t requester) { return requester < kDirectSlots || requester == kDaemonBit; }

/// What one requester's change did: the victim's yield_requests before its first store, and after its last. A change
/// takes several stores where the requester's bit is in more_requests, because kMoreRequests then has to follow it.
struct Change {
  uint64_t before = 0, after = 0;
  /// Another requester changed more_requests meanwhile, so that kMoreRequests had to be stored again. So yield_requests
  /// held another value for a moment, and those who settled the gate and the agent may have acted on that value.
  bool wavered = false;
};

// Makes kMoreRequests agree with more_requests. `before` is the value before the first of this function's stores.
Change SettleMore(BoardSlot& slot) {
  Change change;
  for (bool is_first = true;; is_first = false) {
    const bool some = !slot.more_requests.IsEmpty();
    const uint64_t was = some ? slot.yield_requests.fetch_or(kMoreRequests)
                              : slot.yield_requests.fetch_and(~kMoreRequests);
    if (is_first) change.before = was;
    change.after = some ? was | kMoreRequests : was & ~kMoreRequests;
    change.wavered = !is_first;
    if (slot.more_requests.IsEmpty() == !some) return change;
  }
}

/// Whether a process has the slot and has not left it.
bool IsLive(const BoardSlot& slot) {
  return slot.state.load() == static_cast<uint32_t>(SlotState::kLive);
}

/// Whether a request of the slot `requester` to `victim` is not stale.
bool MayAsk(BoardView board, uint32_t requester, uint32_t victim, uint64_t now_ns) {
  const BoardSlot& slot = board.slot(requester);
  return IsLive(slot) && HasDemand(slot, now_ns) && slot.may_take.Has(victim);
}

bool ShareContext(const BoardSlot& a, const BoardSlot& b) {
  return (a.capabilities.load(std::memory_order_relaxed) &
          b.capabilities.load(std::memory_order_relaxed) & kSharesContext) != 0;
}

// Relaxed: BeginDemand's later change of `demand` orders these stores for a process that sees the new demand. Within a
// demand a reader may see some fields of the old description and some of the new one.
void Publish(BoardSlot& slot, const Demand& demand, uint64_t now_ns) {
  slot.remaining_ns.store(demand.remaining_ns, std::memory_order_relaxed);
  slot.sms_wanted.store(demand.sms, std::memory_order_relaxed);
  slot.overhead_ns.store(demand.overhead_ns, std::memory_order_relaxed);
  slot.demand_until_ns.store(now_ns + demand.lease_ns, std::memory_order_relaxed);
}

void WakeSleeper(BoardSlot& slot) {
  // An agent stores agent_sleeps before the kernel compares `wake`. So either this function sees that the agent sleeps,
  // or the agent sees the change of `wake`.
  if (slot.agent_sleeps.load() == 0) return;
  syscall(SYS_futex, &slot.wake, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void WakeDaemon(BoardHeader& header) {
  if (header.bell_sleepers.load() == 0) return;
  syscall(SYS_futex, &header.bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

/// What came of asking a victim.
struct Asked {
  bool anew = false;   ///< this requester's bit was not set before
  bool tells = false;  ///< the victim's agent has news: its `wake` word was counted up, and it may have to be woken
};

/// Sets the requester's bit. `is_new`: it was not set before.
Change AddRequest(BoardSlot& slot, uint32_t requester, bool* is_new) {
  const Place place = PlaceOf(slot, requester);
  const uint64_t previous = place.word.fetch_or(place.bit);
  *is_new = (previous & place.bit) == 0;
  return IsDirect(requester) ? Change{previous, previous | place.bit} : SettleMore(slot);
}

// Sets the request. The caller has counted itself in being_asked and has seen that not_now is 0 ("Not now" in the
// header). `asks_anew`: nobody asked before, or only for fewer SMs, so that an earlier `stopped` is no answer to this.
Asked AskCounted(BoardSlot& slot, uint32_t requester, uint32_t sm_bound) {
  const uint64_t before = slot.yield_requests.load();
  // The bound is stored before the request, so that workers that see the request find a bound. Requesters only raise it
  // while there are requests, and store their own when there are none. The daemon lowers it at its review.
  bool asks_anew = before == 0;
  if (before == 0) {
    slot.stopped.store(0);
    slot.yield_sm_bound.store(sm_bound);
  } else {
    uint32_t bound = slot.yield_sm_bound.load();
    while (bound < sm_bound && !slot.yield_sm_bound.compare_exchange_weak(bound, sm_bound)) {
    }
    asks_anew = bound < sm_bound;
    if (asks_anew) slot.stopped.store(0);
  }
  bool is_new = false;
  const Change change = AddRequest(slot, requester, &is_new);
  // The agent is also told where another requester asked at the same time: this function may have set `stopped` back to
  // 0 after the agent's answer to that request.
  const bool tells = change.before == 0 || asks_anew || change.wavered;
  if (tells) {
    SettleGate(slot);
    TellAgent(slot);
  }
  return {.anew = is_new, .tells = tells};
}

/// Takes the requester's bit away. True: it was the last request.
bool Clear(BoardSlot& slot, uint32_t requester) {
  const Place place = PlaceOf(slot, requester);
  if ((place.word.load() & place.bit) == 0) return false;
  const uint64_t previous = place.word.fetch_and(~place.bit);
  Change change{previous, previous & ~place.bit};
  if (!IsDirect(requester)) change = SettleMore(slot);
  const bool was_last = change.before != 0 && change.after == 0;
  // While other requests are left the agent has nothing to do, unless it may have seen a moment without any (wavered).
  if (!was_last && !change.wavered) return false;
  SettleGate(slot);
  WakeAgent(slot);
  return was_last;
}

/// Asks, unless the requester asks for that much already or the victim may not be asked now. A victim does not wait for
/// ever for a requester that is counted in, so this looks once more behind its change.
Asked Ask(BoardSlot& slot, uint32_t requester, uint32_t sm_bound) {
  if (IsAskedBy(slot, requester) && slot.yield_sm_bound.load() >= sm_bound) return {};
  slot.being_asked.fetch_add(1);
  Asked asked = slot.not_now.load() == 0 ? AskCounted(slot, requester, sm_bound) : Asked{};
  if (asked.anew && slot.not_now.load() != 0) {
    (void)Clear(slot, requester);
    asked = {};
  }
  slot.being_asked.fetch_sub(1);
  return asked;
}

// Asks the slots in may_take to yield. Returns those whose agents are to be woken. Each victim is written into `asked`
// before it is asked, so that ReleaseDemand takes every request back.
SlotSet AskVictims(BoardView board, uint32_t self) {
  BoardSlot& slot = board.slot(self);
  SlotSet told;
  if (slot.may_take.IsEmpty()) return told;  // the usual case, and this is on the launch path
  ForEachSlot(slot.may_take.load(), [&](uint32_t victim) {
    if (victim == self) return;
    slot.asked.words[victim / 64].fetch_or(uint64_t{1} << victim % 64, std::memory_order_relaxed);
    BoardSlot& asked = board.slot(victim);
    if (Ask(asked, self, SmsToAskFor(board, slot, asked)).tells) told.Add(victim);
  });
  return told;
}

// Whether the agent of the slot's process will ring when it is let go. The agent of a process that is stopped by a
// signal (SIGSTOP) will not. Such an agent is recognised in one of two ways: it has not answered the request; or it
// has, and has since let the lease of its process's demand run out.
bool AgentAnswers(const BoardSlot& slot, uint64_t now_ns) {
  const bool keeps_lease = (slot.demand.load() & 1) == 0 || HasDemand(slot, now_ns);
  return slot.stopped.load() != 0 && keeps_lease;
}

}  // namespace

bool HasDemand(const BoardSlot& slot, uint64_t now_ns) {
  return (slot.demand.load() & 1) != 0 && slot.demand_until_ns.load() > now_ns;  // plant: leases_last
}

Wakes BeginDemand(BoardView board, uint32_t self, const Demand& demand, uint64_t now_ns) {
  BoardSlot& slot = board.slot(self);
  if ((slot.demand.load(std::memory_order_relaxed) & 1) != 0) {
    UpdateDemand(board, self, demand, now_ns);
    return {};
  }
  Publish(slot, demand, now_ns);
  slot.demand_since_ns.store(now_ns, std::memory_order_relaxed);
  slot.demand.fetch_add(1);
  Wakes wakes{.agents = AskVictims(board, self), .daemon = board.header().attention.load() != 0};
  if (wakes.daemon) board.header().bell.fetch_add(1);
  return wakes;
}

void WakeSleepers(BoardView board, const Wakes& wakes) {
  if (!wakes.agents.IsEmpty()) {
    ForEachSlot(wakes.agents, [&](uint32_t slot) { WakeSleeper(board.slot(slot)); });
  }
  if (wakes.daemon) WakeDaemon(board.header());
}

void UpdateDemand(BoardView board, uint32_t self, const Demand& demand, uint64_t now_ns) {
  BoardSlot& slot = board.slot(self);
  const uint64_t before = slot.remaining_ns.load(std::memory_order_relaxed);
  const bool renewed = slot.demand_until_ns.load(std::memory_order_relaxed) <= now_ns;
  bool changed = renewed;
  if (demand.remaining_ns == 0) {
    slot.demand_until_ns.store(now_ns + demand.lease_ns, std::memory_order_relaxed);
  } else {
    Publish(slot, demand, now_ns);
    changed = changed || before != demand.remaining_ns;
  }
  WakeSleepers(board, {.agents = AskVictims(board, self)});
  if (changed && board.header().attention.load() != 0) RingBell(board.header());
}

bool ReleaseDemand(BoardView board, uint32_t self, uint64_t now_ns) {
  BoardSlot& slot = board.slot(self);
  if ((slot.demand.load(std::memory_order_relaxed) & 1) == 0) return true;
  slot.demand.fetch_add(1);
  bool let_go = false;
  // The victims are those that were asked, not those in may_take: the mask may have changed since.
  SlotSet asked;
  for (uint32_t i = 0; i < kMaskWords; ++i) asked.words[i] = slot.asked.words[i].exchange(0);
  ForEachSlot(asked, [&](uint32_t victim) {
    // A slot whose process has left or was killed has no agent that rings. It may have been asked all the same, by a
    // mask that the daemon had computed before that.
    const bool tells = IsLive(board.slot(victim)) && AgentAnswers(board.slot(victim), now_ns);
    let_go |= ClearRequest(board, victim, self) && tells;
  });
  return let_go;
}

void EndDemand(BoardView board, uint32_t self) {
  if ((board.slot(self).demand.load(std::memory_order_relaxed) & 1) == 0) return;
  (void)ReleaseDemand(board, self, BoardClockNs());
  if (board.header().attention.load() != 0) RingBell(board.header());
}

uint32_t SmsToAskFor(BoardView board, const BoardSlot& requester, const BoardSlot& victim) {
  const BoardHeader& header = board.header();
  const uint64_t wanted = requester.sms_wanted.load(std::memory_order_relaxed);
  if (header.spatial.load(std::memory_order_relaxed) == 0 || !ShareContext(requester, victim) ||
      wanted == 0 || wanted >= runtime::kAllSms) {
    return runtime::kAllSms;
  }
  const uint64_t bound = wanted + header.extra_sms.load(std::memory_order_relaxed);
  const uint32_t sms = header.sm_count.load(std::memory_order_relaxed);
  const bool fits = bound < runtime::kAllSms && (sms == 0 || bound < sms);
  return fits ? static_cast<uint32_t>(bound) : runtime::kAllSms;
}

void SetStopped(BoardView board, uint32_t self, bool stopped) {
  const uint32_t value = stopped ? 1 : 0;
  if (board.slot(self).stopped.exchange(value) == value) return;
  if (board.header().attention.load() != 0) RingBell(board.header());
}

bool SetRequest(BoardView board, uint32_t victim, uint32_t requester, uint32_t sm_bound) {
  const Asked asked = Ask(board.slot(victim), requester, sm_bound);
  if (asked.tells) WakeSleeper(board.slot(victim));
  return asked.anew;
}

bool BeginNotNow(BoardView board, uint32_t self) {
  constexpr uint64_t kSpinNs = 20'000, kLimitNs = 20'000'000;
  BoardSlot& slot = board.slot(self);
  slot.not_now.fetch_add(1);
  const uint64_t since_ns = BoardClockNs();
  for (uint64_t waited_ns = 0; slot.being_asked.load() != 0 && waited_ns < kLimitNs;) {
    if (waited_ns < kSpinNs) {
      __builtin_ia32_pause();
    } else {
      sched_yield();  // a requester that is counted in may be waiting for this processor
    }
    waited_ns = BoardClockNs() - since_ns;
  }
  return slot.yield_requests.load() == 0 && slot.more_requests.IsEmpty();
}

void EndNotNow(BoardView board, uint32_t self) {
  if (board.slot(self).not_now.fetch_sub(1) != 1) return;
  if (board.header().attention.load() != 0) RingBell(board.header());
}

bool ClearRequest(BoardView board, uint32_t victim, uint32_t requester) {
  return Clear(board.slot(victim), requester);
}

bool IsAskedBy(const BoardSlot& slot, uint32_t requester) {
  const Place place = PlaceOf(const_cast<BoardSlot&>(slot), requester);
  return (place.word.load() & place.bit) != 0;
}

SlotSet RequestersOf(const BoardSlot& slot) {
  SlotSet all = slot.more_requests.load();
  all.words[0] |= slot.yield_requests.load() & ~(kMoreRequests | kDaemonRequest);
  return all;
}

void ForgetRequests(BoardSlot& slot) {
  slot.more_requests.store(SlotSet());
  slot.yield_requests.store(0);
  slot.yield_sm_bound.store(0);
  SettleGate(slot);
}

uint64_t DropStaleRequests(BoardView board, uint32_t victim, uint64_t now_ns) {
  BoardSlot& slot = board.slot(victim);
  ForEachSlot(RequestersOf(slot), [&](uint32_t requester) {
    if (MayAsk(board, requester, victim, now_ns)) return;  // plant: stale_requests_stay
    ClearRequest(board, victim, requester);
    // The requester began its demand meanwhile: its request was taken from it and is put back (see the header). How
    // many SMs it asked for is not known here; the daemon lowers the bound.
    if (MayAsk(board, requester, victim, now_ns)) {
      SetRequest(board, victim, requester, runtime::kAllSms);
    }
  });
  // A requester that was killed between its two changes leaves kMoreRequests and more_requests in disagreement.
  const bool is_stale =
      ((slot.yield_requests.load() & kMoreRequests) != 0) == slot.more_requests.IsEmpty();
  if (is_stale) {
    const Change change = SettleMore(slot);
    if ((change.before == 0) != (change.after == 0) || change.wavered) {
      SettleGate(slot);
      WakeAgent(slot);
    }
  }
  return slot.yield_requests.load();
}

void DropDaemonHolds(BoardView board, uint32_t slot) {
  ClearRequest(board, slot, kDaemonBit);
  board.slot(slot).may_be_held.store(HeldFor::kNobody);
  // Nobody need ring for a daemon that is not there, and nobody need try to wake it. One that was only stuck stores
  // bell_sleepers again when it next sleeps, and attention when a client joins, leaves or ends.
  board.header().attention.store(0);
  board.header().bell_sleepers.store(0);
}

bool GateIsToBeOpen(const BoardSlot& slot) {
  return slot.yield_requests.load() == 0 || slot.yield_sm_bound.load() < runtime::kAllSms;
}

void SettleGate(BoardSlot& slot) {
  for (;;) {
    const bool open = GateIsToBeOpen(slot);
    slot.gate.store(open ? 1 : 0);
    if (GateIsToBeOpen(slot) == open) return;
  }
}

void TellAgent(BoardSlot& slot) { slot.wake.fetch_add(1); }

void WakeAgent(BoardSlot& slot) {
  TellAgent(slot);
  WakeSleeper(slot);
}

// The kernel returns at once where `wake` is not `seen` any more, so no change between the caller's reading and the
// sleep is missed.
void WaitForWake(BoardSlot& slot, uint32_t seen, uint64_t timeout_ns) {
  timespec timeout{};
  timeout.tv_sec = static_cast<time_t>(timeout_ns / 1'000'000'000);
  timeout.tv_nsec = static_cast<long>(timeout_ns % 1'000'000'000);
  slot.agent_sleeps.store(1);
  syscall(SYS_futex, &slot.wake, FUTEX_WAIT, seen, &timeout, nullptr, 0);
  slot.agent_sleeps.store(0);
}

void RingBell(BoardHeader& header) {
  header.bell.fetch_add(1);
  WakeDaemon(header);
}

uint64_t ClockNamespace() {
  struct stat facts {};
  return stat("/proc/self/ns/time", &facts) == 0 ? facts.st_ino : 0;
}

uint64_t BoardClockNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace cupola::sched
