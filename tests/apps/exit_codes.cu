// Runs a kernel and ends in the way that the argument names: `exit N`, `abort`, `segfault`,
// `signal N`, `trap` (a kernel that fails), or normally without one.
#include <csignal>
#include <cstring>

#include "support/check_runtime.h"
#include "support/checksum.h"

__global__ void Triple(unsigned* value) { *value *= 3; }
__global__ void Trap() { asm volatile("trap;"); }

int main(int argc, char** argv) {
  unsigned value = 14, *device;
  CHECK(cudaMalloc(&device, sizeof(value)));
  CHECK(cudaMemcpy(device, &value, sizeof(value), cudaMemcpyHostToDevice));
  Triple<<<1, 1>>>(device);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(&value, device, sizeof(value), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(device));
  Checksum sum;
  sum.Add(&value, sizeof(value));
  const int code = Report("exit_codes", value == 42, sum);
  std::fprintf(stderr, "exit_codes: ends by %s\n", argc > 1 ? argv[1] : "return");
  std::fflush(stdout);

  const char* how = argc > 1 ? argv[1] : "";
  const int number = argc > 2 ? std::atoi(argv[2]) : 0;
  if (std::strcmp(how, "exit") == 0) return number;
  if (std::strcmp(how, "abort") == 0) std::abort();
  if (std::strcmp(how, "signal") == 0) std::raise(number);
  if (std::strcmp(how, "segfault") == 0) {
    volatile int* volatile nowhere = nullptr;
    *nowhere = 1;
  }
  if (std::strcmp(how, "trap") == 0) {
    Trap<<<1, 1>>>();
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());  // fails: the message names the error, the exit code is 1
  }
  return code;
}
