// A program that lets itself go on: what it has launched waits for it, and it makes a call that waits for
// nothing of that.   waiting_app SCENARIO STREAM CALL [ROUNDS]
//   held    the stream waits for a word, and a kernel is behind that
//   polls   the kernel's blocks themselves wait for a word
// Prints "kernel launched" before its first call, "done" and the checksum at the end.
#include <atomic>
#include <cstdlib>
#include <thread>

#include <unistd.h>

#include "tests/apps/support/driver_call.h"
#include "tests/preempt/app_parts.h"

namespace {

// None of these waits for what the stream has.
void MakeCall(const std::string& call, void* device, cudaStream_t other) {
  static char pageable[4096];
  cudaFuncAttributes attributes;
  if (call == "attributes") CHECK(cudaFuncGetAttributes(&attributes, Plain));
  if (call == "copy") {
    CHECK(cudaMemcpyAsync(device, pageable, sizeof(pageable), cudaMemcpyHostToDevice, other));
  }
  if (call == "stream") {
    cudaStream_t idle;
    CHECK(cudaStreamCreateWithFlags(&idle, cudaStreamNonBlocking));
    CHECK(cudaStreamDestroy(idle));
  }
  if (call == "launches") {  // more than are put behind a guard, and as many as a stream takes
    for (int i = 0; i < 800; ++i) Plain<<<1, 32, 0, other>>>(static_cast<uint32_t*>(device));
    CHECK(cudaGetLastError());
  }
  if (call == "limit") {
    cudaMemPool_t pool;
    unsigned long long keep = 1 << 20;
    CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
  }
}

int Held(const Arrays& arrays, cudaStream_t stream, cudaStream_t other, const std::string& call, int rounds) {
  using Wait = CUresult (*)(CUstream, CUdeviceptr, cuuint32_t, unsigned);
  const auto wait = DriverCall<Wait>("cuStreamWaitValue32", 12000);
  uint32_t* word;
  CHECK(cudaMallocHost(&word, 64));
  *word = 0;
  for (int round = 1; round <= rounds; ++round) {
    const auto address = reinterpret_cast<CUdeviceptr>(word);
    CheckDriver(wait(stream, address, round, CU_STREAM_WAIT_VALUE_GEQ), "a wait");
    arrays.Launch(round, stream, 50);
    if (round == 1) Say("kernel launched");
    MakeCall(call, arrays.other, other);
    *static_cast<volatile uint32_t*>(word) = round;
    CHECK(cudaStreamSynchronize(stream));
  }
  Say("done");
  return arrays.Check(rounds);
}

int Polls(const Arrays& arrays, cudaStream_t stream, cudaStream_t other, const std::string& call, int rounds) {
  void* memory;
  CHECK(cudaMallocHost(&memory, sizeof(Pace)));
  const auto pace = static_cast<volatile Pace*>(memory);
  for (int round = 1; round <= rounds; ++round) {
    pace->open = round == 1 ? ~0u : 0;  // the first prepares it
    Paced<<<kBlocks, kThreads, 0, stream>>>(arrays.runs, arrays.value, round, arrays.other,
                                            static_cast<Pace*>(memory));
    CHECK(cudaGetLastError());
    if (round == 1) CHECK(cudaStreamSynchronize(stream));
    if (round == 2) Say("kernel launched");
    usleep(std::rand() % 8000);
    MakeCall(call, arrays.other, other);
    pace->open = ~0u;
    CHECK(cudaStreamSynchronize(stream));
  }
  Say("done");
  return arrays.Check(rounds);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string scenario = argv[1], call = argv[3];
  const int rounds = argc > 4 ? std::atoi(argv[4]) : 3;
  const cudaStream_t stream = MakeStream(argv[2]), other = MakeStream("non-blocking");
  const Arrays arrays;
  Plain<<<1, 32, 0, other>>>(arrays.other);
  if (scenario == "held") {
    const Arrays scratch;  // what it is launched with first, so that all is prepared
    scratch.Launch(1, stream, 50);
    CHECK(cudaDeviceSynchronize());
    return Held(arrays, stream, other, call, rounds);
  }
  CHECK(cudaDeviceSynchronize());
  return Polls(arrays, stream, other, call, rounds);
}
