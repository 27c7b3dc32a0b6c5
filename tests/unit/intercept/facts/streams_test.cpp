// What Cupola knows of streams: captures that are open, and how many streams there are, Cupola's own included.
#include <gtest/gtest.h>

#include <thread>

#include "intercept/facts/live_streams.h"
#include "intercept/facts/streams.h"
#include "tests/unit/intercept/own_calls.h"

namespace cupola::intercept {
namespace {

int context_word;

CUresult GetCurrent(CUcontext* context) {
  *context = reinterpret_cast<CUcontext>(&context_word);
  return CUDA_SUCCESS;
}

class StreamFacts : public testing::Test {
 protected:
  StreamFacts() { SetCall(Call::k_cuCtxGetCurrent, &GetCurrent); }
};

// The driver ends a thread's default stream with the thread, and with it the capture.
TEST_F(StreamFacts, ACaptureEndsWithTheThreadWhoseDefaultStreamItCaptures) {
  for (const CUstream stream : {CUstream{nullptr}, CU_STREAM_PER_THREAD}) {
    for (const bool is_used_before : {false, true}) {
      std::thread([&] {
        if (is_used_before) (void)ResolveStream(CU_STREAM_PER_THREAD, false);
        OnCaptureBegins(stream, /*per_thread=*/true);
        OnCaptureBegun(stream, CUDA_SUCCESS);
        EXPECT_EQ(open_captures.load(), 1u);
      }).join();
      EXPECT_EQ(open_captures.load(), 0u);
    }
  }
}

// With 8 queues, 2 of them for others and 1 for the first helper stream, 5 streams fit.
class Queues : public StreamFacts {
 protected:
  Queues() { StartCountingStreams(8); }
  ~Queues() override { ForgetLiveStreamsAfterFork(); }

  // How many streams of the program still get a queue of their own.
  static int Room() {
    int room = 0;
    for (; CountOwnStream(); ++room) {
    }
    for (int i = 0; i < room; ++i) UncountStream();
    return room;
  }
};

// PyTorch makes a pool of streams and uses a few.
TEST_F(Queues, AStreamTakesOneFromItsFirstUseOn) {
  constexpr uintptr_t kFirst = 0x7000, kStreams = 40;
  const auto stream = [](uintptr_t index) { return reinterpret_cast<CUstream>(kFirst + index * 16); };
  for (uintptr_t i = 0; i < kStreams; ++i) OnStreamCreated(stream(i));
  EXPECT_EQ(Room(), 5);
  for (int again = 0; again < 2; ++again) {
    (void)ResolveStream(stream(0), false);
    (void)ResolveStream(stream(1), false);
    EXPECT_EQ(Room(), 3);
  }
  std::thread([&] { (void)ResolveStream(stream(1), false); }).join();
  EXPECT_EQ(Room(), 3);
  OnStreamDestroyed(stream(1));
  OnStreamDestroyed(stream(2));  // was never used
  EXPECT_EQ(Room(), 4);
  for (uintptr_t i = 0; i < kStreams; ++i) OnStreamDestroyed(stream(i));
  EXPECT_EQ(Room(), 5);
}

TEST_F(Queues, AHelperThatWasNotMadeTakesNone) {
  EXPECT_EQ(Room(), 5);
  ASSERT_TRUE(MakeRoomForHelper(2));
  EXPECT_EQ(Room(), 4);
  ASSERT_TRUE(MakeRoomForHelper(3));
  EXPECT_EQ(Room(), 3);
  DropHelper(3);  // the driver has refused it
  EXPECT_EQ(Room(), 4);
}

TEST_F(Queues, HelpersOfTheContextThatHasMostCount) {
  ASSERT_TRUE(MakeRoomForHelper(2));
  ASSERT_TRUE(MakeRoomForHelper(2));  // of another context
  DropHelper(2);
  EXPECT_EQ(Room(), 4);
  DropHelper(2);
  EXPECT_EQ(Room(), 5);
}

TEST_F(Queues, AHelperForWhichThereIsNoRoomTakesNone) {
  for (int i = 0; i < 4; ++i) CountStream();
  EXPECT_FALSE(MakeRoomForHelper(3));
  EXPECT_EQ(Room(), 1);
  EXPECT_TRUE(MakeRoomForHelper(2));
  EXPECT_EQ(Room(), 0);
}

TEST_F(Queues, AForkedChildHasNoHelpers) {
  ASSERT_TRUE(MakeRoomForHelper(2));
  ForgetLiveStreamsAfterFork();
  EXPECT_EQ(Room(), 5);
}

// A stream of the program and a helper may come at once: they never both fit wrongly, and what did not fit is not
// counted afterwards.
TEST_F(Queues, StreamsAndHelpersThatComeAtOnceLeaveNothingBehind) {
  for (int round = 0; round < 2000; ++round) {
    for (int i = 0; i < 4; ++i) CountStream();
    std::thread program([] { CountStream(); });
    const bool has_helper = MakeRoomForHelper(2);
    program.join();
    EXPECT_TRUE(StreamsFitQueues() || has_helper) << round;
    if (has_helper) DropHelper(2);
    EXPECT_EQ(Room(), 0) << round;
    for (int i = 0; i < 5; ++i) UncountStream();
  }
}

}  // namespace
}  // namespace cupola::intercept
