// What preemption keeps of a context is that of the launch's stream, whichever context is current, and serves one context
// after the other; the board of each GPU is a fake, which says what it was asked for. And how much is in the streams where
// several threads wait for room and say that there is.
#include "intercept/launch/launch_context.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "intercept/launch/gpu_board.h"
#include "intercept/launch/resident.h"
#include "intercept/process/mutex_lock.h"
#include "tests/unit/intercept/own_calls.h"

namespace cupola::intercept {

namespace {

std::vector<CUcontext> stack;      // current contexts of the thread, the innermost last
std::vector<CUdevice> asked;       // GPUs whose board was asked for
bool refuses_to_push = false;
constexpr CUdevice kWithBoard = 7;  // the others have none
alignas(64) char board_of_it[64];   // nobody looks into it

CUcontext ContextOn(CUdevice device) { return reinterpret_cast<CUcontext>(0x1000 + static_cast<uintptr_t>(device)); }

CUresult GetCurrent(CUcontext* context) {
  *context = stack.empty() ? nullptr : stack.back();
  return CUDA_SUCCESS;
}
CUresult Push(CUcontext context) {
  if (refuses_to_push) return CUDA_ERROR_INVALID_CONTEXT;
  stack.push_back(context);
  return CUDA_SUCCESS;
}
CUresult Pop(CUcontext* context) {
  *context = stack.back();
  stack.pop_back();
  return CUDA_SUCCESS;
}
CUresult GetDevice(CUdevice* device) {
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *device = static_cast<CUdevice>(reinterpret_cast<uintptr_t>(stack.back()) - 0x1000);
  return CUDA_SUCCESS;
}

CUresult Priorities(int* least, int* greatest) { return *least = 0, *greatest = -5, CUDA_SUCCESS; }

}  // namespace

GpuBoard* GpuBoard::Of(CUdevice device) noexcept {
  asked.push_back(device);
  return device == kWithBoard ? reinterpret_cast<GpuBoard*>(board_of_it) : nullptr;
}
void GpuBoard::LoseControl(const char*) noexcept {}
void GpuBoard::SetAbility(sched::SlotCapability, bool) noexcept {}
void GpuBoard::EndNotNow() noexcept {}
void* GpuBoard::MapAgain() const noexcept { return nullptr; }

namespace {

class LaunchContextTest : public testing::Test {
 protected:
  void SetUp() override {
    SetCall(Call::k_cuCtxGetCurrent, &GetCurrent);
    SetCall(Call::k_cuCtxPushCurrent_v2, &Push);
    SetCall(Call::k_cuCtxPopCurrent_v2, &Pop);
    SetCall(Call::k_cuCtxGetDevice, &GetDevice);
    SetCall(Call::k_cuCtxGetStreamPriorityRange, &Priorities);
    resident.guarded.start_agent = [](GpuBoard*) noexcept {};
    stack = {ContextOn(0)};
    asked.clear();
    refuses_to_push = false;
  }

