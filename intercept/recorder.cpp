#include "intercept/recorder.h"

#include <cstdlib>
#include <cstring>

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "intercept/batches/batches.h"
#include "intercept/calls.h"
#include "intercept/device_timing.h"
#include "intercept/driver.h"
#include "intercept/fast_clock.h"
#include "intercept/graphs.h"
#include "intercept/green_contexts.h"
#include "intercept/launch_features.h"
#include "intercept/kernel_names.h"
#include "intercept/module_hooks.h"
#include "intercept/mutex_lock.h"
#include "intercept/notice.h"
#include "intercept/own_stack.h"
#include "intercept/preempt/preemption.h"
#include "intercept/streams.h"
#include "intercept/thread_state.h"

namespace cupola::intercept {

std::atomic<RecordingState> recording_state{RecordingState::kNotStarted};
RingWriter ring_writer;

namespace {

pthread_mutex_t start_mutex = PTHREAD_MUTEX_INITIALIZER;
std::atomic<bool> has_handlers{false};
std::atomic<uint64_t> next_stream_id{1};
pthread_key_t lane_key;
bool has_lane_key = false;

// The child has one thread, and none of the parent's CUDA objects: it starts afresh, with a file of
// its own made at its first CUDA call. No lock is taken: its owner may not exist any more.
void ForgetAfterFork() {
  start_mutex = PTHREAD_MUTEX_INITIALIZER;
  this_thread.thread_id = 0;
  this_thread.per_thread_stream = 0;
  this_thread.lane = nullptr;
  if (has_lane_key) pthread_setspecific(lane_key, nullptr);
  ResetTimingAfterFork();
  ResetFeaturesAfterFork();
  ResetKernelNamesAfterFork();
  ResetModuleHooksAfterFork();
  ResetStreamsAfterFork();
  ResetGreenContextsAfterFork();
  ResetGraphsAfterFork();
  preempt::ForgetPreemptionAfterFork();
  tasks::ForgetTasksAfterFork();
  batches::ForgetBatchesAfterFork();
  recording_state.store(RecordingState::kNotStarted, std::memory_order_release);
}

// Runs from exit(), before the driver's own handlers, while other threads may still launch. It
// frees nothing: the rest is left to the system on purpose.
void AtExit() {
  preempt::EndPreemptionAtExit();
  FlushTimingAtExit();
  if (recording_state.load() != RecordingState::kOn) return;
  const RecordsHeader& header = ring_writer.header();
  Say(Level::kInfo, {Decimal(ring_writer.LaunchesSeen()), " launches and ",
                     Decimal(header.graph_launches.load()), " graph launches seen"});
  if (header.dropped.load() != 0) {
    Say(Level::kWarn, {Decimal(header.dropped.load()), " launch records lost: the ring was full"});
  }
}

// Runs when a thread that has a lane ends. What it may still launch after this, in a destructor
// that runs later, takes a lane again.
void FreeLaneOfThread(void* lane) {
  this_thread.lane = nullptr;
  RingWriter::FreeLane(static_cast<LaneWriter*>(lane));
}

// Arguments are described only where launches are timed, one by one.
void StartFeatures(const char* folder) {
  const char* asked = getenv("CUPOLA_FEATURES");
  if (asked == nullptr || *asked == '\0') return;
  if (timing_mode.load() != TimingMode::kEvents) {
    Say(Level::kWarn, {"no profile: CUPOLA_FEATURES needs device times"});
    return;
  }
  const FeatureCalls calls{
      Real<PFN_cuFuncGetParamInfo_v12040>(Call::k_cuFuncGetParamInfo),
      Real<PFN_cuKernelGetParamInfo_v12040>(Call::k_cuKernelGetParamInfo),
      Real<PFN_cuFuncGetAttribute_v2020>(Call::k_cuFuncGetAttribute),
      Real<PFN_cuKernelGetAttribute_v12000>(Call::k_cuKernelGetAttribute),
      Real<PFN_cuMemGetAddressRange_v3020>(Call::k_cuMemGetAddressRange_v2),
      Real<PFN_cuCtxGetDevice_v2000>(Call::k_cuCtxGetDevice),
      Real<PFN_cuDeviceGetAttribute_v2000>(Call::k_cuDeviceGetAttribute),
      Real<PFN_cuDeviceGetName_v2000>(Call::k_cuDeviceGetName),
      Real<PFN_cuDriverGetVersion_v2020>(Call::k_cuDriverGetVersion)};
  if (!OpenFeatures(folder, ring_writer.header().start_ns, calls)) {
    Say(Level::kWarn, {"no profile: cannot make a file in ", folder});
  }
}

RecordingState Start() {
  if (!has_handlers.exchange(true)) {
    has_lane_key = pthread_key_create(&lane_key, &FreeLaneOfThread) == 0;
    pthread_atfork(nullptr, nullptr, &ForgetAfterFork);
    atexit(&AtExit);
  }
  const char* folder = getenv("CUPOLA_RECORDS");
  if (folder == nullptr || *folder == '\0') return RecordingState::kOff;
  StartFastClock();
  const char* why = nullptr;
  if (!ring_writer.Open(folder, &why)) {
    Say(Level::kWarn, {"launches are not recorded: cannot make a file in ", folder, ": ", why});
    return RecordingState::kOff;
  }
  StartTiming();
  StartFeatures(folder);
  return RecordingState::kOn;
}

// All that begins with the process's first call.
RecordingState StartAll() {
  if (!HasDoor()) return RecordingState::kOff;
  const RecordingState state = Start();
  preempt::StartPreemption();
  // Launches that are measured stay launches.
  if (state == RecordingState::kOff) tasks::StartTasks();
  batches::StartBatches();
  const bool is_watched = preempt::PreemptionOn() || tasks::TasksOn();
  return state == RecordingState::kOff && is_watched ? RecordingState::kOffButWatched : state;
}

}  // namespace

bool StartRecording() noexcept {
  const MutexLock lock(start_mutex);
  if (recording_state.load(std::memory_order_relaxed) == RecordingState::kNotStarted) {
    auto start = [] { recording_state.store(StartAll(), std::memory_order_release); };
    RunOnOwnStack(start);
  }
  return recording_state.load(std::memory_order_relaxed) == RecordingState::kOn;
}

bool PublishRecord(RingWriter& ring, const LaunchRecord& record, uint64_t* ticket) noexcept {
  constexpr size_t kSequenceBytes = sizeof(record.sequence);
  LaunchRecord* const slot = ring.Claim(ticket, record.kind != RecordKind::kDeviceTimes);
  if (slot == nullptr) return false;
  memcpy(reinterpret_cast<char*>(slot) + kSequenceBytes,
         reinterpret_cast<const char*>(&record) + kSequenceBytes,
         sizeof(record) - kSequenceBytes);
  RingWriter::Publish(slot, *ticket);
  return true;
}

LaneWriter& ThreadLane(RingWriter& ring) noexcept {
  if (this_thread.lane == nullptr) [[unlikely]] {
    this_thread.lane = ring.TakeLane(ThreadId());
    if (has_lane_key) pthread_setspecific(lane_key, this_thread.lane);
  }
  return *this_thread.lane;
}

uint32_t ThreadId() noexcept {
  if (this_thread.thread_id == 0) [[unlikely]] {
    this_thread.thread_id = static_cast<uint32_t>(syscall(SYS_gettid));
  }
  return this_thread.thread_id;
}

uint64_t NewStreamId() noexcept { return next_stream_id.fetch_add(1, std::memory_order_relaxed); }

}  // namespace cupola::intercept
