// A batch process: kernels of about 2.9 ms back to back in one stream, launched a few ahead, until
// its standard input ends (or --seconds, or --kernels).
//
//   preemption_batch [--block-us 20] [--blocks N --rounds N] [--depth 4] [--seconds S]
//                    [--kernels N] [--until-input-ends] [--no-times]
//
// Says "ready" once it runs, and at the end one line of JSON: when each kernel was seen to have
// ended (nanoseconds of CLOCK_MONOTONIC), and a checksum of the last kernel's result.
#include "work.h"

int main(int argc, char** argv) {
  const Arguments arguments(argc, argv);
  const double block_us = arguments.Number("--block-us", 20);
  const int blocks = static_cast<int>(arguments.Number("--blocks", 3'000'000 / block_us));
  const int rounds = static_cast<int>(arguments.Number("--rounds", 100 * block_us));
  const size_t depth = static_cast<size_t>(arguments.Number("--depth", 4));
  const long most = static_cast<long>(arguments.Number("--kernels", 1e9));
  const bool until_input_ends = arguments.Has("--until-input-ends");
  const double seconds = arguments.Number("--seconds", 60);

  float* out = nullptr;
  const long count = static_cast<long>(blocks) * kThreads;
  CHECK(cudaMalloc(&out, count * sizeof(float)));
  CHECK(cudaMemset(out, 0xff, count * sizeof(float)));
  CHECK(cudaDeviceSynchronize());  // the stream below does not wait for it
  const cudaStream_t stream = MakeStream(false);
  std::vector<cudaEvent_t> ends(depth);
  for (cudaEvent_t& end : ends) {
    CHECK(cudaEventCreateWithFlags(&end, cudaEventDisableTiming));
  }
  Work<<<blocks, kThreads, 0, stream>>>(out, rounds);
  CHECK(cudaGetLastError());
  CHECK(cudaStreamSynchronize(stream));
  std::printf("ready\n");
  std::fflush(stdout);

  std::vector<long> done_ns;
  const auto await_next = [&] {
    CHECK(cudaEventSynchronize(ends[done_ns.size() % depth]));
    done_ns.push_back(NowNs());
  };
  const long start = NowNs();
  const long stop = start + static_cast<long>(seconds * 1e9);
  long launched = 0;
  for (; launched < most && NowNs() < stop && !(until_input_ends && InputEnded()); ++launched) {
    if (static_cast<size_t>(launched) >= depth) await_next();
    Work<<<blocks, kThreads, 0, stream>>>(out, rounds);
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(ends[launched % depth], stream));
  }
  while (done_ns.size() < static_cast<size_t>(launched)) await_next();
  CHECK(cudaDeviceSynchronize());
  std::printf("{\"checksum\": \"%016llx\"", ChecksumOf(out, count));
  if (!arguments.Has("--no-times")) {
    std::printf(", \"start_ns\": %ld", start);
    PrintNumbers("done_ns", done_ns);
  }
  std::printf("}\n");
  return 0;
}
