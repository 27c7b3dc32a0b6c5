// Arrays of odd sizes and small parameters between such of large alignment, given by kernelParams and
// packed in one buffer by turns, whose layout the driver tells: each argument arrives.   packed BLOCKS
#include <cuda.h>
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
struct alignas(32) Wide { unsigned long long value[4]; };
struct alignas(64) Wider { unsigned short value[33]; };
struct Bytes { unsigned char value[3]; };
__global__ void Mixed(unsigned* out, Bytes first, Wide second, unsigned char third, Wider fourth, Bytes fifth,
                      double sixth) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned sum = third * 3 + (unsigned)sixth;
  for (int k = 0; k < 3; ++k) sum = sum * 31 + first.value[k] + 7 * fifth.value[k];
  for (int k = 0; k < 4; ++k) sum = sum * 31 + (unsigned)(second.value[k] >> 8);
  for (int k = 0; k < 33; ++k) sum = sum * 31 + fourth.value[k];
  out[i] = sum + i;
}
// So few bytes that it may be a task.
__global__ void Few(unsigned* out, unsigned char first, Wide second, unsigned short third) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned sum = first * 5 + third;
  for (int k = 0; k < 4; ++k) sum = sum * 31 + (unsigned)(second.value[k] >> 8);
  out[i] = sum + i;
}
// Reads one of them by an address that is made of the index: the code has the parameter's address.
__global__ void Indexed(unsigned* out, unsigned char first, const __grid_constant__ Wide second,
                        unsigned short third) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned long long* const at = second.value;
  out[i] = first + third + (unsigned)(at[i % 4] >> 8) + ((size_t)at % 32 == 0 ? 0 : 1000000) + i;
}
unsigned want_mixed(Bytes a, Wide b, unsigned char c, Wider d, Bytes e, double f) {
  unsigned sum = c * 3 + (unsigned)f;
  for (int k = 0; k < 3; ++k) sum = sum * 31 + a.value[k] + 7 * e.value[k];
  for (int k = 0; k < 4; ++k) sum = sum * 31 + (unsigned)(b.value[k] >> 8);
  for (int k = 0; k < 33; ++k) sum = sum * 31 + d.value[k];
  return sum;
}
unsigned* out;
unsigned* host;
int wrong = 0;
template <typename Want>
void Try(const char* name, void* symbol, void** arguments, int count, int blocks, Want want) {
  CUfunction function;
  cudaGetFuncBySymbol((cudaFunction_t*)&function, symbol);
  alignas(128) char buffer[4096];
  size_t end = 0;
  for (int i = 0; i < count; ++i) {
    size_t offset, bytes;
    if (cuFuncGetParamInfo(function, i, &offset, &bytes)) exit(3);
    memcpy(buffer + offset, arguments[i], bytes);
    end = offset + bytes;
  }
  for (int turn = 0; turn < 4; ++turn) {
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &end,
                     CU_LAUNCH_PARAM_END};
    const bool packed = turn % 2;
    cudaMemset(out, 0, blocks * 32 * 4);
    for (int again = 0; again < 3; ++again) {
      if (cuLaunchKernel(function, blocks, 1, 1, 32, 1, 1, 0, nullptr, packed ? nullptr : arguments,
                         packed ? extra : nullptr)) {
        exit(4);
      }
    }
    if (cudaError_t e = cudaMemcpy(host, out, blocks * 32 * 4, cudaMemcpyDeviceToHost)) {
      printf("%s: %s\n", name, cudaGetErrorName(e));
      exit(5);
    }
    int bad = 0;
    for (int i = 0; i < blocks * 32; ++i) bad += host[i] != want(i);
    if (bad) printf("%s, %s, %d blocks: %d wrong\n", name, packed ? "packed" : "pointers", blocks, bad);
    wrong += bad != 0;
  }
}
int main(int, char** argv) {
  const int most = atoi(argv[1]);
  if (cudaMalloc(&out, most * 32 * 4)) return 3;
  host = (unsigned*)malloc(most * 32 * 4);
  Bytes a = {1, 2, 3}, e = {40, 50, 60};
  Wide b;
  Wider d;
  for (int k = 0; k < 4; ++k) b.value[k] = 0x0102030405060708ull * (k + 3);
  for (int k = 0; k < 33; ++k) d.value[k] = 1000 + 77 * k;
  unsigned char c = 200;
  unsigned short s = 40000;
  double f = 123456;
  for (int blocks : {1, most}) {
    void* mixed[] = {&out, &a, &b, &c, &d, &e, &f};
    Try("Mixed", (void*)Mixed, mixed, 7, blocks, [&](int i) { return want_mixed(a, b, c, d, e, f) + i; });
    void* few[] = {&out, &c, &b, &s};
    unsigned sum = c * 5 + s;
    for (int k = 0; k < 4; ++k) sum = sum * 31 + (unsigned)(b.value[k] >> 8);
    Try("Few", (void*)Few, few, 4, blocks, [&](int i) { return sum + i; });
    Try("Indexed", (void*)Indexed, few, 4, blocks, [&](int i) { return c + s + (unsigned)(b.value[i % 4] >> 8) + i; });
  }
  puts(wrong ? "wrong" : "same");
  return wrong != 0;
}
