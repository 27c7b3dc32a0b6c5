// Streams, events, host functions, threads.
#include <atomic>
#include <cstdint>
#include <future>
#include <thread>
#include <vector>

#include "tests/unit/sim/cudart/fixture.h"

namespace cupola::cudart_test {
namespace {

using StreamsTest = CudartTest;

/// A host function that holds its stream until released.
struct Gate {
  std::promise<void> opened;
  std::shared_future<void> is_open = opened.get_future().share();
  static void Wait(void* self) { static_cast<Gate*>(self)->is_open.wait(); }
};

TEST_F(StreamsTest, NotReadyIsAnAnswerNotAnError) {
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
  Gate gate;
  ASSERT_EQ(cudaLaunchHostFunc(stream, Gate::Wait, &gate), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  gate.opened.set_value();
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST_F(StreamsTest, EventsOrderStreams) {
  cudaStream_t first = nullptr, second = nullptr;
  cudaEvent_t start = nullptr, event = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&start), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
  uint32_t* words = nullptr;
  ASSERT_EQ(cudaMallocHost(reinterpret_cast<void**>(&words), 64), cudaSuccess);
  words[0] = words[1] = 0;
  Gate gate;
  ASSERT_EQ(cudaEventRecord(start, first), cudaSuccess);
  ASSERT_EQ(cudaLaunchHostFunc(first, Gate::Wait, &gate), cudaSuccess);
  ASSERT_EQ(Store(words, 6, first), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, first), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(second, event, 0), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(words + 1, words, 4, cudaMemcpyDefault, second), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(second), cudaErrorNotReady);
  gate.opened.set_value();
  ASSERT_EQ(cudaStreamSynchronize(second), cudaSuccess);
  EXPECT_EQ(words[1], 6u);
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, event), cudaSuccess);
  EXPECT_GE(milliseconds, 0);
}

TEST_F(StreamsTest, CallbacksGetTheirStreamAndData) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  struct Seen {
    cudaStream_t stream = nullptr;
    cudaError_t status = cudaErrorUnknown;
  } seen;
  ASSERT_EQ(cudaStreamAddCallback(
                stream,
                [](cudaStream_t from, cudaError_t status, void* data) {
                  *static_cast<Seen*>(data) = {from, status};
                },
                &seen, 0),
            cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(seen.stream, stream);
  EXPECT_EQ(seen.status, cudaSuccess);
}

TEST_F(StreamsTest, ThreadsHaveTheirOwnErrorsAndShareTheDevice) {
  constexpr int kThreads = 4, kRounds = 50;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&wrong, thread] {
      if (cudaSetDevice(40 + thread) != cudaErrorInvalidDevice) ++wrong;
      cudaStream_t stream = nullptr;
      uint32_t* device = nullptr;
      if (cudaStreamCreate(&stream) != cudaSuccess) ++wrong;
      if (cudaMalloc(reinterpret_cast<void**>(&device), 4) != cudaSuccess) ++wrong;
      for (int round = 0; round < kRounds; ++round) {
        const uint32_t value = thread * 1000 + round;
        uint32_t back = 0;
        if (Store(device, value, stream) != cudaSuccess) ++wrong;
        if (cudaMemcpyAsync(&back, device, 4, cudaMemcpyDeviceToHost, stream) != cudaSuccess)
          ++wrong;
        if (cudaStreamSynchronize(stream) != cudaSuccess || back != value) ++wrong;
      }
      if (cudaGetLastError() != cudaErrorInvalidDevice) ++wrong;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

}  // namespace
}  // namespace cupola::cudart_test
