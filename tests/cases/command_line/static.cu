// Is built with the runtime linked in, as a program, and as a library that another program opens.
#include <cstdio>
__global__ void Add(unsigned* out) { atomicAdd(out, 1u); }
extern "C" int Use() {
  unsigned *out, value = 0;
  cudaMalloc(&out, 4);
  cudaMemset(out, 0, 4);
  Add<<<1, 32>>>(out);
  cudaMemcpy(&value, out, 4, cudaMemcpyDeviceToHost);
  return value != 32;
}
#ifdef PROGRAM
int main() {
  FILE* ran = fopen("ran", "w");
  if (ran) fclose(ran);
  return Use();
}
#endif
