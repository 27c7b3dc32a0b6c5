// Between the board and the arbiter's core: what the slots say becomes observations, and the core's
// orders become words on the board. No thread, no clock: the daemon and the simulation call the same.
#pragma once

#include <span>

#include "sched/arbiter.h"
#include "sched/board/yield_protocol.h"

namespace cupola::sched {

/// Which client of the core has which slot of a board.
struct Seat {
  uint32_t slot = 0;
  ClientId id;
};

/// Tells the core what the slots of `seats` say. Returns when the first of their leases ends; kNever =
/// nobody has demand.
uint64_t ObserveBoard(BoardView board, std::span<const Seat> seats, Arbiter& core,
                      uint64_t now_ns);

/// Publishes the standing decisions (may_take), asks those to yield that may not run, in the daemon's
/// name, lets the others go on, and repairs what the dead and the stopped left behind. Stops before it
/// starts: nobody is let go before those that are to leave have been asked. True: the daemon held somebody or let
/// somebody go in its own name; else the standing decisions had been enough.
bool CarryOutOrders(BoardView board, std::span<const Seat> seats, const Arbiter& core,
                    uint64_t now_ns);

/// Takes the slot of a process that is gone: nobody is asked in its name any more, and it is free.
void FreeSlot(BoardView board, uint32_t slot);

}  // namespace cupola::sched
