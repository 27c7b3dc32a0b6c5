// How processes use the board without a round trip: announce demand, ask others to yield, take the
// request back, and repair what the dead and the stopped left behind. The same functions serve
// libcupola.so, the daemon and the simulation: time is an argument, memory is a BoardView. libc only,
// no allocation, no exceptions. Any thread, except that the demand of one slot has one writer at a
// time.
//
// Ordering. Two words matter: a requester's `demand` D and its bit in a victim's `yield_requests` R.
//   BeginDemand: D := odd;  R |= bit         EndDemand: D := even;  R &= ~bit
//   repair (DropStaleRequests): read D, even; R &= ~bit; read D again; if it has changed, R |= bit
// All of these are sequentially consistent. A repair that races with BeginDemand either sees the odd D
// in its second reading, and puts the bit back, or its second reading comes before D := odd, so that
// its R &= ~bit comes before R |= bit: no request is lost. A repair that races with EndDemand may put a
// bit back after EndDemand has cleared it: that bit is stale and the next repair drops it. Repairs
// are made by the daemon at each review and by the victim's agent while it is held.
//
// A process that would hang were it stopped now says so (BeginNotNow): N := N + 1, then it waits until
// nobody is between looking at N and setting a bit, then it looks at R. Who asks counts itself in
// (`being_asked` B: +1), reads N, sets its bit only where that is 0, counts itself out. All sequentially
// consistent: who is not seen in B has read N after it was raised, and has set nothing; where R is 0 then,
// it stays 0 until EndNotNow, and no worker on the GPU reads another value. Who has been refused asks again
// when it renews its demand, the daemon at its review, for which the bell is rung. One that was killed
// while it asked leaves B too high: that costs each BeginNotNow its limit, a millisecond.
//
// A requester of kDirectSlots or above has its bit in more_requests; kMoreRequests in R says that there
// is one. Whoever changes more_requests then makes that bit agree with it (SettleMore), as is done with the
// gate: stores it, and reads more_requests again until both agree.
//
// `gate` is closed while R != 0 and all SMs are asked for. Whoever changes either calls SettleGate after
// that, which stores the gate and reads R once more until both agree: the last store to the gate is
// followed by a reading of R that agrees with it, and a later change of R is followed by a store.
#pragma once

#include <cstdint>

#include "sched/board/board.h"

namespace cupola::sched {

/// The memory of a board as one process has it mapped. Does not own it.
class BoardView {
 public:
  BoardView() = default;
  explicit BoardView(void* memory) : memory_(static_cast<char*>(memory)) {}

  explicit operator bool() const { return memory_ != nullptr; }
  void* memory() const { return memory_; }
  BoardHeader& header() const { return *reinterpret_cast<BoardHeader*>(memory_); }
  /// `index` < kBoardSlots.
  BoardSlot& slot(uint32_t index) const {
    return reinterpret_cast<BoardSlot*>(memory_ + kSlotsOffset)[index];
  }

 private:
  char* memory_ = nullptr;
};

/// What a process says of the launch at its head.
struct Demand {
  uint64_t remaining_ns = 0;            ///< predicted
  uint64_t lease_ns = 0;                ///< from now; after it the demand counts as ended
  uint32_t sms = runtime::kAllSms;      ///< that the launch needs
  uint64_t overhead_ns = 0;             ///< predicted cost of stopping it; 0 = unknown
};

/// Who has been told something that it does not see while it sleeps.
struct Wakes {
  SlotSet agents;
  bool daemon = false;

