// Streams that the program itself holds: they wait for a word that it is to write, for a function of the
// host, for an external semaphore, or for what waits for one of these. What stands behind such a thing
// may wait for the thread that makes the next call, so nothing of Cupola may wait for it: it goes out as
// the program made it, and nothing is loaded meanwhile (docs/preemption.md, "What the program holds").
// A stream is noted before the call that holds it, and is ordinary again when that has certainly passed:
// the driver says that the stream has nothing to do, a marker behind it is reached, or the program has
// waited for it. On doubt a stream counts as held. Any thread; takes a mutex, but not where nothing is
// held, and never over a call that may wait.
#pragma once

#include <atomic>
#include <cstdint>

#include <cuda.h>

#include "intercept/facts/streams.h"

namespace cupola::intercept {
struct LaunchFacts;
}

namespace cupola::intercept::preempt {

struct PreemptContext;

namespace internal {
extern std::atomic<uint32_t> holds;  // streams that are noted
}

/// Whether any stream of the process is noted. One load.
inline bool AnyIsHeld() noexcept { return internal::holds.load() != 0; }

/// A call is about to hold the stream, which does not capture. What is returned, never 0, names the hold:
/// EndHold is to be called behind the call.
uint64_t BeginHold(const StreamKey& key, CUstream stream, bool per_thread) noexcept;
/// The same for all streams of a context, until `event` is over; a null context: of all contexts.
uint64_t BeginHoldOfAll(CUcontext context, CUevent event) noexcept;
/// `hold` 0: nothing.
void EndHold(uint64_t hold) noexcept;
/// Whether it has not certainly passed.
bool IsStillHeld(uint64_t hold) noexcept;

/// Whether what the stream is given now may come behind something that the program must release. Asks the
/// driver about streams, now and then.
bool IsHeld(const StreamKey& key, CUstream stream, bool per_thread) noexcept;
/// Whether any stream of the context is held: nothing may be loaded into it.
bool IsHeldAnywhere(CUcontext context) noexcept;

/// A launch goes into the stream as the program made it, and IsHeld was true: puts a marker there where
/// one is missing.
void MarkHeld(PreemptContext& context, const LaunchFacts& facts, const StreamKey& key) noexcept;

/// A synchronising call that waited for the stream has returned well, of which nothing was under way when
/// it was made; `holds_before`: HoldsSoFar then. `whole_context`: for all of the context.
uint64_t HoldsSoFar() noexcept;
void NoteWaitedFor(CUcontext context, uint64_t stream, bool whole_context, uint64_t holds_before) noexcept;

/// A context may be about to end: nobody asks about its streams until it goes on.
void PauseHoldsOf(CUcontext context) noexcept;
void ResumeHoldsOf(CUcontext context) noexcept;

/// Of a process that takes part, at its start: streams that end are forgotten from now on.
void StartHostHolds() noexcept;
void ForgetHoldsAfterFork() noexcept;

// Events and executable graphs that came behind what the program holds (held_events.cpp).

/// `event` is about to be recorded in the stream, or (no stream) in all of a context.
void NoteRecorded(CUevent event, const StreamKey& key, CUstream stream, bool per_thread) noexcept;
void NoteRecordedInAll(CUevent event) noexcept;
/// An event of another process: nobody knows what it waits for.
void NoteForeignEvent(CUevent event) noexcept;
/// Whether who waits for it now may be held.
bool MayHold(CUevent event) noexcept;

/// A graph is about to be launched into the stream. What is returned goes to EndHold; 0: it holds nothing.
uint64_t BeginGraph(CUgraphExec exec, const StreamKey& key, CUstream stream, bool per_thread) noexcept;

void ForgetHeldEventsAfterFork() noexcept;

/// Memory is about to be freed in the order of the stream; to be made: whether that may bring another
/// stream's work with it, that is held.
void NoteFreed(const StreamKey& key, CUstream stream, bool per_thread) noexcept;
bool MayBeFreedBehindHold(const StreamKey& key) noexcept;

}  // namespace cupola::intercept::preempt
