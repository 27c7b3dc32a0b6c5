#include "tests/unit/fatbin/nvcc_fixture.h"

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace cupola::fatbin {
namespace {

// The kernels differ in registers, shared and local memory, parameters and launch bounds.
constexpr char kSample[] = R"(
struct Big { float a[40]; };
__constant__ float taps[8];
__device__ int counter;
extern "C" __global__ void __launch_bounds__(128) plain(float* p, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] = p[i] * taps[i & 7];
}
__global__ void shared_sum(const float* in, float* out, Big b, char c, double d) {
  __shared__ float s[256];
  s[threadIdx.x] = in[threadIdx.x] + b.a[threadIdx.x % 40];
  __syncthreads();
  out[threadIdx.x] = s[255 - threadIdx.x] + c + d;
  atomicAdd(&counter, 1);
}
__global__ void local_user(int* p, int k) {
  int a[200], s = 0;
  for (int i = 0; i < 200; i++) a[i] = p[i];
  for (int i = 0; i < k; i++) { a[a[i % 200] & 127] += i; s += a[(s + i) % 200]; }
  p[0] = s;
}
int main() { plain<<<1, 1>>>(0, 0); return 0; }
)";

struct Output {
  int status;
  std::string text;
};

Output RunCommand(const std::string& command) {
  Output output{-1, {}};
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return output;
  std::array<char, 4096> buffer;
  for (size_t got; (got = fread(buffer.data(), 1, buffer.size(), pipe)) != 0;) {
    output.text.append(buffer.data(), got);
  }
  const int status = pclose(pipe);
  output.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return output;
}

}  // namespace

void NvccTest::SetUp() {
  const Output version = RunCommand(std::string("'") + CUPOLA_NVCC_PATH + "' --version");
  if (version.status != 0) GTEST_SKIP() << "nvcc does not run here: " << CUPOLA_NVCC_PATH;
  std::string pattern = testing::TempDir() + "cupola_fatbin_XXXXXX";
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  folder_ = pattern;
}

void NvccTest::TearDown() {
  if (!folder_.empty()) std::filesystem::remove_all(folder_);
}

std::string NvccTest::WriteSource(const std::string& name, const std::string& text) const {
  std::ofstream(Path(name)) << text;
  return Path(name);
}

std::string NvccTest::Nvcc(const std::string& args) const {
  const Output output = RunCommand(std::string("'") + CUPOLA_NVCC_PATH + "' " + args);
  EXPECT_EQ(output.status, 0) << "nvcc " << args << "\n" << output.text;
  return output.text;
}

std::string NvccTest::CompileSample(const std::string& flags, const std::string& output) const {
  const std::string source = WriteSource("sample.cu", kSample);
  return Nvcc(flags + " '" + source + "' -o '" + output + "'");
}

}  // namespace cupola::fatbin
