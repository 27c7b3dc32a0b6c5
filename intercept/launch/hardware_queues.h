// Hardware queues: a process has CUDA_DEVICE_MAX_CONNECTIONS of them, 8 if that variable is not set. The
// driver reads it at cuInit. A stream with work takes a free queue; when as many streams wait as there are
// queues, all other streams wait behind them, helper streams included
// [measured: docs/notes/2026-11-28-hardware-queues.md]. So
// launches are guarded, and become tasks, only while the streams fit the queues. Each queue above the
// driver's own number costs every start of a process 25 ms and 10 MB, so only a program that had more
// streams in an earlier run gets more queues. Any thread.
#pragma once

#include <cstdint>

namespace cupola::intercept {

/// Called once, before cuInit, when the store is open. If the environment does not set
/// CUDA_DEVICE_MAX_CONNECTIONS, sets it: to 32 if an earlier run of this program had more streams than queues;
/// to 8 under MPS (`shares_context`), whose clients share the queues of the GPU. Streams are counted from then
/// on (facts/live_streams.h).
void ChooseHardwareQueues(bool shares_context) noexcept;

/// Records that a launch went out plain because there are more streams than queues. One store at most.
void RecordTooManyStreams() noexcept;

/// At exit: if RecordTooManyStreams was called, leaves a note for later runs of this program, provided that
/// this run was long enough for a longer start not to matter.
void KeepTooManyStreamsForLaterRuns() noexcept;

}  // namespace cupola::intercept
