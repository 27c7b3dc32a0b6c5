// Hardware queues: a process has CUDA_DEVICE_MAX_CONNECTIONS of them, 8 where that is not set, which the
// driver reads at cuInit. A stream with work takes one that is free; when as many streams wait as there are
// queues, all others wait behind them, helper streams included [measured, docs/preemption.md]. So launches
// are guarded, and become tasks, only while the streams fit. More queues than the driver's own number cost
// every start of a process 25 ms and 10 MB each: only a program that had more streams in an earlier run gets
// them. Any thread.
#pragma once

#include <cstdint>

namespace cupola::intercept::preempt {

/// Once, before cuInit, when the store is open: where an earlier run of this program had more streams than
/// queues, and the environment says nothing, sets CUDA_DEVICE_MAX_CONNECTIONS to 32. Under MPS (`shares_context`),
/// whose clients share the queues of the GPU, to 8. Streams are counted from then on (facts/live_streams.h).
void ChooseHardwareQueues(bool shares_context) noexcept;

/// A launch went out as it was made since there are more streams than queues. A store.
void NoteStreamsExceedQueues() noexcept;

/// At exit: what NoteStreamsExceedQueues was told is kept for later runs, where this one was long enough for
/// a longer start not to matter.
void RememberStreamsExceedQueues() noexcept;

}  // namespace cupola::intercept::preempt
