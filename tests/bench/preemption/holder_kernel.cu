// A process whose kernel, one thread, holds the GPU until another process asks for it by a word
// that both map, and leaves at once then: what a change of context takes at least, with no work to
// stop and nothing to save. Once the word is 0 again it launches its kernel again.
//
//   preemption_holder [--word PATH] [--kernels N] [--until-input-ends] [--no-times]
//
// Says "ready" as it begins, and at the end one line of JSON: how many kernels it launched, and how
// many of them nobody had asked for 100 ms.
#include "work.h"

namespace {

constexpr unsigned long long kGiveUpNs = 100'000'000;

__global__ void Hold(const volatile unsigned* word, unsigned* given_up) {
  unsigned long long start = 0, now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  while (*word == 0) {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    if (now > start + kGiveUpNs) {
      ++*given_up;
      return;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments(argc, argv);
  const long most = static_cast<long>(arguments.Number("--kernels", 1e9));
  const bool until_input_ends = arguments.Has("--until-input-ends");
  volatile unsigned* const word = MapWord(arguments.Text("--word"));
  CHECK(cudaHostRegister(const_cast<unsigned*>(word), kWordBytes, cudaHostRegisterMapped));
  unsigned *seen = nullptr, *given_up = nullptr;
  CHECK(cudaHostGetDevicePointer(&seen, const_cast<unsigned*>(word), 0));
  CHECK(cudaMalloc(&given_up, sizeof(unsigned)));
  CHECK(cudaMemset(given_up, 0, sizeof(unsigned)));
  CHECK(cudaDeviceSynchronize());  // the stream below does not wait for it
  const cudaStream_t stream = MakeStream(false);
  std::printf("ready\n");
  std::fflush(stdout);

  long launched = 0;
  bool ended = false;
  const auto input_ended = [&] { return ended = ended || (until_input_ends && InputEnded()); };
  for (; launched < most && !input_ended(); ++launched) {
    Hold<<<1, 1, 0, stream>>>(seen, given_up);
    CHECK(cudaGetLastError());
    CHECK(cudaStreamSynchronize(stream));
    while (*word != 0 && !input_ended()) {
    }
  }
  unsigned times = 0;
  CHECK(cudaMemcpy(&times, given_up, sizeof(times), cudaMemcpyDeviceToHost));
  std::printf("{");
  if (!arguments.Has("--no-times")) {
    std::printf("\"kernels\": %ld, \"given_up\": %u", launched, times);
  }
  std::printf("}\n");
  return 0;
}
