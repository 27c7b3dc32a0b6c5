// One kernel launched again and again, and between two rows of such launches what may change how the next one goes out:
// a capture, a stream that ends and another that gets its handle, a stream that is held by a host function, the limit of
// shared memory, another thread, the default streams.
#include <atomic>
#include <thread>
#include <vector>

#include "support/check_runtime.h"
#include "support/checksum.h"

constexpr int kBlocks = 200, kThreads = 128, kCount = kBlocks * kThreads;
constexpr unsigned kRow = 8;

__global__ void Step(unsigned* data, unsigned seed) {
  extern __shared__ unsigned shared[];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  shared[threadIdx.x] = data[i];
  data[i] = shared[threadIdx.x] * 1664525u + seed;
}

struct Run {
  unsigned* data = nullptr;
  std::vector<unsigned> expected;
  unsigned seed = 0;

  Run() : expected(kCount) {
    for (int i = 0; i < kCount; ++i) expected[i] = Mix(i);
    CHECK(cudaMalloc(&data, kCount * sizeof(unsigned)));
    CHECK(cudaMemcpy(data, expected.data(), kCount * sizeof(unsigned), cudaMemcpyHostToDevice));
  }
  void Launch(cudaStream_t stream, size_t shared = kThreads * sizeof(unsigned)) {
    Step<<<kBlocks, kThreads, shared, stream>>>(data, ++seed);
    CHECK(cudaGetLastError());
    for (unsigned& value : expected) value = value * 1664525u + seed;
  }
  void Row(cudaStream_t stream) {
    for (unsigned i = 0; i < kRow; ++i) Launch(stream);
  }
  bool IsRight() {
    std::vector<unsigned> got(kCount);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(got.data(), data, kCount * sizeof(unsigned), cudaMemcpyDeviceToHost));
    return got == expected;
  }
};

// The launches of a capture are in the graph, not on the stream.
void Capture(Run* run, cudaStream_t stream) {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  run->Row(stream);
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  for (int i = 0; i < 3; ++i) run->Launch(stream);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CHECK(cudaGraphLaunch(exec, stream));
  run->Row(stream);
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
}

// Work on a blocking stream comes behind the legacy stream's, that on a non-blocking one does not; a new stream may have
// the handle of one that ended.
void NewStreams(Run* run) {
  for (const unsigned flags : {cudaStreamNonBlocking, cudaStreamDefault, cudaStreamNonBlocking}) {
    cudaStream_t stream;
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaStreamCreateWithFlags(&stream, flags));
    run->Row(stream);
    if (flags == cudaStreamDefault) {
      run->Launch(cudaStreamLegacy);
      run->Launch(stream);
    }
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaStreamDestroy(stream));
  }
}

// The host function waits for something that this thread does only after its launches, and after a call that may wait for
// other launches, but not for these.
void HeldStream(Run* run, cudaStream_t stream) {
  std::atomic<bool> go_on{false};
  run->Row(stream);
  CHECK(cudaLaunchHostFunc(stream, [](void* flag) {
    while (!*static_cast<std::atomic<bool>*>(flag)) std::this_thread::yield();
  }, &go_on));
  for (int i = 0; i < 20; ++i) run->Launch(stream);
  void* more;
  CHECK(cudaMalloc(&more, 1 << 20));
  go_on = true;
  run->Row(stream);
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaFree(more));
}

void MoreShared(Run* run, cudaStream_t stream) {
  run->Row(stream);
  CHECK(cudaFuncSetAttribute(Step, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10));
  run->Launch(stream, 60 << 10);
  run->Row(stream);
  CHECK(cudaStreamSynchronize(stream));
}

int main() {
  Run run;
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Capture(&run, stream);
  NewStreams(&run);
  HeldStream(&run, stream);
  MoreShared(&run, stream);
  std::thread([&] {
    run.Row(cudaStreamPerThread);
    CHECK(cudaStreamSynchronize(cudaStreamPerThread));
  }).join();
  for (const cudaStream_t each : {cudaStreamPerThread, cudaStreamLegacy, static_cast<cudaStream_t>(nullptr)}) {
    run.Row(each);
    CHECK(cudaStreamSynchronize(each));
  }
  const bool correct = run.IsRight();
  Checksum sum;
  sum.Add(run.expected);
  return Report("repeated_launches", correct, sum);
}
