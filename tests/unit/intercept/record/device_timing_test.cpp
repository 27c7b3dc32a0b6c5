// The pools of events by which launches are timed on the device: that none of their pairs is lost, and that a context has
// one pool. The driver's events are done, or not, as the test says.
#include "intercept/record/device_timing.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "intercept/record/event_pool.h"
#include "intercept/record/recorder.h"
#include "tests/unit/intercept/own_calls.h"

namespace cupola::intercept {

// The recorder, which is not part of the test.
std::atomic<RecordingState> recording_state{RecordingState::kOn};
std::atomic<void (*)() noexcept> start_process{nullptr};
RingWriter ring_writer;
bool PublishRecord(RingWriter&, const LaunchRecord&, uint64_t*) noexcept { return true; }

namespace {

std::atomic<int> events{0}, streams{0};  // that the driver has
std::atomic<int> refused_event{-1};      // the driver refuses to make an event when it has so many
std::atomic<bool> is_done{true};         // whether the device has reached the events
std::atomic<uint64_t> current{0x1000};   // the context that the program has made current
thread_local uint64_t pushed = 0;        // the one that Cupola has made current meanwhile; 0: none
std::atomic<uint64_t> made_in{0};        // the context that was current when the last event was made

CUresult GetCurrent(CUcontext* context) {
  *context = reinterpret_cast<CUcontext>(current.load());
  return CUDA_SUCCESS;
}
CUresult CreateStream(CUstream* stream, unsigned) {
  *stream = reinterpret_cast<CUstream>(uint64_t{0x100} + static_cast<uint64_t>(++streams));
  return CUDA_SUCCESS;
}
CUresult DestroyStream(CUstream) { return --streams, CUDA_SUCCESS; }
CUresult CreateEvent(CUevent* event, unsigned) {
  made_in = pushed != 0 ? pushed : current.load();
  if (events.load() == refused_event.load()) return CUDA_ERROR_OUT_OF_MEMORY;
  *event = reinterpret_cast<CUevent>(uint64_t{0x1000} + static_cast<uint64_t>(++events));
  return CUDA_SUCCESS;
}
CUresult DestroyEvent(CUevent) { return --events, CUDA_SUCCESS; }
CUresult Record(CUevent, CUstream) { return CUDA_SUCCESS; }
CUresult Query(CUevent) { return is_done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY; }
CUresult Elapsed(float* ms, CUevent, CUevent) { return *ms = 0, CUDA_SUCCESS; }
CUresult Exchange(CUstreamCaptureMode*) { return CUDA_SUCCESS; }
CUresult Push(CUcontext context) { return pushed = reinterpret_cast<uint64_t>(context), CUDA_SUCCESS; }
CUresult Pop(CUcontext*) { return pushed = 0, CUDA_SUCCESS; }

class DeviceTiming : public testing::Test {
 protected:
  DeviceTiming() {
    SetCall(Call::k_cuCtxGetCurrent, &GetCurrent);
    SetCall(Call::k_cuCtxPushCurrent_v2, &Push);
    SetCall(Call::k_cuCtxPopCurrent_v2, &Pop);
    SetCall(Call::k_cuStreamCreate, &CreateStream);
    SetCall(Call::k_cuStreamDestroy_v2, &DestroyStream);
    SetCall(Call::k_cuEventCreate, &CreateEvent);
    SetCall(Call::k_cuEventDestroy_v2, &DestroyEvent);
    SetCall(Call::k_cuEventRecord, &Record);
    SetCall(Call::k_cuEventQuery, &Query);
    SetCall(Call::k_cuEventElapsedTime, &Elapsed);
    SetCall(Call::k_cuThreadExchangeStreamCaptureMode, &Exchange);
    timing_mode.store(TimingMode::kEvents);
    is_done = true;
    refused_event = -1;
    current = current + 0x1000;  // another context in each test
  }

  static CUcontext Context() { return reinterpret_cast<CUcontext>(current.load()); }

  /// A launch in the current context. Returns its pool; null: it is not timed.
  static EventPool* Launch() {
    const TimedLaunch launch = BeginTimed(current, nullptr, false);
    if (!EndTimed(launch, nullptr, false, CUDA_SUCCESS)) return nullptr;
    const uint64_t ticket = 1;
    SubmitTimed(launch, &ticket);
    return launch.pool;
  }
};

TEST_F(DeviceTiming, PairsThatWereGivenUpAreUsedAgain) {
  EventPool* const pool = EventPool::Make(current, false);
  ASSERT_NE(pool, nullptr);
  is_done = false;
  for (int round = 0; round < 3; ++round) {
    std::vector<EventPair*> pairs;
    while (EventPair* const pair = pool->Take()) pairs.push_back(pair);
    EXPECT_EQ(pairs.size(), EventPool::kPairs) << round;
    for (EventPair* const pair : pairs) pool->Submit(pair, 1);
    EXPECT_EQ(pool->Harvest(/*give_up=*/true), 0u);
  }
  pool->Destroy();
}

TEST_F(DeviceTiming, AContextHasOnePoolWhetherOrNotItMayEnd) {
  EventPool* const pool = Launch();
  ASSERT_NE(pool, nullptr);
  FlushTimingOf(Context());
  const int before = events;
  EXPECT_EQ(Launch(), nullptr) << "while it may end";
  EXPECT_EQ(events, before);
  ResumeTimingOf(Context());
  EXPECT_EQ(Launch(), pool);
  EXPECT_EQ(events, before);
}

TEST_F(DeviceTiming, AContextThatGetsTheHandleOfOneThatEndedHasItsOwn) {
  EventPool* const pool = Launch();
  ASSERT_NE(pool, nullptr);
  FlushTimingOf(Context());
  ForgetTimingOf(Context());
  EventPool* const next = Launch();
  EXPECT_NE(next, nullptr);
  EXPECT_NE(next, pool);
  FlushTimingOf(Context());
  ResumeTimingOf(Context());
  EXPECT_EQ(Launch(), next);
  EndTimingOf(Context());
  ResumeTimingOf(Context());  // too late
  EXPECT_NE(Launch(), next);
}

TEST_F(DeviceTiming, APoolIsMadeInTheContextOfTheStream) {
  const uint64_t other = current + 0x800;
  ASSERT_NE(BeginTimed(other, nullptr, false).pair, nullptr);
  EXPECT_EQ(made_in, other);
  EXPECT_EQ(pushed, 0u);
}

TEST_F(DeviceTiming, APoolThatCannotBeMadeLeavesNothingBehind) {
  const int events_before = events, streams_before = streams;
  for (const int made : {0, 1, 2, 3}) {
    refused_event = events_before + made;
    EXPECT_EQ(EventPool::Make(current, false), nullptr) << made;
    EXPECT_EQ(events, events_before) << made;
    EXPECT_EQ(streams, streams_before) << made;
  }
}

}  // namespace
}  // namespace cupola::intercept
