// How processes use the board without a round trip: they announce demand, ask others to yield, take these requests
// back, and repair what processes left behind that died or were stopped by a signal. The same functions serve
// libcupola.so, the daemon and the simulation: time is an argument, and memory is a BoardView. They use only libc, no
// allocation and no exceptions. Any thread may call them, except that the demand of one slot has one writer at a time.
// "Rings the bell, if the daemon wants to know" means: only while BoardHeader::attention is 1, which is so while the
// GPU has more than one client.
//
// Ordering of demand and requests. Two words matter: a requester's `demand` D and its bit in a victim's
// `yield_requests` R.
//   BeginDemand: D := odd;  R |= bit         EndDemand: D := even;  R &= ~bit
//   repair (DropStaleRequests): read D, even; R &= ~bit; read D again; if it has changed, R |= bit
// All of these are sequentially consistent. A repair that races with BeginDemand has two outcomes: its second reading
// sees the odd D, and it puts the bit back; or its second reading comes before D := odd, so that its R &= ~bit comes
// before R |= bit. Either way no request is lost. A repair that races with EndDemand may put a bit back after EndDemand
// has cleared it: that bit is stale and the next repair drops it. The daemon repairs at each review, and the victim's
// agent repairs while its process is asked to yield.
//
// Not now. A process that would hang if it were asked to yield now says so (BeginNotNow): it sets `not_now` N := N + 1,
// waits until no requester is between reading N and setting a bit, and then reads R. A requester counts itself in
// (`being_asked` B := B + 1), reads N, sets its bit only where N is 0, and counts itself out. All of these are
// sequentially consistent: a requester that is not seen in B reads N after it was raised, and sets nothing. So where R
// is 0 then, it stays 0 until EndNotNow, and no worker on the GPU reads another value. A client whose request was not
// set asks again when it renews its demand; the daemon asks again at its review, for which EndNotNow rings the bell. A
// requester that was killed while it was counted in leaves B too high: each BeginNotNow then waits its full limit, 20
// ms. One that is only not given a processor for that long sets its bit too late; it reads N again behind that, and
// takes the bit away at once.
//
// More requests. A requester whose slot is kDirectSlots or above has its bit in more_requests; kMoreRequests in R says
// that there is one. Whoever changes more_requests makes that bit agree with it (SettleMore) in the way in which the
// gate is settled: it stores the bit and reads more_requests again until both agree.
//
// Gate. `gate` is closed while R != 0 and all SMs are asked for. Whoever changes either calls SettleGate afterwards,
// which stores the gate and reads R once more until both agree. So the last store to the gate is followed by a reading
// of R that agrees with it, and a later change of R is followed by another store.
#pragma once

#include <cstdint>

#include "sched/board/board.h"

namespace cupola::sched {

/// The memory of a board as one process has it mapped: kBoardBytes (BoardMemory owns it, the view does not). Copies are
/// cheap; a view is valid until the board is unmapped.
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

/// What a process says of its burst, or of a single launch in it.
struct Demand {
  uint64_t remaining_ns = 0;            ///< predicted time that it still needs; 0 = no prediction
  uint64_t lease_ns = 0;                ///< how long from now the demand counts without being renewed
  uint32_t sms = runtime::kAllSms;      ///< SMs that it needs; kAllSms = the whole GPU
  uint64_t overhead_ns = 0;             ///< predicted time from being asked to having yielded; 0 = unknown
};

/// Those for whom a word on the board has been counted up, and who see it only when woken if they sleep.
struct Wakes {
  SlotSet agents;       ///< the slots of processes whose agents are meant
  bool daemon = false;  ///< the daemon's deciding thread is meant too

