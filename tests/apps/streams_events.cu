// Work that is ordered only by streams and events: two blocking streams, one that does not block
// with the legacy default stream, copies from pinned memory, a host function, priorities.
#include <vector>

#include "support/check_runtime.h"
#include "support/checksum.h"

__global__ void Scale(unsigned* data, unsigned factor, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] = data[i] * factor + 1;
}

__global__ void Combine(const unsigned* a, const unsigned* b, unsigned* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] ^ (b[i] + (out[i] << 1));
}

struct HostNote {
  const unsigned* source;
  unsigned seen;
};

void TakeNote(void* argument) {
  auto* note = static_cast<HostNote*>(argument);
  note->seen = note->source[0];
}

int main(int argc, char** argv) {
  const int n = SizeArgument(argc, argv, 8192);
  const size_t bytes = n * sizeof(unsigned);
  const int blocks = (n + 127) / 128;
  constexpr int kRounds = 5;
  unsigned *host_a, *host_b, *host_out, *a, *b, *out;
  CHECK(cudaMallocHost(&host_a, bytes));
  CHECK(cudaMallocHost(&host_b, bytes));
  CHECK(cudaHostAlloc(&host_out, bytes, cudaHostAllocDefault));
  CHECK(cudaMalloc(&a, bytes));
  CHECK(cudaMalloc(&b, bytes));
  CHECK(cudaMalloc(&out, bytes));
  CHECK(cudaMemset(out, 0, bytes));

  int lowest = 0, highest = 0;
  CHECK(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
  cudaStream_t left, right, side;
  CHECK(cudaStreamCreate(&left));
  CHECK(cudaStreamCreate(&right));
  CHECK(cudaStreamCreateWithPriority(&side, cudaStreamNonBlocking, highest));
  cudaEvent_t begin, end, left_done, side_done, default_done;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  for (cudaEvent_t* event : {&left_done, &side_done, &default_done})
    CHECK(cudaEventCreateWithFlags(event, cudaEventDisableTiming));

  std::vector<unsigned> expected(n, 0), expected_a(n), expected_b(n);
  HostNote note{host_a, 0};
  bool correct = true;
  CHECK(cudaEventRecord(begin, left));
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < n; ++i) {
      host_a[i] = Mix(i + round * n);
      host_b[i] = Mix(i ^ 0x5555) + round;
      expected_a[i] = host_a[i] * 3 + 1;
      expected_b[i] = (host_b[i] * 5 + 1) * 7 + 1;
      expected[i] = (expected_a[i] ^ (expected_b[i] + (expected[i] << 1))) * 11 + 1;
    }
    // left: copy, scale; right: copy, scale, wait for left, combine; the legacy default stream
    // waits for both because they are blocking; side joins by event only.
    CHECK(cudaMemcpyAsync(a, host_a, bytes, cudaMemcpyHostToDevice, left));
    CHECK(cudaLaunchHostFunc(left, TakeNote, &note));
    Scale<<<blocks, 128, 0, left>>>(a, 3, n);
    CHECK(cudaEventRecord(left_done, left));
    CHECK(cudaMemcpyAsync(b, host_b, bytes, cudaMemcpyHostToDevice, right));
    Scale<<<blocks, 128, 0, right>>>(b, 5, n);
    Scale<<<blocks, 128, 0, right>>>(b, 7, n);
    CHECK(cudaStreamWaitEvent(right, left_done, 0));
    Combine<<<blocks, 128, 0, right>>>(a, b, out, n);
    Scale<<<blocks, 128>>>(out, 11, n);
    CHECK(cudaEventRecord(default_done, nullptr));
    CHECK(cudaStreamWaitEvent(side, default_done, 0));
    CHECK(cudaMemcpyAsync(host_out, out, bytes, cudaMemcpyDeviceToHost, side));
    CHECK(cudaEventRecord(side_done, side));
    CHECK(cudaEventSynchronize(side_done));
    CHECK(cudaGetLastError());
    CHECK(cudaEventQuery(side_done));
    correct = correct && note.seen == host_a[0];
    for (int i = 0; i < n; ++i) correct = correct && host_out[i] == expected[i];
  }
  CHECK(cudaEventRecord(end, left));
  CHECK(cudaStreamSynchronize(left));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaStreamQuery(right));
  float elapsed_ms = -1.0f;
  CHECK(cudaEventElapsedTime(&elapsed_ms, begin, end));
  correct = correct && elapsed_ms >= 0.0f;

  Checksum sum;
  sum.Add(host_out, bytes);
  std::printf("%d rounds over 4 streams, last word %08x\n", kRounds, host_out[n - 1]);
  for (cudaEvent_t event : {begin, end, left_done, side_done, default_done})
    CHECK(cudaEventDestroy(event));
  for (cudaStream_t stream : {left, right, side}) CHECK(cudaStreamDestroy(stream));
  for (unsigned* pointer : {host_a, host_b, host_out}) CHECK(cudaFreeHost(pointer));
  for (unsigned* pointer : {a, b, out}) CHECK(cudaFree(pointer));
  return Report("streams_events", correct, sum);
}
