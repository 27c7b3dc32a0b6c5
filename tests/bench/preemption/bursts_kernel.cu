// A process that has a burst of narrow kernels every few milliseconds, on several streams: launches
// them, waits for all, remembers how long that took.
//
//   preemption_bursts [--launches 256] [--streams 8] [--rounds 100] [--period-us 2000]
//                     [--seconds 2] [--behind 200] [--no-times]
//
// --behind: bursts that follow those that are measured. Prints one line of JSON: when the first of
// these began and the last ended (CLOCK_MONOTONIC), how long each took, in nanoseconds, and a
// checksum.
#include "work.h"

namespace {

// Each launch goes on from what the one before it in its stream left.
__global__ void Step(float* values, int rounds) {
  float a = values[threadIdx.x];
  for (int i = 0; i < rounds; ++i) a = a * 0.9999f + 0.5f;
  values[threadIdx.x] = a;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments(argc, argv);
  const int launches = static_cast<int>(arguments.Number("--launches", 256));
  const auto streams = static_cast<size_t>(arguments.Number("--streams", 8));
  const int rounds = static_cast<int>(arguments.Number("--rounds", 100));
  const long period_ns = static_cast<long>(arguments.Number("--period-us", 2000) * 1000);
  const double seconds = arguments.Number("--seconds", 2);
  const int behind = static_cast<int>(arguments.Number("--behind", 200));
  constexpr int kNarrow = 128;

  float* values = nullptr;
  const long count = static_cast<long>(streams) * kNarrow;
  CHECK(cudaMalloc(&values, count * sizeof(float)));
  CHECK(cudaMemset(values, 0, count * sizeof(float)));
  CHECK(cudaDeviceSynchronize());  // the streams do not wait for it
  std::vector<cudaStream_t> all(streams);
  for (cudaStream_t& stream : all) stream = MakeStream(false);
  const auto burst = [&] {
    for (int i = 0; i < launches; ++i) {
      const size_t which = static_cast<size_t>(i) % streams;
      Step<<<1, kNarrow, 0, all[which]>>>(values + which * kNarrow, rounds);
    }
    CHECK(cudaGetLastError());
    for (cudaStream_t stream : all) CHECK(cudaStreamSynchronize(stream));
  };
  for (int i = 0; i < 20; ++i) burst();

  std::vector<long> burst_ns;
  const long start = NowNs(), stop = start + static_cast<long>(seconds * 1e9);
  for (long next = start; next < stop; next += period_ns) {
    while (NowNs() < next) {
    }
    const long before = NowNs();
    burst();
    burst_ns.push_back(NowNs() - before);
    if (NowNs() > next + period_ns) next = NowNs() - period_ns;  // late: no bursts are made up for
  }
  const long end = NowNs();
  // As many on every run: the values settle, and later bursts change nothing of them.
  for (int i = 0; i < behind; ++i) burst();
  std::printf("{\"checksum\": \"%016llx\"", ChecksumOf(values, count));
  if (!arguments.Has("--no-times")) {
    std::printf(", \"start_ns\": %ld, \"end_ns\": %ld", start, end);
    PrintNumbers("burst_ns", burst_ns);
  }
  std::printf("}\n");
  return 0;
}
