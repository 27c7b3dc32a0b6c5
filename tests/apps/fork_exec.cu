// Uses the GPU, forks and executes another CUDA program (by default vector_add beside this one),
// waits for it, and uses the GPU again. Exits with the child's exit code where that is not 0.
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "support/check_runtime.h"
#include "support/checksum.h"

__global__ void Square(unsigned* data, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] = data[i] * data[i] + 1;
}

std::string Neighbour(const char* name) {
  char self[4096];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof(self));
  const std::string path(self, length > 0 ? length : 0);
  return path.substr(0, path.rfind('/') + 1) + name;
}

int RunChild(const std::string& path) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    execl(path.c_str(), path.c_str(), static_cast<char*>(nullptr));
    std::perror(path.c_str());
    _exit(127);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return 126;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char** argv) {
  const std::string program = argc > 1 ? argv[1] : Neighbour("vector_add");
  constexpr int n = 2000;
  std::vector<unsigned> data(n), expected(n);
  for (int i = 0; i < n; ++i) {
    data[i] = expected[i] = Mix(i);
    for (int launch = 0; launch < 2; ++launch) expected[i] = expected[i] * expected[i] + 1;
  }
  unsigned* device;
  CHECK(cudaMalloc(&device, n * sizeof(unsigned)));
  CHECK(cudaMemcpy(device, data.data(), n * sizeof(unsigned), cudaMemcpyHostToDevice));
  Square<<<(n + 127) / 128, 128>>>(device, n);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  const int child_code = RunChild(program);
  Square<<<(n + 127) / 128, 128>>>(device, n);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(data.data(), device, n * sizeof(unsigned), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(device));

  Checksum sum;
  sum.Add(data);
  std::printf("the child's exit code is %d\n", child_code);
  const int own_code = Report("fork_exec", data == expected, sum);
  return child_code != 0 ? child_code : own_code;
}
