// The steps of a review between the board and the arbiter's core: what the slots say becomes observations, and the
// core's orders become words on the board. They use no thread and no clock; GpuArbiter calls them under its lock, and
// the simulation calls the same functions.
#pragma once

#include <span>

#include "sched/arbiter.h"
#include "sched/board/yield_protocol.h"

namespace cupola::sched {

/// Which client of the core has which board slot.
struct Seat {
  uint32_t slot = 0;
  ClientId id;
};

/// Tells the core what the slots of `seats` say. Returns the time when the first of their leases ends; kNever = none of
/// them has demand.
uint64_t ObserveBoard(BoardView board, std::span<const Seat> seats, Arbiter& core,
                      uint64_t now_ns);

/// Carries the core's orders out on the board: publishes the standing decisions (may_take), asks the clients that may
/// not run to yield, in the daemon's own name, lets the others go on, and repairs what dead and stopped processes left
/// behind. It asks before it lets go: no client is let go before all that are to leave have been asked. True: the
/// daemon set or took back a request of its own; otherwise the standing decisions had been enough.
bool CarryOutOrders(BoardView board, std::span<const Seat> seats, const Arbiter& core,
                    uint64_t now_ns);

/// Frees the slot of a process that is gone, and takes back the requests that the process made.
void FreeSlot(BoardView board, uint32_t slot);

}  // namespace cupola::sched
