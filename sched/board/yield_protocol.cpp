#include "sched/board/yield_protocol.h"

#include <climits>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace cupola::sched {
namespace {

constexpr uint64_t BitOf(uint32_t bit) { return uint64_t{1} << bit; }

bool IsLive(const BoardSlot& slot) {
  return slot.state.load() == static_cast<uint32_t>(SlotState::kLive);
}

bool MayAsk(BoardView board, uint32_t requester, uint32_t victim, uint64_t now_ns) {
  const BoardSlot& slot = board.slot(requester);
  return IsLive(slot) && HasDemand(slot, now_ns) && (slot.may_take.load() & BitOf(victim)) != 0;
}

bool ShareContext(const BoardSlot& a, const BoardSlot& b) {
  return (a.capabilities.load(std::memory_order_relaxed) &
          b.capabilities.load(std::memory_order_relaxed) & kSharesContext) != 0;
}

void Publish(BoardSlot& slot, const Demand& demand, uint64_t now_ns) {
  slot.remaining_ns.store(demand.remaining_ns, std::memory_order_relaxed);
  slot.sms_wanted.store(demand.sms, std::memory_order_relaxed);
  slot.overhead_ns.store(demand.overhead_ns, std::memory_order_relaxed);
  slot.demand_until_ns.store(now_ns + demand.lease_ns, std::memory_order_relaxed);
}

void WakeSleeper(BoardSlot& slot) {
  // An agent says that it sleeps before the kernel compares `wake`: either it is seen here, or it
  // sees the change.
  if (slot.agent_sleeps.load() == 0) return;
  syscall(SYS_futex, &slot.wake, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void WakeDaemon(BoardHeader& header) {
  if (header.bell_sleepers.load() == 0) return;
  syscall(SYS_futex, &header.bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

struct Asked {
  bool anew = false;   ///< it was not asked by that bit before
  bool tells = false;  ///< its agent is to know
};

// It counts among those that are about to ask (BeginNotNow).
Asked AskCounted(BoardSlot& slot, uint32_t bit, uint32_t sm_bound) {
  const uint64_t before = slot.yield_requests.load();
  // The bound first: workers that see the request find a bound. It only grows while there are
  // requests; with none it starts anew. The daemon narrows it at its review.
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
  const uint64_t previous = slot.yield_requests.fetch_or(BitOf(bit));
  // Also where another asked at the same time: an answer to that may have been taken back here.
  const bool tells = previous == 0 || asks_anew;
  if (tells) {
    SettleGate(slot);
    TellAgent(slot);
  }
  return {.anew = (previous & BitOf(bit)) == 0, .tells = tells};
}

Asked Ask(BoardSlot& slot, uint32_t bit, uint32_t sm_bound) {
  const uint64_t before = slot.yield_requests.load();
  if ((before & BitOf(bit)) != 0 && slot.yield_sm_bound.load() >= sm_bound) return {};
  slot.being_asked.fetch_add(1);
  const Asked asked = slot.not_now.load() == 0 ? AskCounted(slot, bit, sm_bound) : Asked{};
  slot.being_asked.fetch_sub(1);
  return asked;
}

// The agents that are to be woken.
uint64_t AskVictims(BoardView board, uint32_t self) {
  BoardSlot& slot = board.slot(self);
  uint64_t told = 0;
  for (uint64_t rest = slot.may_take.load(); rest != 0; rest &= rest - 1) {
    const auto victim = static_cast<uint32_t>(__builtin_ctzll(rest));
    if (victim >= kBoardSlots || victim == self) continue;
    slot.asked.fetch_or(BitOf(victim), std::memory_order_relaxed);
    BoardSlot& asked = board.slot(victim);
    if (Ask(asked, self, SmsToAskFor(board, slot, asked)).tells) told |= BitOf(victim);
  }
  return told;
}

}  // namespace

bool HasDemand(const BoardSlot& slot, uint64_t now_ns) {
  return (slot.demand.load() & 1) != 0 && slot.demand_until_ns.load() > now_ns;
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
  for (uint64_t rest = wakes.agents; rest != 0; rest &= rest - 1) {
    WakeSleeper(board.slot(static_cast<uint32_t>(__builtin_ctzll(rest))));
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

bool ReleaseDemand(BoardView board, uint32_t self) {
  BoardSlot& slot = board.slot(self);
  if ((slot.demand.load(std::memory_order_relaxed) & 1) == 0) return true;
  slot.demand.fetch_add(1);
  bool let_go = false;
  // Not only the victims in may_take: the mask may have changed since they were asked.
  for (uint64_t rest = slot.asked.exchange(0); rest != 0; rest &= rest - 1) {
    const auto victim = static_cast<uint32_t>(__builtin_ctzll(rest));
    // One that has left, or was killed and asked by a mask from before that, tells nobody.
    let_go |= ClearRequest(board, victim, self) && IsLive(board.slot(victim));
  }
  return let_go;
}

void EndDemand(BoardView board, uint32_t self) {
  if ((board.slot(self).demand.load(std::memory_order_relaxed) & 1) == 0) return;
  (void)ReleaseDemand(board, self);
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

bool SetRequest(BoardView board, uint32_t victim, uint32_t bit, uint32_t sm_bound) {
  const Asked asked = Ask(board.slot(victim), bit, sm_bound);
  if (asked.tells) WakeSleeper(board.slot(victim));
  return asked.anew;
}

bool BeginNotNow(BoardView board, uint32_t self) {
  constexpr uint64_t kLimitNs = 1'000'000;
  BoardSlot& slot = board.slot(self);
  slot.not_now.fetch_add(1);
  const uint64_t since_ns = BoardClockNs();
  while (slot.being_asked.load() != 0 && BoardClockNs() - since_ns < kLimitNs) {
    __builtin_ia32_pause();
  }
  return slot.yield_requests.load() == 0;
}

void EndNotNow(BoardView board, uint32_t self) {
  if (board.slot(self).not_now.fetch_sub(1) != 1) return;
  if (board.header().attention.load() != 0) RingBell(board.header());
}

bool ClearRequest(BoardView board, uint32_t victim, uint32_t bit) {
  BoardSlot& slot = board.slot(victim);
  if ((slot.yield_requests.load() & BitOf(bit)) == 0) return false;
  if (slot.yield_requests.fetch_and(~BitOf(bit)) != BitOf(bit)) return false;
  SettleGate(slot);
  WakeAgent(slot);
  return true;
}

uint64_t DropStaleRequests(BoardView board, uint32_t victim, uint64_t now_ns) {
  BoardSlot& slot = board.slot(victim);
  uint64_t requests = slot.yield_requests.load() & ~BitOf(kDaemonBit);
  for (; requests != 0; requests &= requests - 1) {
    const auto requester = static_cast<uint32_t>(__builtin_ctzll(requests));
    if (MayAsk(board, requester, victim, now_ns)) continue;
    ClearRequest(board, victim, requester);
    if (MayAsk(board, requester, victim, now_ns)) {
      SetRequest(board, victim, requester, runtime::kAllSms);
    }
  }
  return slot.yield_requests.load();
}

void DropDaemonHolds(BoardView board, uint32_t slot) {
  ClearRequest(board, slot, kDaemonBit);
  board.slot(slot).may_be_held.store(HeldFor::kNobody);
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

uint64_t BoardClockNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace cupola::sched
