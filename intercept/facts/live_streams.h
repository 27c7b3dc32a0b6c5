// How many streams the process has, and how many hardware queues: a stream with work takes a queue that is free, and
// where there are more streams than queues they wait for one another (preempt/hardware_queues.h). Streams are counted
// from StartCountingStreams on. And which streams synchronise with the legacy stream. Thread-safe.
#pragma once

#include <cstdint>

#include <cuda.h>

#include "intercept/process/event.h"

namespace cupola::intercept {

/// The most hardware queues that a process can have [CUDA C++ Programming Guide, CUDA_DEVICE_MAX_CONNECTIONS].
inline constexpr uint32_t kMostHardwareQueues = 32;

/// The process has that many hardware queues, and its streams are counted from now on. Called before the first
/// context is made; the last call counts.
void StartCountingStreams(uint32_t hardware_queues) noexcept;

/// Hardware queues of the process; 8 until StartCountingStreams.
uint32_t HardwareQueues() noexcept;

/// A stream is about to be made, or a thread's default stream to be used for the first time: it counts. Where it has
/// to share a hardware queue, announces streams_share_queues and waits as long as its subscribers do.
void CountStream() noexcept;

/// It was not made; or it has ended, alone or with its context.
void UncountStream() noexcept;

/// Announced by CountStream: there are more streams than queues now, the new one included. Who has put anything into
/// a stream that waits for something in another one sees to it that this is over before it returns.
extern Event<> streams_share_queues;

/// A context is about to have `count` streams of Cupola's own for resumes; each takes a hardware queue. False: there
/// is none left, and they do not count.
bool MakeRoomForHelper(uint32_t count) noexcept;

/// Another stream of Cupola's own is about to be made, and counts as those of the program do. False: there is no
/// hardware queue left for it; it does not count.
bool CountOwnStream() noexcept;

/// Whether every live stream has a hardware queue to itself.
bool StreamsFitQueues() noexcept;

/// Whether so few streams are live that a MasterKernel finds a hardware queue while each of them waits for its tasks.
bool StreamsFitTasks() noexcept;

/// Whether work on `stream`, which this thread has just resolved (streams.h), waits for the legacy stream and the
/// other way round. Asks the driver (cuStreamGetFlags, pure) for streams that are not default ones, once while a
/// thread stays on one stream.
bool IsBlocking(CUstream stream, bool per_thread) noexcept;

void ForgetLiveStreamsAfterFork() noexcept;

}  // namespace cupola::intercept
