// The process's start, fork and exit: what is started at its first CUDA call, in which order; what a forked child
// forgets; and what is finished before exit() runs the driver's own handlers.
#include <cstdlib>

#include <pthread.h>

#include "intercept/batches/batches.h"
#include "intercept/entry/module_hooks.h"
#include "intercept/facts/graphs.h"
#include "intercept/facts/green_contexts.h"
#include "intercept/facts/live_streams.h"
#include "intercept/facts/streams.h"
#include "intercept/graphs/pieces.h"
#include "intercept/launch/plain_times.h"
#include "intercept/path/graph_feeder.h"
#include "intercept/preempt/preemption.h"
#include "intercept/process/driver.h"
#include "intercept/process/first_call.h"
#include "intercept/process/mutex_lock.h"
#include "intercept/process/own_stack.h"
#include "intercept/process/participation.h"
#include "intercept/process/thread_state.h"
#include "intercept/process/wrong_settings.h"
#include "intercept/record/device_timing.h"
#include "intercept/record/recorder.h"
#include "intercept/record/report_output.h"
#include "intercept/tasks/tasks.h"

namespace cupola::intercept {
namespace {

pthread_mutex_t start_mutex = PTHREAD_MUTEX_INITIALIZER;
bool has_handlers = false;  // under start_mutex

// Runs in the child after a fork. The child has one thread and none of the parent's CUDA objects, and starts afresh at
// its first CUDA call. Takes no lock, since a lock's owner may not exist in the child. Lower layers come first.
void ForgetAfterFork() {
  start_mutex = PTHREAD_MUTEX_INITIALIZER;
  this_thread.thread_id = 0;
  this_thread.per_thread_stream = 0;
  ResetStreamsAfterFork();
  ForgetLiveStreamsAfterFork();
  ResetGreenContextsAfterFork();
  ResetGraphsAfterFork();
  ResetModuleHooksAfterFork();
  graphs::ForgetGraphsAfterFork();
  ForgetFeedingAfterFork();
  preempt::ForgetPreemptionAfterFork();
  tasks::ForgetTasksAfterFork();
  batches::ForgetBatchesAfterFork();
  ForgetReportAfterFork();
  ForgetPlainTimesAfterFork();
  ForgetRecordsAfterFork();  // last: from now on the next call starts the child
}

// Runs from exit(), before the driver's own handlers, while other threads may still launch. Frees nothing, on purpose:
// the system does so when the process ends.
void AtExit() {
  preempt::EndPreemptionAtExit();
  graphs::EndGraphsAtExit();
  EndFeedingAtExit();
  FlushTimingAtExit();
  SayRecordsAtExit();
  WriteReportAtExit();
}

RecordingState StartAll() {
  if (!HasDoor()) return RecordingState::kOff;
  if (!has_handlers) {
    has_handlers = true;
    pthread_atfork(nullptr, nullptr, &ForgetAfterFork);
    atexit(&AtExit);
  }
  SayWrongSettings();
  const RecordingState state = OpenRecords();
  preempt::StartPreemption();
  graphs::StartGraphs();
  StartFeeding();
  // Launches that are recorded stay launches, so that they can be measured.
  if (state == RecordingState::kOff) tasks::StartTasks();
  batches::StartBatches();
  const bool is_watched = PreemptionOn() || TasksOn();
  if (is_watched) watched.fetch_or(kTakesPartBit);
  if (state != RecordingState::kOff) return SayNoReport(), state;
  if (StartReport()) return RecordingState::kReported;
  return is_watched ? RecordingState::kOffButWatched : state;
}

void StartOnce() noexcept {
  const MutexLock lock(start_mutex);
  if (recording_state.load(std::memory_order_relaxed) != RecordingState::kNotStarted) return;
  auto start = [] { recording_state.store(StartAll(), std::memory_order_release); };
  RunOnOwnStack(start);
}

// A constructor that runs before those of anything that may call CUDA, and before the other ones of this library.
__attribute__((constructor(150))) void SetStart() { start_process.store(&StartOnce, std::memory_order_relaxed); }

}  // namespace
}  // namespace cupola::intercept
