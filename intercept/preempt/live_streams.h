// What preemption must know of the program's streams: how many there are (streams beyond the
// hardware queues share them, and then wait for one another's guards), and which synchronise with
// the legacy stream. Thread-safe.
#pragma once

#include <cstdint>

#include <cuda.h>

namespace cupola::intercept::preempt {

/// A stream was made, or is about to be destroyed.
void CountStream() noexcept;
void UncountStream() noexcept;

/// Whether every live stream has a hardware queue to itself.
bool StreamsFitQueues() noexcept;

/// Whether work on `stream` waits for the legacy stream and the other way round. Asks the driver
/// (cuStreamGetFlags, pure) for streams that are not default ones.
bool IsBlocking(CUstream stream, bool per_thread) noexcept;

void ForgetStreamsAfterFork() noexcept;

}  // namespace cupola::intercept::preempt