  /// What preempt::PauseContextState leaves of a context that was in state `was`.
  static void Pause(LaunchContext& context, LaunchContext::State was = LaunchContext::State::kReady) {
    const MutexLock lock(contexts_mutex);
    context.is_paused = true;
    context.paused = was;
    context.state.store(LaunchContext::State::kDead);
  }
};

TEST_F(LaunchContextTest, MayBePausedWhileItsSlotsAreMade) {
  LaunchContext* const context = ContextFor(ContextOn(kWithBoard));
  ASSERT_NE(context, nullptr);
  Pause(*context, LaunchContext::State::kBoard);
  LeaveBoardState(*context, LaunchContext::State::kReady);
  EXPECT_EQ(context->state.load(), LaunchContext::State::kDead);
  ResumeContextState(ContextOn(kWithBoard));
  EXPECT_EQ(context->state.load(), LaunchContext::State::kReady);
  FreeContextState(EndContextState(ContextOn(kWithBoard)));
}

TEST_F(LaunchContextTest, OneThatWasGivenUpStaysSo) {
  LaunchContext* const context = ContextFor(ContextOn(kWithBoard));
  ASSERT_NE(context, nullptr);
  context->state.store(LaunchContext::State::kDead);
  LeaveBoardState(*context, LaunchContext::State::kReady);
  EXPECT_EQ(context->state.load(), LaunchContext::State::kDead);
  FreeContextState(EndContextState(ContextOn(kWithBoard)));
}

TEST_F(LaunchContextTest, GoesOnAfterACallThatMightHaveEndedIt) {
  LaunchContext* const context = ContextFor(ContextOn(kWithBoard));
  ASSERT_NE(context, nullptr);
  Pause(*context);
  ResumeContextState(ContextOn(kWithBoard));
  EXPECT_EQ(context->state.load(), LaunchContext::State::kReady);
  Pause(*context);
  FreeContextState(EndContextState(ContextOn(kWithBoard)));
}

// A thread begins to release a primary context that Cupola does not know yet, another one makes its first launch, and then
// the first finds that the context goes on. What the object was for the context before is of no meaning.
TEST_F(LaunchContextTest, OneThatWasNotPausedIsNotResumed) {
  LaunchContext* const before = ContextFor(ContextOn(kWithBoard));
  ASSERT_NE(before, nullptr);
  before->controls = 0x1000;
  Pause(*before);
  FreeContextState(EndContextState(ContextOn(kWithBoard)));
  LaunchContext* const now = ContextFor(ContextOn(kWithBoard));
  ASSERT_EQ(now, before);
  EXPECT_EQ(now->controls, 0u);
  ResumeContextState(ContextOn(kWithBoard));
  EXPECT_EQ(now->state.load(), LaunchContext::State::kBoard);
  FreeContextState(EndContextState(ContextOn(kWithBoard)));
}

TEST_F(LaunchContextTest, TheBoardIsThatOfTheStreamsGpu) {
  (void)ContextFor(ContextOn(0));
  EXPECT_EQ(asked, std::vector<CUdevice>{0});
  (void)ContextFor(ContextOn(1));
  EXPECT_EQ(asked, (std::vector<CUdevice>{0, 1}));
  EXPECT_EQ(stack, std::vector<CUcontext>{ContextOn(0)});
  refuses_to_push = true;
  EXPECT_EQ(ContextFor(ContextOn(2)), nullptr);
  EXPECT_EQ(asked, (std::vector<CUdevice>{0, 1}));
}

TEST(QueuedWork, ForgetsWhatIsGone) {
  QueuedWork work;
  EXPECT_EQ(work.left(), 0u);
  work.Add(2);
  work.Add(1);
  EXPECT_EQ(work.left(), 3u);
  work.MarkGone(work.total());
  EXPECT_EQ(work.left(), 0u);
}

TEST(QueuedWork, KeepsWhatCameMeanwhile) {
  QueuedWork work;
  work.Add(700);
  const uint64_t seen = work.total();
  work.Add(5);
  work.MarkGone(seen);
  EXPECT_EQ(work.left(), 5u);
}

// Two wait for the same; the first one goes on before the second says so.
TEST(QueuedWork, TheLaterOfTwoForgetsNothingNewer) {
  QueuedWork work;
  work.Add(700);
  const uint64_t first = work.total(), second = work.total();
  work.MarkGone(first);
  work.Add(690);
  work.MarkGone(second);
  EXPECT_EQ(work.left(), 690u);
}

TEST(QueuedWork, AnOlderWordChangesNothing) {
  QueuedWork work;
  work.Add(10);
  const uint64_t old = work.total();
  work.Add(10);
  work.MarkGone(work.total());
  work.MarkGone(old);
  EXPECT_EQ(work.left(), 0u);
}

// Nothing that this thread has put since its own word may be missing, whatever others say.
TEST(QueuedWork, NothingIsMissingAmongThreads) {
  constexpr int kThreads = 4, kRounds = 20'000, kEntries = 7;
  QueuedWork work;
  std::atomic<int> missing{0};
  std::vector<std::thread> threads;
  std::atomic<uint64_t> held{0};  // the word that all have seen pass
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < kRounds; ++round) {
        if (t != 0) {
          work.MarkGone(held.load());
          continue;
        }
        held.store(work.total());
        for (int i = 0; i < kEntries; ++i) work.Add(1);
        if (work.left() < kEntries) ++missing;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(missing.load(), 0);
}

}  // namespace
}  // namespace cupola::intercept
