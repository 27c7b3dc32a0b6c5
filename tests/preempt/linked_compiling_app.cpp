// A program that is linked with NVRTC, and compiles a kernel to a cubin (late_variants_test.py). Its arguments are not read.
#include <nvrtc.h>

#include <cstdio>
#include <vector>

int main() {
  constexpr char kSource[] = "extern \"C\" __global__ void Fill(unsigned* values) { values[threadIdx.x] = 7; }\n";
  const char* const options[] = {"-arch=sm_90"};
  nvrtcProgram program;
  size_t bytes = 0;
  if (nvrtcCreateProgram(&program, kSource, "fill.cu", 0, nullptr, nullptr) != NVRTC_SUCCESS ||
      nvrtcCompileProgram(program, 1, options) != NVRTC_SUCCESS || nvrtcGetCUBINSize(program, &bytes) != NVRTC_SUCCESS) {
    return 1;
  }
  std::vector<char> cubin(bytes);
  if (nvrtcGetCUBIN(program, cubin.data()) != NVRTC_SUCCESS || nvrtcDestroyProgram(&program) != NVRTC_SUCCESS) return 1;
  printf("a cubin of %zu bytes\n", bytes);
  return 0;
}
