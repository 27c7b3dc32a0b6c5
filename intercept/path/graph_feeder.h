// The feeder: a thread of ours that puts the pieces of deferred launches into a stream of ours, as the driver has room for
// them (launch/piece_queue.h says what a deferred launch is). The launch call has put two entries into the program's
// stream: an event, for which the feed stream waits, and a wait for the word that the feed stream writes behind the last
// piece. So the pieces run where the launch stands in the program's stream, and what comes later waits for them.
#pragma once

#include <cstdint>

#include <cuda.h>

#include "intercept/path/piece_row.h"

namespace cupola::intercept {
struct Launch;

enum class Deferral : uint8_t {
  kDeferred,
  kNotNow,   ///< a scope is open, or as much is deferred as may be: it is worth while to try again
  kRefused,  ///< there is no hardware queue for the feed stream, or the driver has refused a call
};

/// Defers a launch in pieces, unless it returns something else: then nothing was done. The caller holds launch_mutex, and
/// `row.set()` until it returns. Does not wait.
Deferral Defer(const Launch& launch, const PieceRow& row) noexcept;

/// Subscribes to the ends of contexts. Called when the process starts.
void StartFeeding() noexcept;
void ForgetFeedingAfterFork() noexcept;
/// From exit(), when preemption has ended and before the driver's own handlers: the feeder makes no more calls.
void EndFeedingAtExit() noexcept;

}  // namespace cupola::intercept
