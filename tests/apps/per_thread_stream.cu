// Built with --default-stream per-thread: every host thread's <<<>>> goes to a stream of its own.
// Each thread also uses the legacy default stream by name.
#include <thread>
#include <vector>

#include "support/check_runtime.h"
#include "support/checksum.h"

__global__ void Step(unsigned* data, unsigned seed, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] = data[i] * 1664525u + seed;
}

void Work(unsigned thread, int n, std::vector<unsigned>* result) {
  const size_t bytes = n * sizeof(unsigned);
  unsigned *data, *pinned;
  CHECK(cudaMalloc(&data, bytes));
  CHECK(cudaMallocHost(&pinned, bytes));
  for (int i = 0; i < n; ++i) pinned[i] = Mix(i + thread * n);
  CHECK(cudaMemcpyAsync(data, pinned, bytes, cudaMemcpyHostToDevice, cudaStreamPerThread));
  for (unsigned step = 0; step < 6; ++step)
    Step<<<(n + 127) / 128, 128>>>(data, thread + step, n);
  CHECK(cudaGetLastError());
  CHECK(cudaStreamSynchronize(cudaStreamPerThread));
  Step<<<(n + 127) / 128, 128, 0, cudaStreamLegacy>>>(data, thread + 6, n);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpyAsync(pinned, data, bytes, cudaMemcpyDeviceToHost, cudaStreamLegacy));
  CHECK(cudaStreamSynchronize(cudaStreamLegacy));
  result->assign(pinned, pinned + n);
  CHECK(cudaFree(data));
  CHECK(cudaFreeHost(pinned));
}

int main(int argc, char** argv) {
  const int n = SizeArgument(argc, argv, 4000);
  constexpr unsigned kThreads = 3;
  std::vector<unsigned> results[kThreads];
  std::vector<std::thread> threads;
  for (unsigned thread = 0; thread < kThreads; ++thread)
    threads.emplace_back(Work, thread, n, &results[thread]);
  for (std::thread& thread : threads) thread.join();

  Checksum sum;
  bool correct = true;
  for (unsigned thread = 0; thread < kThreads; ++thread) {
    sum.Add(results[thread]);
    for (int i = 0; i < n; ++i) {
      unsigned value = Mix(i + thread * n);
      for (unsigned step = 0; step < 7; ++step) value = value * 1664525u + thread + step;
      correct = correct && results[thread][i] == value;
    }
  }
  std::printf("%u threads, last word %08x\n", kThreads, results[kThreads - 1].back());
  return Report("per_thread_stream", correct, sum);
}
