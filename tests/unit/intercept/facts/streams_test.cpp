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
        OnCaptureBegins(stream, true);
        OnCaptureBegun(stream, CUDA_SUCCESS);
        EXPECT_EQ(open_captures.load(), 1u);
      }).join();
      EXPECT_EQ(open_captures.load(), 0u);
    }
  }
}

}  // namespace
}  // namespace cupola::intercept
