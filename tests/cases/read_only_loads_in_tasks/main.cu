// Small kernels of one stream write what the next ones read through the read-only path (__ldg, a
// const __restrict__ pointer, ldu, a constant, a texture, a surface). A kernel's end makes its writes
// visible to all of these.
//   main ldg|restrict|function|uniform|constant|texture|surface STREAMS TURNS
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
constexpr int kWords = 128;

__global__ void Write(unsigned* data, unsigned value) { data[threadIdx.x] = value + threadIdx.x; }
__global__ void ReadLdg(const unsigned* data, unsigned value, unsigned* stale) {
  // Two times the same line: the second may come from a cache.
  const unsigned first = __ldg(data + threadIdx.x);
  const unsigned second = __ldg(data + (threadIdx.x ^ 1));
  if (first != value + threadIdx.x || second != value + (threadIdx.x ^ 1)) atomicAdd(stale, 1u);
}
__global__ void ReadRestrict(const unsigned* __restrict__ data, unsigned value, unsigned* __restrict__ stale) {
  const unsigned first = data[threadIdx.x], second = data[threadIdx.x ^ 1];
  if (first != value + threadIdx.x || second != value + (threadIdx.x ^ 1)) atomicAdd(stale, 1u);
}
__device__ __noinline__ unsigned Load(const unsigned* word) { return __ldg(word); }
__global__ void ReadFunction(const unsigned* data, unsigned value, unsigned* stale) {
  const unsigned first = Load(data + threadIdx.x), second = Load(data + (threadIdx.x ^ 1));
  if (first != value + threadIdx.x || second != value + (threadIdx.x ^ 1)) atomicAdd(stale, 1u);
}
__global__ void ReadUniform(const unsigned* data, unsigned value, unsigned* stale) {
  unsigned first;
  asm volatile("ldu.global.u32 %0, [%1];" : "=r"(first) : "l"(data + 5));
  if (first != value + 5) atomicAdd(stale, 1u);
}
__constant__ unsigned constants[32 * kWords];
__global__ void ReadConstant(unsigned stream, unsigned value, unsigned* stale) {
  if (constants[stream * kWords] != value) atomicAdd(stale, 1u);
  if (constants[stream * kWords + threadIdx.x] != value + threadIdx.x) atomicAdd(stale, 1u);
}
__global__ void ReadSurface(cudaSurfaceObject_t data, unsigned value, unsigned* stale) {
  unsigned first;
  surf1Dread(&first, data, threadIdx.x * 4);
  if (first != value + threadIdx.x) atomicAdd(stale, 1u);
}
__global__ void WriteSurface(cudaSurfaceObject_t data, unsigned value) {
  surf1Dwrite(value + threadIdx.x, data, threadIdx.x * 4);
}
__global__ void ReadTexture(cudaTextureObject_t data, unsigned value, unsigned* stale) {
  const unsigned first = tex1Dfetch<unsigned>(data, threadIdx.x);
  if (first != value + threadIdx.x) atomicAdd(stale, 1u);
}
#define CHECK(x) do { cudaError_t e = (x); if (e) { printf("%s: %s\n", #x, cudaGetErrorName(e)); exit(3); } } while (0)

int main(int, char** argv) {
  const char* how = argv[1];
  const int streams = atoi(argv[2]), turns = atoi(argv[3]);
  unsigned *data, *stale, count = 0;
  CHECK(cudaMalloc(&data, streams * kWords * 4));
  CHECK(cudaMalloc(&stale, 4));
  CHECK(cudaMemset(stale, 0, 4));
  std::vector<cudaStream_t> all(streams);
  std::vector<cudaTextureObject_t> textures(streams);
  std::vector<cudaSurfaceObject_t> surfaces(streams);
  for (int s = 0; s < streams; ++s) {
    CHECK(cudaStreamCreateWithFlags(&all[s], cudaStreamNonBlocking));
    cudaResourceDesc resource = {};
    if (!strcmp(how, "surface")) {
      const cudaChannelFormatDesc words = cudaCreateChannelDesc<unsigned>();
      resource.resType = cudaResourceTypeArray;
      CHECK(cudaMallocArray(&resource.res.array.array, &words, kWords, 0, cudaArraySurfaceLoadStore));
      CHECK(cudaCreateSurfaceObject(&surfaces[s], &resource));
    }
    if (strcmp(how, "texture")) continue;
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.devPtr = data + s * kWords;
    resource.res.linear.desc = cudaCreateChannelDesc<unsigned>();
    resource.res.linear.sizeInBytes = kWords * 4;
    cudaTextureDesc description = {};
    CHECK(cudaCreateTextureObject(&textures[s], &resource, &description, nullptr));
  }
  CHECK(cudaDeviceSynchronize());
  for (int turn = 0; turn < turns; ++turn) {
    for (int s = 0; s < streams; ++s) {
      const unsigned value = turn * 2654435761u + s;
      unsigned* const mine = data + s * kWords;
      if (!strcmp(how, "surface")) {
        WriteSurface<<<1, kWords, 0, all[s]>>>(surfaces[s], value);
        ReadSurface<<<1, kWords, 0, all[s]>>>(surfaces[s], value, stale);
        continue;
      }
      Write<<<1, kWords, 0, all[s]>>>(mine, value);
      if (!strcmp(how, "constant")) {
        CHECK(cudaMemcpyToSymbolAsync(constants, mine, kWords * 4, s * kWords * 4, cudaMemcpyDeviceToDevice, all[s]));
        ReadConstant<<<1, kWords, 0, all[s]>>>(s, value, stale);
        continue;
      }
      if (!strcmp(how, "ldg")) ReadLdg<<<1, kWords, 0, all[s]>>>(mine, value, stale);
      else if (!strcmp(how, "function")) ReadFunction<<<1, kWords, 0, all[s]>>>(mine, value, stale);
      else if (!strcmp(how, "uniform")) ReadUniform<<<1, kWords, 0, all[s]>>>(mine, value, stale);
      else if (!strcmp(how, "restrict")) ReadRestrict<<<1, kWords, 0, all[s]>>>(mine, value, stale);
      else ReadTexture<<<1, kWords, 0, all[s]>>>(textures[s], value, stale);
    }
  }
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(&count, stale, 4, cudaMemcpyDeviceToHost));
  printf("stale %u\n", count);
  return count != 0;
}
