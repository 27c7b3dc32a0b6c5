// Kernels whose parameters ask for alignments of 8 to 128 bytes, among others: each argument arrives.
//   main TURNS
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
template <int A> struct alignas(A) Wide { float value[A / 4]; };
template <int A>
__global__ void Sum(float* out, int count, char small, Wide<A> first, short between, Wide<A> second, float factor) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float sum = small + between;
  for (int k = 0; k < A / 4; ++k) sum += first.value[k] - 2 * second.value[k];
  out[i] = sum * factor + i;
}
template <int A> int Try(int turns) {
  constexpr int kCount = 100000;
  float* out;
  if (cudaMalloc(&out, kCount * 4)) return 3;
  Wide<A> first, second;
  float sum = 5 + 7;
  for (int k = 0; k < A / 4; ++k) {
    first.value[k] = k + 1;
    second.value[k] = 3 * k;
    sum += first.value[k] - 2 * second.value[k];
  }
  int wrong = 0;
  for (int turn = 0; turn < turns; ++turn) {
    Sum<A><<<(kCount + 255) / 256, 256>>>(out, kCount, 5, first, 7, second, 0.5f);
    static float host[kCount];
    if (cudaError_t e = cudaMemcpy(host, out, kCount * 4, cudaMemcpyDeviceToHost)) {
      printf("align %d: %s\n", A, cudaGetErrorName(e));
      return 3;
    }
    for (int i = 0; i < kCount; ++i) wrong += host[i] != sum * 0.5f + i;
  }
  if (wrong) printf("align %d: %d wrong\n", A, wrong);
  return wrong != 0;
}
int main(int, char** argv) {
  const int turns = atoi(argv[1]);
  const int bad = Try<8>(turns) | Try<16>(turns) | Try<32>(turns) | Try<64>(turns) | Try<128>(turns);
  puts(bad ? "wrong" : "same");
  return bad;
}
