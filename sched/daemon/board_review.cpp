#include "sched/daemon/board_review.h"

#include <algorithm>
#include <array>
#include <optional>

namespace cupola::sched {
namespace {

// Other clients, also those of other users, wait by what a client says of itself, so these values are limited. (The
// lease is not limited: it counts for its client alone, which might as well renew it.)
constexpr uint64_t kMostOverheadNs = 100'000'000;
constexpr uint64_t kMostRemainingNs = 3'600'000'000'000;

/// Computes the standing decisions of a review. Even many clients are of a few kinds (TakerKind), and the victims are
/// looked through only once for each kind.
class Takers {
 public:
  Takers(std::span<const Seat> seats, const Arbiter& core) : seats_(seats), core_(core) {}

  SlotSet MaskOf(const Seat& requester) {
    const std::optional<Arbiter::TakerKind> kind = core_.TakerKindOf(requester.id);
    if (!kind) return {};
    SlotSet mask = MaskOf(*kind);
    mask.Remove(requester.slot);
    return mask;
  }

 private:
  struct Known {
    Arbiter::TakerKind kind;
    SlotSet mask;
  };

  const SlotSet& MaskOf(const Arbiter::TakerKind& kind) {
    const auto end = known_.begin() + static_cast<ptrdiff_t>(std::min(found_, known_.size()));
    const auto known = std::find_if(known_.begin(), end, [&](const Known& one) { return one.kind == kind; });
    if (known != end) return known->mask;
    Known& one = known_[found_++ % known_.size()];
    one = {kind, {}};
    for (const Seat& victim : seats_) {
      if (core_.MayTake(kind, victim.id)) one.mask.Add(victim.slot);
    }
    return one.mask;
  }

  std::span<const Seat> seats_;
  const Arbiter& core_;
  std::array<Known, 8> known_{};  ///< the kinds asked for last
  size_t found_ = 0;
};

/// Whether a client that runs has asked the victim to yield, and may ask it.
bool IsAskedByRunning(BoardView board, std::span<const Seat> seats, const Seat& victim,
                      const Arbiter& core) {
  const SlotSet requests = RequestersOf(board.slot(victim.slot));
  return std::any_of(seats.begin(), seats.end(), [&](const Seat& seat) {
    return requests.Has(seat.slot) && core.IsGranted(seat.id) &&
           board.slot(seat.slot).may_take.Has(victim.slot);
  });
}

/// The bound below which the slot's requesters need its SMs.
uint32_t NeededBound(BoardView board, const BoardSlot& slot, const ClientOrder& order) {
  if (order.hold && order.sm_bound != runtime::kAllSms) return order.sm_bound;
  if ((slot.yield_requests & kDaemonRequest) != 0) return runtime::kAllSms;
  uint32_t bound = 0;
  ForEachSlot(RequestersOf(slot), [&](uint32_t requester) {
    bound = std::max(bound, SmsToAskFor(board, board.slot(requester), slot));
  });
  return bound;
}

}  // namespace

uint64_t ObserveBoard(BoardView board, std::span<const Seat> seats, Arbiter& core,
                      uint64_t now_ns) {
  uint64_t first_end = kNever;
  for (const Seat& seat : seats) {
    const BoardSlot& slot = board.slot(seat.slot);
    Observation seen;
    seen.active = HasDemand(slot, now_ns);
    seen.sequence = slot.demand;
    seen.remaining_ns = std::min<uint64_t>(slot.remaining_ns, kMostRemainingNs);
    seen.overhead_ns = std::min<uint64_t>(slot.overhead_ns, kMostOverheadNs);
    seen.sms = slot.sms_wanted;
    seen.stopped = slot.stopped != 0 && slot.yield_requests != 0;
    const uint32_t capabilities = slot.capabilities;
    const bool may_be_asked = slot.not_now == 0;
    seen.can_preempt = may_be_asked && (capabilities & kCanPreempt) != 0;
    seen.can_gate = may_be_asked && (capabilities & kCanGate) != 0;
    seen.shares_context = (capabilities & kSharesContext) != 0;
    core.Observe(seat.id, seen);
    if (seen.active) first_end = std::min<uint64_t>(first_end, slot.demand_until_ns);
  }
  return first_end;
}

bool CarryOutOrders(BoardView board, std::span<const Seat> seats, const Arbiter& core,
                    uint64_t now_ns) {
  const std::optional<uint32_t> extra_sms = core.policy().ExtraSms();
  board.header().extra_sms = extra_sms.value_or(0);
  board.header().spatial = extra_sms ? 1 : 0;
  bool is_news = false;
  Takers takers(seats, core);
  for (const Seat& seat : seats) {
    BoardSlot& slot = board.slot(seat.slot);
    const SlotSet mask = takers.MaskOf(seat);
    const HeldFor may_be_held = core.HoldsFor(seat.id);
    const bool is_other = slot.may_take.load() != mask;
    is_news = is_news || is_other || slot.may_be_held != may_be_held;
    if (is_other) slot.may_take.store(mask);
    if (slot.may_be_held != may_be_held) slot.may_be_held = may_be_held;
  }
  if (is_news) board.header().decisions.fetch_add(1);
  bool changed_holds = false;
  for (const Seat& seat : seats) {
    const ClientOrder order = core.OrderFor(seat.id);
    if (order.hold && !(order.is_next && IsAskedByRunning(board, seats, seat, core))) {
      changed_holds |= SetRequest(board, seat.slot, kDaemonBit, order.sm_bound);
    }
  }
  for (const Seat& seat : seats) {
    const ClientOrder order = core.OrderFor(seat.id);
    BoardSlot& slot = board.slot(seat.slot);
    DropStaleRequests(board, seat.slot, now_ns);
    if (!order.hold || (order.is_next && IsAskedByRunning(board, seats, seat, core))) {
      changed_holds |= IsAskedBy(slot, kDaemonBit);
      ClearRequest(board, seat.slot, kDaemonBit);
    }
    if (slot.yield_requests != 0) {
      const uint32_t bound = NeededBound(board, slot, order);
      if (slot.yield_sm_bound != bound && bound != 0) {
        slot.yield_sm_bound = bound;
        WakeAgent(slot);  // a process that has stopped may find room again
      }
    }
    if ((slot.gate != 0) != GateIsToBeOpen(slot)) SettleGate(slot);
  }
  return changed_holds;
}

void FreeSlot(BoardView board, uint32_t slot) {
  BoardSlot& gone = board.slot(slot);
  gone.state = static_cast<uint32_t>(SlotState::kLeft);
  gone.may_take.store(0);
  gone.may_be_held = HeldFor::kNobody;
  for (uint32_t victim = 0; victim < kBoardSlots; ++victim) ClearRequest(board, victim, slot);
  ForgetRequests(gone);
  gone.not_now = 0;
  gone.being_asked = 0;
  gone.demand = 0;
  gone.demand_until_ns = 0;
  gone.capabilities = 0;
  gone.pid = 0;
  gone.state = static_cast<uint32_t>(SlotState::kFree);  // plant: slot_not_freed
}

}  // namespace cupola::sched
