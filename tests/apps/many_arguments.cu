// A kernel with 98 parameters of mixed sizes, 3 KB together: 24 each of int, double, short and
// unsigned char, a 2.5 KB structure by value, and the result.
#include <vector>

#include "support/check_runtime.h"
#include "support/checksum.h"

#define FOR_24(M)                                                                       \
  M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11) M(12) M(13) M(14) M(15) \
  M(16) M(17) M(18) M(19) M(20) M(21) M(22) M(23)
#define PARAMETERS(k) int i##k, double d##k, short s##k, unsigned char c##k,
#define STORE(k)           \
  out[4 * k + 0] = i##k;   \
  out[4 * k + 1] = d##k;   \
  out[4 * k + 2] = s##k;   \
  out[4 * k + 3] = c##k;
#define ARGUMENTS(k) IntArgument(k), DoubleArgument(k), ShortArgument(k), ByteArgument(k),

constexpr int kScalars = 96;
constexpr int kTable = 320;

struct Table {
  double values[kTable];
};

int IntArgument(int k) { return static_cast<int>(Mix(k)); }
double DoubleArgument(int k) { return Mix(k + 100) / 1024.0; }
short ShortArgument(int k) { return static_cast<short>(Mix(k + 200)); }
unsigned char ByteArgument(int k) { return static_cast<unsigned char>(Mix(k + 300)); }

__global__ void TakeAll(FOR_24(PARAMETERS) Table table, double* out) {
  if (threadIdx.x == 0) {
    FOR_24(STORE)
  }
  for (int i = threadIdx.x; i < kTable; i += blockDim.x)
    out[kScalars + i] = table.values[kTable - 1 - i];
}

int main() {
  Table table;
  for (int i = 0; i < kTable; ++i) table.values[i] = Mix(i + 400) / 7.0;
  std::vector<double> out(kScalars + kTable), expected(kScalars + kTable);
  for (int k = 0; k < 24; ++k) {
    expected[4 * k + 0] = IntArgument(k);
    expected[4 * k + 1] = DoubleArgument(k);
    expected[4 * k + 2] = ShortArgument(k);
    expected[4 * k + 3] = ByteArgument(k);
  }
  for (int i = 0; i < kTable; ++i) expected[kScalars + i] = table.values[kTable - 1 - i];

  double* device_out;
  CHECK(cudaMalloc(&device_out, out.size() * sizeof(double)));
  TakeAll<<<1, 64>>>(FOR_24(ARGUMENTS) table, device_out);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(out.data(), device_out, out.size() * sizeof(double), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(device_out));

  Checksum sum;
  sum.Add(out);
  std::printf("%d parameters, the last double is %.3f\n", kScalars + 2, out.back());
  return Report("many_arguments", out == expected, sum);
}
