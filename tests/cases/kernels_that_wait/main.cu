// Kernels that wait in a loop for a word, which they read in several ways.
//   main grid WAY         the blocks (all fit on the device) wait for one another
//   main host WAY CALL    they wait for the host, which makes a call before it writes the word
//   main sleep
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>
__device__ __noinline__ unsigned Read(unsigned* word) { return *(volatile unsigned*)word; }
__device__ __noinline__ bool Reached(unsigned* word, unsigned n) { return Read(word) >= n; }

__device__ __noinline__ void ReadInto(unsigned* word, unsigned* result) { *result = __ldcg(word); }
// Leaves a frame behind each time that it looks, so it sleeps between.
__device__ __noinline__ unsigned Again(unsigned* word, unsigned n, unsigned depth) {
  if (__ldcg(word) >= n) return depth;
  __nanosleep(10000);
  return Again(word, n, depth + 1) + 1;
}

#define KERNELS(name, wait)                                                             \
  __global__ void Grid##name(unsigned* word, unsigned* data, unsigned* out) {           \
    const unsigned n = gridDim.x;                                                       \
    if (threadIdx.x == 0) {                                                             \
      data[blockIdx.x] = blockIdx.x + 1;                                                \
      __threadfence();                                                                  \
      atomicAdd(word, 1u);                                                              \
      wait;                                                                             \
      __threadfence();                                                                  \
      atomicAdd(out, ((volatile unsigned*)data)[(blockIdx.x + 1) % n]);                 \
    }                                                                                   \
  }                                                                                     \
  __global__ void Host##name(unsigned* word) {                                          \
    const unsigned n = 1;                                                               \
    wait;                                                                               \
  }
KERNELS(Volatile, while (*(volatile unsigned*)word < n) {})
KERNELS(Atomic, while (atomicAdd(word, 0u) < n) {})
KERNELS(Ldcg, while (__ldcg(word) < n) { __threadfence_system(); })
KERNELS(Call, while (Read(word) < n) {})
KERNELS(Deeper, while (!Reached(word, n)) {})
KERNELS(Reference, { unsigned seen = 0; while (seen < n) ReadInto(word, &seen); })
KERNELS(Lambda, {
  bool done = false;
  auto look = [&] { done = __ldcg(word) >= n; };
  while (!done) look();
})
KERNELS(Recursion, if (Again(word, n, 0) == 77777) { *word = 0; })
// Either of two words; the other one stays as it is.
KERNELS(Ring, for (unsigned i = 0; __ldcg(word + i) < n;) { i = (i + 4) % 8; })
KERNELS(Bounded, for (unsigned tries = 0; tries < 1u << 31 && __ldcg(word) < n; ++tries) { __threadfence_system(); })
__global__ void Add(unsigned* out) { atomicAdd(out, 1u); }

#define CHECK(x) do { int e = (int)(x); if (e) { printf("%s: %d\n", #x, e); fflush(stdout); _exit(3); } } while (0)
#define PICK(kind, ...)                                                                 \
  if (!strcmp(way, "volatile")) kind##Volatile __VA_ARGS__;                             \
  if (!strcmp(way, "atomic")) kind##Atomic __VA_ARGS__;                                 \
  if (!strcmp(way, "ldcg")) kind##Ldcg __VA_ARGS__;                                     \
  if (!strcmp(way, "call")) kind##Call __VA_ARGS__;                                     \
  if (!strcmp(way, "deeper")) kind##Deeper __VA_ARGS__;                                 \
  if (!strcmp(way, "reference")) kind##Reference __VA_ARGS__;                           \
  if (!strcmp(way, "lambda")) kind##Lambda __VA_ARGS__;                                 \
  if (!strcmp(way, "recursion")) kind##Recursion __VA_ARGS__;                           \
  if (!strcmp(way, "ring")) kind##Ring __VA_ARGS__;                                     \
  if (!strcmp(way, "bounded")) kind##Bounded __VA_ARGS__

int main(int argc, char** argv) {
  const char* way = argc > 2 ? argv[2] : "";
  cudaStream_t stream, other;
  unsigned *word, *device_word, *data, *out, value = 0;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  CHECK(cudaMalloc(&out, 4));
  CHECK(cudaMalloc(&data, 4096));
  CHECK(cudaMemset(out, 0, 4));
  CHECK(cudaHostAlloc(&word, 64, cudaHostAllocMapped));
  memset(word, 0, 64);
  CHECK(cudaHostGetDevicePointer(&device_word, word, 0));
  CHECK(cudaDeviceSynchronize());
  if (!strcmp(argv[1], "sleep")) {
    Add<<<1, 32>>>(out);
    CHECK(cudaDeviceSynchronize());
    return sleep(120);
  }
  if (!strcmp(argv[1], "grid")) {
    const unsigned blocks = 8, turns = 20;
    for (unsigned turn = 0; turn < turns; ++turn) {
      CHECK(cudaMemsetAsync(device_word, 0, 4, stream));
      PICK(Grid, <<<blocks, 32, 0, stream>>>(device_word, data, out));
      CHECK(cudaStreamSynchronize(stream));
    }
    CHECK(cudaMemcpy(&value, out, 4, cudaMemcpyDeviceToHost));
    printf("%s\n", value == turns * blocks * (blocks + 1) / 2 ? "done" : "wrong");
    return 0;
  }
  const char* call = argv[3];
  *word = 1;   // each kernel once, so that all are loaded
  PICK(Host, <<<1, 32, 0, stream>>>(device_word));
  for (int i = 0; i < 100; ++i) Add<<<1, 32, 0, other>>>(out);
  CHECK(cudaDeviceSynchronize());
  *word = 0;
  for (int i = 0; i < 50; ++i) Add<<<1, 32, 0, other>>>(out);
  PICK(Host, <<<1, 32, 0, stream>>>(device_word));
  for (int i = 0; i < 50; ++i) Add<<<1, 32, 0, other>>>(out);
  CHECK(cudaGetLastError());
  if (!strcmp(call, "attributes")) {
    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, Add));
  } else if (!strcmp(call, "occupancy")) {
    int n;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, Add, 64, 0));
  } else if (!strcmp(call, "instantiate")) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(other, cudaStreamCaptureModeThreadLocal));
    Add<<<1, 32, 0, other>>>(out);
    CHECK(cudaStreamEndCapture(other, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
  }
  // Again and again: an atomic of a device writes to the host's memory what it read there a moment before.
  do *(volatile unsigned*)word = 1;
  while (cudaStreamQuery(stream) == cudaErrorNotReady);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(&value, out, 4, cudaMemcpyDeviceToHost));
  printf("%s\n", value == 200 * 32 ? "done" : "wrong");
}
