// A program that was linked with the driver, where there is none: it starts, and every call says so.
#include <cstring>

#include <cuda.h>

int main() {
  const char* words = nullptr;
  if (cuInit(0) != CUDA_ERROR_NO_DEVICE) return 1;
  if (cuGetErrorString(CUDA_ERROR_NO_DEVICE, &words) != CUDA_SUCCESS) return 2;
  return strstr(words, "no CUDA") != nullptr ? 0 : 3;
}
