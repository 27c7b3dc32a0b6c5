// Holds: streams that the program itself makes wait, for a word that it will write, for a host function,
// for an external semaphore, or for an event that may be behind one of these. Work behind a hold may wait for the
// very thread that makes the next call, so nothing of Cupola may wait for such work: launches into the
// stream go out plain, and nothing is loaded meanwhile (docs/waiting.md, "What the program holds").
// Hooks record a hold before the call that makes it. The stream is free again when the hold has certainly
// passed: the driver says that the stream has nothing to do, a marker behind the hold is reached, or the
// program has waited for the stream. In doubt a stream counts as held. Any thread. The functions take a
// mutex, but not while nothing is held, and never over a call that may wait.
#pragma once

#include <atomic>
#include <cstdint>

#include <cuda.h>

#include "intercept/facts/streams.h"

namespace cupola::intercept {
struct Launch;
struct LaunchContext;
}  // namespace cupola::intercept

namespace cupola::intercept::preempt {

namespace internal {
extern std::atomic<uint32_t> holds;  // number of streams that are recorded as held
}

/// Whether any stream of the process is recorded as held. One load.
inline bool AnyIsHeld() noexcept { return internal::holds.load() != 0; }

/// Records that a call is about to hold the stream, which does not capture. Returns the name of the hold,
/// never 0. The hook passes it to EndHold after the call.
uint64_t BeginHold(const StreamKey& key, CUstream stream, bool per_thread) noexcept;
/// The same for all streams of a context, until `event` is over; a null context means all contexts.
uint64_t BeginHoldOfAll(CUcontext context, CUevent event) noexcept;
/// The call that makes the hold has returned. Does nothing if `hold` is 0.
void EndHold(uint64_t hold) noexcept;
/// Whether the hold may still be there: false once it has certainly passed.
bool IsStillHeld(uint64_t hold) noexcept;

/// Whether work that is put on the stream now may come behind a hold. Asks the driver about streams, now
/// and then.
bool IsHeld(const StreamKey& key, CUstream stream, bool per_thread) noexcept;
/// Whether any stream of the context is held: then nothing may be loaded into the context.
bool IsHeldAnywhere(CUcontext context) noexcept;

/// Puts a marker into the stream if one is missing behind its last hold. Called before a launch that goes
/// out plain because IsHeld was true.
void MarkHeld(LaunchContext& context, const Launch& launch, const StreamKey& key) noexcept;

/// Number of holds that were recorded so far. Hooks of synchronising calls read it before the call.
uint64_t HoldsSoFar() noexcept;
/// A synchronising call that waited for the stream, or with `whole_context` for the whole context, has
/// succeeded: ends the holds that were recorded before the call (`holds_before`: HoldsSoFar at that time) and
/// whose own calls have returned.
void ReleaseHoldsWaitedFor(CUcontext context, uint64_t stream, bool whole_context, uint64_t holds_before) noexcept;

/// Called before a driver call that may end the context: nobody asks the driver about its streams until
/// ResumeHoldsOf.
void PauseHoldsOf(CUcontext context) noexcept;
void ResumeHoldsOf(CUcontext context) noexcept;

/// At the start of a process that takes part in preemption: from now on streams that end are forgotten.
void StartHostHolds() noexcept;
void ForgetHoldsAfterFork() noexcept;

// Events and executable graphs that came behind a hold (held_events.cpp).

/// `event` is about to be recorded in the stream, or in a whole context.
void OnEventRecorded(CUevent event, const StreamKey& key, CUstream stream, bool per_thread) noexcept;
void OnEventRecordedInContext(CUevent event) noexcept;
/// `event` is of another process: nobody here knows what it waits for.
void AddForeignEvent(CUevent event) noexcept;
/// Whether a stream that waits for the event now may be held.
bool MayHold(CUevent event) noexcept;

/// A graph is about to be launched into the stream. Returns the hold to pass to EndHold; 0: it makes none.
uint64_t BeginGraph(CUgraphExec exec, const StreamKey& key, CUstream stream, bool per_thread) noexcept;

void ForgetHeldEventsAfterFork() noexcept;

/// Memory is about to be freed in the order of the stream.
void OnMemoryFreed(const StreamKey& key, CUstream stream, bool per_thread) noexcept;
/// Memory is about to be allocated in the order of the stream: whether the driver may give it memory that
/// was freed on another stream behind a hold, so that this stream comes to wait for that hold too.
bool MayBeFreedBehindHold(const StreamKey& key) noexcept;

}  // namespace cupola::intercept::preempt