  bool Any() const { return daemon || !agents.IsEmpty(); }
};

/// Whether the slot's process wants the GPU at `now_ns`: its demand is odd and its lease has not ended. `now_ns` is on
/// the board's clock, as are all times here.
bool HasDemand(const BoardSlot& slot, uint64_t now_ns);

/// The process of slot `self` gets work: publishes its demand, asks every slot in its may_take mask to yield, and
/// counts the bell up if the daemon wants to know. It costs some stores and no system call: the caller hands the result
/// to WakeSleepers, and may do so after its launch has gone out, because workers on the GPU see a request without their
/// agent. Where demand is odd already, it does what UpdateDemand does, system calls included, and returns no wakes.
[[nodiscard]] Wakes BeginDemand(BoardView board, uint32_t self, const Demand& demand,
                                uint64_t now_ns);

/// Wakes those of `wakes` that sleep, by a system call each.
void WakeSleepers(BoardView board, const Wakes& wakes);

/// A process that has demand gets another launch or renews its lease. Without a prediction (remaining_ns 0) only the
/// lease is renewed. Asks every slot in the may_take mask that is not asked yet, or for too few SMs, and wakes its
/// agent. Rings the bell when the prediction changed or the lease had ended, if the daemon wants to know.
void UpdateDemand(BoardView board, uint32_t self, const Demand& demand, uint64_t now_ns);

/// The process of slot `self` has nothing left to run: ends its demand, takes all its requests back, and rings the bell
/// if the daemon wants to know.
void EndDemand(BoardView board, uint32_t self);

/// EndDemand without ringing the bell, for a caller that wants to save that system call. True: the caller need not
/// ring, either because there was no demand, or because this call took back the last request to a process whose agent
/// will ring when it sees that. (An agent that had not answered the
/// request, or whose process's lease has run out, may be stopped by a signal and does not count.) False: the caller
/// rings.
bool ReleaseDemand(BoardView board, uint32_t self, uint64_t now_ns);

/// The agent of slot `self` says that its process has yielded what it was asked (true), or runs again (false). Rings
/// the bell where this is a change and the daemon wants to know.
void SetStopped(BoardView board, uint32_t self, bool stopped);

/// The SMs for which `requester` asks `victim`, as a value of BoardSlot::yield_sm_bound: the victim is to leave the SMs
/// with a number below it. Where the daemon has switched spatial preemption on and the two share a context, these are
/// as many SMs as the requester needs and the configured extra ones, if the GPU has more than that; else kAllSms.
uint32_t SmsToAskFor(BoardView board, const BoardSlot& requester, const BoardSlot& victim);

/// Asks the process of slot `victim`, in the name of `requester` (a slot's number, or kDaemonBit), to leave the SMs
/// below `sm_bound` (kAllSms: all), and wakes its agent if there is news for it. Where nobody asked the victim before,
/// or only for fewer SMs, `stopped` becomes 0 until the victim's agent has answered. True: this requester did not ask
/// the victim before, and asks now. Sets nothing while the victim may not be asked (BeginNotNow).
bool SetRequest(BoardView board, uint32_t victim, uint32_t requester, uint32_t sm_bound);

/// From here until EndNotNow nobody newly asks this slot's process to yield; calls may be nested. Only the process
/// itself calls it. Waits for requesters that are in the middle of asking, at most 20 ms. False: a client or
/// the daemon asks the process already, and that request stands. Call EndNotNow in either case.
bool BeginNotNow(BoardView board, uint32_t self);
void EndNotNow(BoardView board, uint32_t self);

/// Takes back the request of `requester` to `victim`, if there is one. True: it was the only request; the victim's gate
/// has been settled and its agent has been woken.
bool ClearRequest(BoardView board, uint32_t victim, uint32_t requester);

/// Whether `requester` (a slot's number, or kDaemonBit) asks the slot's process to yield.
bool IsAskedBy(const BoardSlot& slot, uint32_t requester);

/// The slots that ask the slot's process to yield, without the daemon.
SlotSet RequestersOf(const BoardSlot& slot);

/// Clears all requests to the process of `slot`. Only for a slot that nobody can ask at the same time: one that the
/// daemon frees or that its process has left.
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

/// The repair: drops the requests to `victim` of slots that are not live, have no demand or may no longer ask it. The
/// daemon's request stays. Returns the yield_requests that are left.
uint64_t DropStaleRequests(BoardView board, uint32_t victim, uint64_t now_ns);

/// The daemon is gone or stuck: drops the request to the slot's process that the daemon made in its own name, and
/// stores that nobody is to ring the bell. The slot's process calls this, and again as long as the daemon is absent.
void DropDaemonHolds(BoardView board, uint32_t slot);

/// Whether `gate` is to be open: the slot's process is not asked to yield, or only to leave some SMs.
bool GateIsToBeOpen(const BoardSlot& slot);

/// Makes `gate` agree with GateIsToBeOpen. Call it after each change of the requests to the slot.
void SettleGate(BoardSlot& slot);

/// Counts the slot's `wake` word up and, where the agent sleeps on it, wakes the agent by a system call.
void WakeAgent(BoardSlot& slot);

/// Only counts the `wake` word up. Where the agent sleeps, a system call is still needed.
void TellAgent(BoardSlot& slot);

/// For the agent of the slot's process: sleeps until the slot's `wake` word differs from `seen`, for at most
/// `timeout_ns`. May return early.
void WaitForWake(BoardSlot& slot, uint32_t seen, uint64_t timeout_ns);

/// Tells the daemon that something on the board has changed. It costs a system call only if the daemon sleeps.
void RingBell(BoardHeader& header);

/// CLOCK_MONOTONIC of this process in ns. It is the board's clock where the daemon is in the same time namespace;
/// elsewhere BoardClient::OnBoard converts it.
uint64_t BoardClockNs();

/// The number of this process's time namespace (time_namespaces(7)); 0 = it cannot be known. Reads /proc.
uint64_t ClockNamespace();

}  // namespace cupola::sched
