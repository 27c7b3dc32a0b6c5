// How many streams the process uses, and how many hardware queues it has. A stream with work takes a free queue; if there are
// more such streams than queues, they wait for one another (launch/hardware_queues.h). A stream is *live*, and counted,
// from its first use until it ends; how many there are beside is of no matter (PyTorch makes a hundred and uses three).
// Streams are counted from StartCountingStreams on. This file also tells which streams synchronise with the legacy stream.
// Any thread.
#pragma once

#include <cstdint>

#include <cuda.h>

#include "intercept/process/event.h"

namespace cupola::intercept {

/// The most hardware queues that a process can have [CUDA C++ Programming Guide, CUDA_DEVICE_MAX_CONNECTIONS].
inline constexpr uint32_t kMostHardwareQueues = 32;

/// Sets the number of hardware queues of the process; its streams are counted from now on. Called before the first
/// context is made. If it is called more than once, the last number holds.
void StartCountingStreams(uint32_t hardware_queues) noexcept;

/// The number of hardware queues of the process; 8 until StartCountingStreams.
uint32_t HardwareQueues() noexcept;

/// Counts a stream that is about to be used for the first time. If the streams do not fit the queues any more, announces
/// streams_share_queues and waits as long as its subscribers do.
void CountStream() noexcept;

/// Takes that back: the stream has ended, alone or with its context, or was not made after all.
void UncountStream() noexcept;

/// Announced by CountStream: there are more streams than queues now, the new one included. A subscriber that has put
/// work into a stream that waits for work in another stream returns only when that wait is over.
extern Event<> streams_share_queues;

/// The most helper streams of a context that can be counted.
inline constexpr uint32_t kMostHelperStreams = 8;

/// A context is about to have its helper stream number `count` (2 to kMostHelperStreams; the first is counted in any
/// case); each takes a hardware queue. False: there is no queue left for it; it is not counted and must not be made.
bool MakeRoomForHelper(uint32_t count) noexcept;

/// Takes that back: the context's helper stream number `count` was not made after all, or ends with its context.
void DropHelper(uint32_t count) noexcept;

/// Counts another stream of Cupola's own that is about to be made, as if it were used already. False: there is no
/// hardware queue left for it; it is not counted.
bool CountOwnStream() noexcept;

/// Whether every live stream has a hardware queue to itself.
bool StreamsFitQueues() noexcept;

/// Whether there are so few live streams that a MasterKernel still gets a hardware queue when each of them waits for
/// its tasks.
bool StreamsFitTasks() noexcept;

/// Whether work on `stream` waits for the legacy stream and the other way round. The thread has just resolved the
/// stream (streams.h). For streams that are not default streams it asks the driver (cuStreamGetFlags, which does not
/// wait), once while the thread stays on one stream.
bool IsBlocking(CUstream stream, bool per_thread) noexcept;

void ForgetLiveStreamsAfterFork() noexcept;

}  // namespace cupola::intercept
