#include "intercept/record/recorder.h"

#include <cstdlib>
#include <cstring>

#include <pthread.h>

#include "base/settings/variables.h"
#include "intercept/process/calls.h"
#include "intercept/process/fast_clock.h"
#include "intercept/process/notice.h"
#include "intercept/process/thread_state.h"
#include "intercept/record/device_timing.h"
#include "intercept/record/kernel_names.h"
#include "intercept/record/launch_features.h"

namespace cupola::intercept {

std::atomic<RecordingState> recording_state{RecordingState::kNotStarted};
RingWriter ring_writer;

namespace {

pthread_key_t lane_key;
bool has_lane_key = false;

// Runs when a thread that has a lane ends. If a destructor that runs later still launches, the
// thread takes a lane again.
void FreeLaneOfThread(void* lane) {
  this_thread.lane = nullptr;
  RingWriter::FreeLane(static_cast<LaneWriter*>(lane));
}

// Opens the file of features. Arguments are described only if launches are timed one by one.
void StartFeatures(const char* folder) {
  if (!settings::Flag("CUPOLA_FEATURES")) return;
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

}  // namespace

RecordingState OpenRecords() noexcept {
  if (!has_lane_key) has_lane_key = pthread_key_create(&lane_key, &FreeLaneOfThread) == 0;
  const char* folder = settings::TextIfAny("CUPOLA_RECORDS");
  if (folder == nullptr) return RecordingState::kOff;
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

void SayRecordsAtExit() noexcept {
  if (recording_state.load() != RecordingState::kOn) return;
  const RecordsHeader& header = ring_writer.header();
  Say(Level::kInfo, {Decimal(ring_writer.LaunchesSeen()), " launches and ",
                     Decimal(header.graph_launches.load()), " graph launches seen"});
  if (header.dropped.load() != 0) {
    Say(Level::kWarn, {Decimal(header.dropped.load()), " launch records lost: the ring was full"});
  }
}

// The child makes files of its own at its first CUDA call.
void ForgetRecordsAfterFork() noexcept {
  this_thread.lane = nullptr;
  if (has_lane_key) pthread_setspecific(lane_key, nullptr);
  ResetTimingAfterFork();
  ResetFeaturesAfterFork();
  ResetKernelNamesAfterFork();
  recording_state.store(RecordingState::kNotStarted, std::memory_order_release);
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

}  // namespace cupola::intercept
