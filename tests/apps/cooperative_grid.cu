// A cooperative launch whose blocks meet at grid.sync() between the steps of an iteration.
#include <cooperative_groups.h>

#include <utility>
#include <vector>

#include "support/check_runtime.h"
#include "support/checksum.h"

namespace cg = cooperative_groups;

__global__ void Smooth(unsigned* from, unsigned* to, int n, int steps) {
  const cg::grid_group grid = cg::this_grid();
  for (int step = 0; step < steps; ++step) {
    for (int i = grid.thread_rank(); i < n; i += grid.size()) {
      const unsigned left = from[i > 0 ? i - 1 : n - 1], right = from[i + 1 < n ? i + 1 : 0];
      to[i] = (left + 2 * from[i] + right) * 3 + step;
    }
    grid.sync();
    unsigned* other = from;
    from = to;
    to = other;
  }
}

int main(int argc, char** argv) {
  int n = SizeArgument(argc, argv, 3000), steps = 8;
  const size_t bytes = n * sizeof(unsigned);
  int supported = 0, processors = 0, resident = 0;
  CHECK(cudaDeviceGetAttribute(&supported, cudaDevAttrCooperativeLaunch, 0));
  CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, Smooth, 128, 0));
  if (supported == 0 || processors * resident < 4) {
    std::fprintf(stderr, "cooperative_grid: the device cannot hold 4 blocks at once\n");
    return 1;
  }

  std::vector<unsigned> in(n), out(n), expected;
  for (int i = 0; i < n; ++i) in[i] = Mix(i);
  expected = in;
  for (int step = 0; step < steps; ++step) {
    std::vector<unsigned> next(n);
    for (int i = 0; i < n; ++i)
      next[i] = (expected[i > 0 ? i - 1 : n - 1] + 2 * expected[i] +
                 expected[i + 1 < n ? i + 1 : 0]) * 3 + step;
    expected = std::move(next);
  }

  unsigned *from, *to;
  CHECK(cudaMalloc(&from, bytes));
  CHECK(cudaMalloc(&to, bytes));
  CHECK(cudaMemcpy(from, in.data(), bytes, cudaMemcpyHostToDevice));
  void* arguments[] = {&from, &to, &n, &steps};
  CHECK(cudaLaunchCooperativeKernel(Smooth, dim3(4), dim3(128), arguments, 0, nullptr));
  CHECK(cudaMemcpy(out.data(), steps % 2 ? to : from, bytes, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(from));
  CHECK(cudaFree(to));

  Checksum sum;
  sum.Add(out);
  std::printf("%d steps over %d words, last %08x\n", steps, n, out[n - 1]);
  return Report("cooperative_grid", out == expected, sum);
}
