// A program that is linked with the driver. "missing": there is no driver; it starts all the same, and every call says
// so. "launch": it launches three times.
#include <cstring>

#include <cuda.h>

namespace {

int Missing() {
  const char* words = nullptr;
  if (cuInit(0) != CUDA_ERROR_NO_DEVICE) return 1;
  if (cuGetErrorString(CUDA_ERROR_NO_DEVICE, &words) != CUDA_SUCCESS) return 2;
  return strstr(words, "no CUDA") != nullptr ? 0 : 3;
}

int Launch() {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  const char image[8] = {};
  if (cuInit(0) != CUDA_SUCCESS || cuModuleLoadData(&module, image) != CUDA_SUCCESS) return 1;
  if (cuModuleGetFunction(&function, module, "linked") != CUDA_SUCCESS) return 2;
  for (int i = 0; i < 3; ++i) {
    if (cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr) != CUDA_SUCCESS) return 3;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 9;
  return strcmp(argv[1], "launch") == 0 ? Launch() : Missing();
}
