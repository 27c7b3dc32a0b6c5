// Launches that differ in the size of an allocation alone, whose address is that of the one before:
// four times a small one and a large one, of cudaMalloc and then of cudaMallocAsync.
#include "tests/preempt/app_parts.h"

namespace {

constexpr size_t kSmall = 1 << 20, kLarge = 4 << 20;

void LaunchOn(uint32_t* runs, void* value, cudaStream_t stream) {
  Fold<<<64, kThreads, 0, stream>>>(runs, static_cast<uint32_t*>(value) + 100, 1, 10);
  CHECK(cudaGetLastError());
  CHECK(cudaStreamSynchronize(stream));
}

}  // namespace

int main() {
  const cudaStream_t stream = MakeStream("non-blocking");
  uint32_t *runs, ran = 0;
  CHECK(cudaMalloc(&runs, 4 * kBlocks));
  CHECK(cudaMemset(runs, 0, 4 * kBlocks));
  CHECK(cudaDeviceSynchronize());
  LaunchOn(runs, runs, stream);  // what is made once is made now
  void *value, *first = nullptr;
  int moved = 0;
  const auto launch = [&] {
    if (first == nullptr) first = value;
    if (value != first) ++moved;
    LaunchOn(runs, value, stream);
  };
  for (int round = 0; round < 4; ++round) {
    for (const size_t bytes : {kSmall, kLarge}) {
      CHECK(cudaMalloc(&value, bytes));
      launch();
      CHECK(cudaFree(value));
    }
  }
  for (int round = 0; round < 4; ++round) {
    for (const size_t bytes : {kSmall, kLarge}) {
      CHECK(cudaMallocAsync(&value, bytes, stream));
      launch();
      CHECK(cudaFreeAsync(value, stream));
      CHECK(cudaStreamSynchronize(stream));
    }
  }
  CHECK(cudaMemcpy(&ran, runs, 4, cudaMemcpyDeviceToHost));
  return ran == 17 && moved == 0 ? 0 : 1;
}
