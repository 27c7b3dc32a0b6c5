// What is learnt of the times of plain launches. The driver's events are the test's: the device reaches them at once, and
// between two of them lies the time that the test says.
#include "intercept/launch/plain_times.h"

#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "intercept/record/recorder.h"
#include "tests/unit/intercept/own_calls.h"

namespace cupola::intercept {

// The recorder, which is not part of the test: nothing is recorded.
std::atomic<RecordingState> recording_state{RecordingState::kOff};
std::atomic<void (*)() noexcept> start_process{nullptr};
RingWriter ring_writer;
bool PublishRecord(RingWriter&, const LaunchRecord&, uint64_t*) noexcept { return true; }

namespace {

std::atomic<uint64_t> recorded{0};   // events that were recorded
std::atomic<float> length_ms{0};     // between two events
std::atomic<uint64_t> asked{0};      // how often that was asked

CUresult GetCurrent(CUcontext* context) { return *context = reinterpret_cast<CUcontext>(0x1000), CUDA_SUCCESS; }
CUresult CreateEvent(CUevent* event, unsigned) {
  static std::atomic<uint64_t> made{0};
  return *event = reinterpret_cast<CUevent>(0x10000 + ++made), CUDA_SUCCESS;
}
CUresult Record(CUevent, CUstream) { return ++recorded, CUDA_SUCCESS; }
CUresult Query(CUevent) { return CUDA_SUCCESS; }
CUresult Elapsed(float* ms, CUevent, CUevent) { return *ms = length_ms, ++asked, CUDA_SUCCESS; }
CUresult Exchange(CUstreamCaptureMode*) { return CUDA_SUCCESS; }
CUresult Push(CUcontext) { return CUDA_SUCCESS; }
CUresult Pop(CUcontext*) { return CUDA_SUCCESS; }

class PlainTimes : public testing::Test {
 protected:
  PlainTimes() {
    SetCall(Call::k_cuCtxGetCurrent, &GetCurrent);
    SetCall(Call::k_cuCtxPushCurrent_v2, &Push);
    SetCall(Call::k_cuCtxPopCurrent_v2, &Pop);
    SetCall(Call::k_cuEventCreate, &CreateEvent);
    SetCall(Call::k_cuEventRecord, &Record);
    SetCall(Call::k_cuEventQuery, &Query);
    SetCall(Call::k_cuEventElapsedTime, &Elapsed);
    SetCall(Call::k_cuThreadExchangeStreamCaptureMode, &Exchange);
    static uint64_t function = 0x5000;
    launch.function = reinterpret_cast<const void*>(function += 0x100);  // another kernel in each test
    launch.grid[0] = launch.grid[1] = launch.grid[2] = 1;
  }

  /// Launches, and waits until the launch's time is taken in if it is measured. Returns what was expected of it.
  uint64_t Go(double us, CUresult result = CUDA_SUCCESS) {
    length_ms = static_cast<float>(us / 1000);
    const uint64_t before = recorded, asked_before = asked;
    PlainTime time(launch, {0x1000, 1, 0});
    time.Begin();
    time.End(result);
    was_measured = recorded != before;
    while (was_measured && result == CUDA_SUCCESS && asked == asked_before) Rest();
    if (was_measured) Rest();
    return time.ns();
  }

  static void Rest() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

  Launch launch;
  bool was_measured = false;
};

TEST_F(PlainTimes, TheSecondToFourthLaunchAreMeasuredAndTheShortestCounts) {
  EXPECT_EQ(Go(500), 0U);
  EXPECT_FALSE(was_measured) << "the driver may load the kernel";
  for (double us : {130.0, 100.0, 150.0}) {
    (void)Go(us);
    EXPECT_TRUE(was_measured);
  }
  EXPECT_NEAR(static_cast<double>(Go(100)), 100e3, 10);
  EXPECT_FALSE(was_measured);
}

TEST_F(PlainTimes, OneOfManyIsMeasuredLaterAndTellsHowFarThePredictionIsOff) {
  for (int i = 0; i < 128; ++i) (void)Go(100);
  (void)Go(125);
  EXPECT_TRUE(was_measured);
  const PlainTimesQuality quality = JudgePlainTimes(20'000);
  EXPECT_EQ(quality.shapes, 1U);
  EXPECT_NEAR(quality.mean_error, 0.2, 0.001);
  EXPECT_NEAR(static_cast<double>(Go(100)), 103.125e3, 10) << "an eighth of the newest";
  EXPECT_EQ(JudgePlainTimes(200'000).shapes, 0U);
  ForgetPlainTimes();  // as when the program's modules are unloaded, which is before it is said how good they were
  EXPECT_EQ(JudgePlainTimes(20'000).shapes, quality.shapes);
}

TEST_F(PlainTimes, OtherShapesAreOthers) {
  for (int i = 0; i < 5; ++i) (void)Go(100);
  launch.grid[0] = 2;
  EXPECT_EQ(Go(100), 0U);
  launch.grid[0] = 1;
  EXPECT_NE(Go(100), 0U);
  launch.shared_bytes = 64;
  EXPECT_EQ(Go(100), 0U);
  launch.shared_bytes = 0;
  launch.graph = reinterpret_cast<CUgraphExec>(0x77);
  EXPECT_EQ(Go(100), 0U);
}

TEST_F(PlainTimes, ALaunchThatFailedTellsNothing) {
  (void)Go(100);
  for (int i = 0; i < 3; ++i) (void)Go(100, CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Go(100), 0U);
}

TEST_F(PlainTimes, AreForgottenWhereHandlesMayMeanOthers) {
  for (int i = 0; i < 5; ++i) (void)Go(100);
  ASSERT_NE(Go(100), 0U);
  ForgetPlainTimes();
  EXPECT_EQ(Go(100), 0U);
}

}  // namespace
}  // namespace cupola::intercept
