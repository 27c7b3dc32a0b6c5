// printf from kernels. The device's text reaches standard output when the host synchronises; the
// program catches it in a file, compares it with what the host's own snprintf makes, and prints it.
#include <unistd.h>

#include <string>

#include "support/check_runtime.h"
#include "support/checksum.h"

__global__ void Formats(int base) {
  const float third = 1.0f / 3.0f;
  printf("integers %d %5d|%-5d|%05d %u %x %X %c %%\n", base, base + 1, base + 2, base + 3,
         0xfffffff0u, 48879, 48879, 'q');
  printf("wide %lld %llu %llx\n", -1234567890123ll, 12345678901234567890ull, 0xfeedfacecafebeefull);
  printf("floats %f %.3f %e %g %10.4f|\n", third, 2.0 / 3.0, 12345.678, 1e-7, -1.5);
  printf("text %s and %8s|\n", "plain", "padded");
  printf("no arguments\n");
}

// One thread after the other, so that the order of lines is fixed.
__global__ void InTurn() {
  for (int turn = 0; turn < static_cast<int>(blockDim.x); ++turn) {
    if (static_cast<int>(threadIdx.x) == turn) printf("thread %d of %d\n", turn, blockDim.x);
    __syncthreads();
  }
}

template <typename... Arguments>
void Append(std::string* text, const char* format, Arguments... arguments) {
  char line[256];
  std::snprintf(line, sizeof(line), format, arguments...);
  *text += line;
}

std::string ExpectedText(int base, int threads) {
  std::string text;
  const float third = 1.0f / 3.0f;
  Append(&text, "integers %d %5d|%-5d|%05d %u %x %X %c %%\n", base, base + 1, base + 2, base + 3,
         0xfffffff0u, 48879, 48879, 'q');
  Append(&text, "wide %lld %llu %llx\n", -1234567890123ll, 12345678901234567890ull,
         0xfeedfacecafebeefull);
  Append(&text, "floats %f %.3f %e %g %10.4f|\n", third, 2.0 / 3.0, 12345.678, 1e-7, -1.5);
  Append(&text, "text %s and %8s|\n", "plain", "padded");
  text += "no arguments\n";
  for (int turn = 0; turn < threads; ++turn) Append(&text, "thread %d of %d\n", turn, threads);
  return text;
}

int main(int argc, char** argv) {
  const int threads = SizeArgument(argc, argv, 6);
  std::FILE* caught = std::tmpfile();
  const int out = dup(STDOUT_FILENO);
  if (caught == nullptr || out < 0) {
    std::perror("device_printf: a temporary file");
    return 1;
  }
  CHECK(cudaFree(nullptr));
  std::fflush(stdout);
  dup2(fileno(caught), STDOUT_FILENO);
  Formats<<<1, 1>>>(40);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  InTurn<<<1, threads>>>();
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  std::fflush(stdout);
  dup2(out, STDOUT_FILENO);
  close(out);

  std::string text(1 << 20, '\0');
  lseek(fileno(caught), 0, SEEK_SET);
  const ssize_t length = read(fileno(caught), text.data(), text.size());
  std::fclose(caught);
  text.resize(length > 0 ? length : 0);
  std::fputs(text.c_str(), stdout);
  Checksum sum;
  sum.Add(text.data(), text.size());
  return Report("device_printf", text == ExpectedText(40, threads), sum);
}
