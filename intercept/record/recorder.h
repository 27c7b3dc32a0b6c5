// The recorder: whether this process records its launches, and the ring writer if it does (CUPOLA_RECORDS names a
// folder). Hooks ask it from any thread. Nothing happens before the first CUDA call.
#pragma once

#include <atomic>
#include <cstdint>

#include "intercept/process/first_call.h"
#include "intercept/process/thread_state.h"
#include "intercept/record/ring_writer.h"

namespace cupola::intercept {

/// Whether launches are recorded. The generated entries of the launch hooks read it
/// (entry/generate/stubs.py).
enum class RecordingState : uint8_t {
  kNotStarted = 0,
  kOn = 1,
  kOff = 2,
  kOffButWatched = 3,  ///< not recorded, but preemption or tasks look at each launch
  kReported = 4,       ///< not recorded, but counted for a report (record/launch_uses.h); preemption or tasks may look too
};
extern std::atomic<RecordingState> recording_state __asm__("cupola_recording_state")
    __attribute__((visibility("hidden")));
extern RingWriter ring_writer;

/// Opens the files that CUPOLA_RECORDS, CUPOLA_TIMING and CUPOLA_FEATURES ask for. Returns kOn or kOff. Called at the
/// process's start (entry/start.cpp), which then sets recording_state.
RecordingState OpenRecords() noexcept;

/// From exit(): logs how much was recorded and lost.
void SayRecordsAtExit() noexcept;

void ForgetRecordsAfterFork() noexcept;

/// The ring, or null when nothing is recorded. The first call starts the process's recording. On the launch path:
/// one load.
inline RingWriter* ActiveRing() noexcept {
  const RecordingState state = recording_state.load(std::memory_order_acquire);
  if (state == RecordingState::kOn) [[likely]] return &ring_writer;
  if (state != RecordingState::kNotStarted) return nullptr;
  StartProcess();
  return recording_state.load(std::memory_order_relaxed) == RecordingState::kOn ? &ring_writer : nullptr;
}

/// True when it is known that launches are not recorded: then a hook has nothing to do and leaves by a
/// jump. Between two launches of a program all of Cupola falls out of the processor's caches, so the
/// cost of a launch is mostly the number of cache lines of code and data that it needs again
/// (docs/interception.md).
inline bool NothingRecorded() noexcept {
  return recording_state.load(std::memory_order_relaxed) == RecordingState::kOff;
}

/// True when a hook of a call other than a launch has something to do: it is the outermost hook on this
/// thread, and launches are recorded or watched.
inline bool Watching() noexcept {
  return !InsideHook() && (ActiveRing() != nullptr || recording_state.load(std::memory_order_relaxed) >=
                                                          RecordingState::kOffButWatched);
}

/// Whether launches are counted for a report. One load.
inline bool IsReported() noexcept {
  return recording_state.load(std::memory_order_relaxed) == RecordingState::kReported;
}

/// Puts a finished record into the ring; `ticket` gets its number. False when the ring is full: the record is
/// dropped, and counted as dropped unless it is one of device times. Lock-free.
bool PublishRecord(RingWriter& ring, const LaunchRecord& record, uint64_t* ticket) noexcept;

/// The lane of the calling thread; the first call of a thread takes one, lock-free.
LaneWriter& ThreadLane(RingWriter& ring) noexcept;

}  // namespace cupola::intercept