  bool Any() const { return daemon || !agents.IsEmpty(); }
};

/// Whether the slot's process wants the GPU at `now_ns` (on the board's clock, as all times here): its
/// demand is odd and its lease has not passed.
bool HasDemand(const BoardSlot& slot, uint64_t now_ns);

/// The process of slot `self` gets work: publishes it, asks every slot in its may_take mask to yield
/// and rings for the daemon if that wants to know. Where demand is odd already, like UpdateDemand.
/// Costs some stores and no system call: who sleeps is woken by the caller, by WakeSleepers, once its
/// launch is on its way, for workers on the GPU see a request without their agent.
[[nodiscard]] Wakes BeginDemand(BoardView board, uint32_t self, const Demand& demand,
                                uint64_t now_ns);

/// System calls for those of `wakes` that sleep.
void WakeSleepers(BoardView board, const Wakes& wakes);

/// New head of the queue, or a renewed lease, of a process that has demand. Without a prediction
/// (remaining_ns 0) only the lease is renewed. Rings when the prediction changed, or the lease was
/// over, and the daemon wants to know.
void UpdateDemand(BoardView board, uint32_t self, const Demand& demand, uint64_t now_ns);

/// The process of slot `self` has nothing left to run: takes all its requests back.
void EndDemand(BoardView board, uint32_t self);

/// The same without a word to the daemon: for callers in a hurry. True: nobody need tell it, for an agent
/// that was let go, had answered and keeps up its lease does (or there was no demand); false: the caller rings.
bool ReleaseDemand(BoardView board, uint32_t self, uint64_t now_ns);

/// The process of slot `self` has yielded what it was asked (true), or runs again (false). Rings where
/// that is news and the daemon wants to know.
void SetStopped(BoardView board, uint32_t self, bool stopped);

/// The SMs that a request of `requester` to `victim` is for, as BoardSlot::yield_sm_bound: those
/// that its launch needs and the configured rest where the two share a context, else kAllSms.
uint32_t SmsToAskFor(BoardView board, const BoardSlot& requester, const BoardSlot& victim);

/// Asks the process of slot `victim` to leave the SMs below `sm_bound` (kAllSms: all) in the name of
/// `requester` (a slot, or kDaemonBit). Where nobody did, or not for so many, `stopped` becomes 0 until
/// its agent has seen that. True: it was not asked by that one before. Nothing while it is not to be
/// asked.
bool SetRequest(BoardView board, uint32_t victim, uint32_t requester, uint32_t sm_bound);

/// From here on nobody asks the slot's process to yield, until EndNotNow; may be nested. Made by the process.
/// False: it is asked already, or by the daemon once more: then that stands, and EndNotNow is to be called
/// all the same. Waits a millisecond at most.
bool BeginNotNow(BoardView board, uint32_t self);
void EndNotNow(BoardView board, uint32_t self);

/// Takes back the request of `requester`. True: it was the only one, and the agent has been woken.
bool ClearRequest(BoardView board, uint32_t victim, uint32_t requester);

/// Whether `requester` asks the process of that slot to yield.
bool IsAskedBy(const BoardSlot& slot, uint32_t requester);

/// The slots that ask it; the daemon is none.
SlotSet RequestersOf(const BoardSlot& slot);

/// Nobody asks the process of `slot` any more. For a slot that nobody can ask meanwhile.
void ForgetRequests(BoardSlot& slot);

/// Calls `visit(slot)` for each slot of the set.
template <typename Visit>
void ForEachSlot(const SlotSet& set, Visit&& visit) {
  for (uint32_t word = 0; word < kMaskWords; ++word) {
    for (uint64_t rest = set.words[word]; rest != 0; rest &= rest - 1) {
      visit(64 * word + static_cast<uint32_t>(__builtin_ctzll(rest)));
    }
  }
}

/// Drops requests to `victim` of slots that are not live, have no demand or may no longer ask;
/// returns the requests that are left. The daemon's bit is left alone.
uint64_t DropStaleRequests(BoardView board, uint32_t victim, uint64_t now_ns);

/// The daemon is gone, or stuck: what it had asked of the slot in its own name is void. Made by the
/// slot's process, again while the daemon is missed.
void DropDaemonHolds(BoardView board, uint32_t slot);

/// Whether `gate` is to be open: the slot is not asked to leave all SMs.
bool GateIsToBeOpen(const BoardSlot& slot);

/// Makes `gate` agree with that. Call after each change of what the slot is asked.
void SettleGate(BoardSlot& slot);

/// Counts the slot's `wake` word up and wakes the threads that wait on it.
void WakeAgent(BoardSlot& slot);

/// The first half of that: a system call is still needed where the agent sleeps.
void TellAgent(BoardSlot& slot);

/// Sleeps until the slot's `wake` word differs from `seen`, at most `timeout_ns`.
void WaitForWake(BoardSlot& slot, uint32_t seen, uint64_t timeout_ns);

/// Tells the daemon that something on the board has changed. A system call only if it sleeps.
void RingBell(BoardHeader& header);

/// CLOCK_MONOTONIC of this process: the board's clock, where the daemon is in the same time namespace.
uint64_t BoardClockNs();

/// The number of this process's time namespace (time_namespaces(7)); 0 = it cannot be known. A look at /proc.
uint64_t ClockNamespace();

}  // namespace cupola::sched
