// A process with a short kernel, one block of 20 us for every SM, that it needs every few
// milliseconds: launch, wait for it, remember how long that took.
//
//   preemption_priority [--samples 2000] [--least-us 3000] [--most-us 5000] [--seed 1] [--blocks N]
//                       [--rounds N] [--priority-stream] [--word PATH] [--seconds S] [--no-times]
//
// With --word it asks preemption_holder for the GPU: the word is 1 from before the launch until
// after the wait.
// Prints one line of JSON: when each launch began and its turnaround, in nanoseconds, and a
// checksum.
#include "work.h"

namespace {

void SleepUntilNs(long ns) {
  const timespec time{ns / 1'000'000'000, ns % 1'000'000'000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr) != 0) {
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments(argc, argv);
  const long samples = static_cast<long>(arguments.Number("--samples", 2000));
  const double least_us = arguments.Number("--least-us", 3000);
  const double most_us = arguments.Number("--most-us", 5000);
  const auto seed = static_cast<uint32_t>(arguments.Number("--seed", 1));
  const int rounds = static_cast<int>(arguments.Number("--rounds", 2000));
  const double seconds = arguments.Number("--seconds", 60);
  volatile unsigned* const word = MapWord(arguments.Text("--word"));
  int sms = 0;
  CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
  const int blocks = static_cast<int>(arguments.Number("--blocks", sms));

  float* out = nullptr;
  const long count = static_cast<long>(blocks) * kThreads;
  CHECK(cudaMalloc(&out, count * sizeof(float)));
  const cudaStream_t stream = MakeStream(arguments.Has("--priority-stream"));
  const auto launch = [&] {
    *word = 1;
    Work<<<blocks, kThreads, 0, stream>>>(out, rounds);
    CHECK(cudaGetLastError());
    CHECK(cudaStreamSynchronize(stream));
    *word = 0;
  };
  for (int i = 0; i < 20; ++i) launch();

  std::vector<long> start_ns, turnaround_ns;
  const long deadline = NowNs() + static_cast<long>(seconds * 1e9);
  for (long i = 0; i < samples && NowNs() < deadline; ++i) {
    const double share = Mix(seed * 0x9e3779b9u + static_cast<uint32_t>(i)) / 4294967296.0;
    SleepUntilNs(NowNs() + static_cast<long>((least_us + (most_us - least_us) * share) * 1000));
    const long before = NowNs();
    launch();
    turnaround_ns.push_back(NowNs() - before);
    start_ns.push_back(before);
  }
  std::printf("{\"checksum\": \"%016llx\"", ChecksumOf(out, count));
  if (!arguments.Has("--no-times")) {
    PrintNumbers("start_ns", start_ns);
    PrintNumbers("turnaround_ns", turnaround_ns);
  }
  std::printf("}\n");
  return 0;
}
