// What preemption keeps of a context is that of the launch's stream, whichever context is current; the board of each GPU
// is a fake, which says what it was asked for. And how much is in the streams where several threads wait for room and
// say that there is.
#include "intercept/launch/launch_context.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "intercept/launch/gpu_board.h"
#include "tests/unit/intercept/own_calls.h"

namespace cupola::intercept {

namespace {

std::vector<CUcontext> stack;      // current contexts of the thread, the innermost last
std::vector<CUdevice> asked;       // GPUs whose board was asked for
bool refuses_to_push = false;

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

}  // namespace

GpuBoard* GpuBoard::Of(CUdevice device) noexcept {
  asked.push_back(device);
  return nullptr;
}
void GpuBoard::LoseControl(const char*) noexcept {}
void GpuBoard::SetAbility(sched::SlotCapability, bool) noexcept {}
void GpuBoard::EndNotNow() noexcept {}
void* GpuBoard::MapAgain() const noexcept { return nullptr; }

namespace {

TEST(LaunchContext, TheBoardIsThatOfTheStreamsGpu) {
  SetCall(Call::k_cuCtxGetCurrent, &GetCurrent);
  SetCall(Call::k_cuCtxPushCurrent_v2, &Push);
  SetCall(Call::k_cuCtxPopCurrent_v2, &Pop);
  SetCall(Call::k_cuCtxGetDevice, &GetDevice);
  stack = {ContextOn(0)};
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
