// What preemption must know of the program's streams: how many there are (streams beyond the
// hardware queues share them, and then wait for one another's guards), and which synchronise with
// the legacy stream. Thread-safe.
#pragma once

#include <cstdint>

#include <cuda.h>

namespace cupola::intercept::preempt {

/// A stream is about to be made, a thread's default stream at its first use: if it would have to
/// share a hardware queue, waits until no guarded launch of the process is outstanding; from then
/// on all go out plain.
void MakeRoomForStream() noexcept;

/// It was not made; or it has ended, alone or with its context.
void UncountStream() noexcept;

/// A stream is about to be destroyed, of which streams.h still knows.
void NoteStreamEnding(CUstream stream) noexcept;

/// A context is about to have so many streams for resumes, more than one, each with a hardware
/// queue. False: there is none left.
bool MakeRoomForHelper(uint32_t count) noexcept;

/// One of Cupola's own is about to be made, and counts as those of the program do. False: there is no
/// hardware queue left for it; it does not count.
bool CountOwnStream() noexcept;

/// Whether every live stream has a hardware queue to itself.
bool StreamsFitQueues() noexcept;

/// Whether so few streams are live that a MasterKernel finds a hardware queue while each of them waits for
/// its tasks.
bool StreamsFitTasks() noexcept;

/// Whether work on `stream`, which this thread has just resolved (streams.h), waits for the legacy
/// stream and the other way round. Asks the driver (cuStreamGetFlags, pure) for streams that are not
/// default ones, once while a thread stays on one stream.
bool IsBlocking(CUstream stream, bool per_thread) noexcept;

void ForgetStreamsAfterFork() noexcept;

}  // namespace cupola::intercept::preempt
