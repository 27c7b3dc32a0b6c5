// CUB's single-pass scan and selection: blocks wait for their predecessors' results (decoupled
// look-back), so blocks must start in order and make progress together.
#include <cub/device/device_scan.cuh>
#include <cub/device/device_select.cuh>

#include <vector>

#include "support/check_runtime.h"
#include "support/checksum.h"

struct IsLarge {
  __host__ __device__ bool operator()(int value) const { return value > 600; }
};

int main(int argc, char** argv) {
  const int n = SizeArgument(argc, argv, 30011);
  const size_t bytes = n * sizeof(int);
  std::vector<int> in(n), scanned(n), expected_scan(n), expected_selected;
  int running = 0;
  for (int i = 0; i < n; ++i) {
    in[i] = static_cast<int>(Mix(i) % 1000);
    expected_scan[i] = running;
    running += in[i];
    if (IsLarge()(in[i])) expected_selected.push_back(in[i]);
  }

  int *device_in, *device_scan, *device_selected, *device_count;
  CHECK(cudaMalloc(&device_in, bytes));
  CHECK(cudaMalloc(&device_scan, bytes));
  CHECK(cudaMalloc(&device_selected, bytes));
  CHECK(cudaMalloc(&device_count, sizeof(int)));
  CHECK(cudaMemcpy(device_in, in.data(), bytes, cudaMemcpyHostToDevice));

  size_t scan_bytes = 0, select_bytes = 0;
  CHECK(cub::DeviceScan::ExclusiveSum(nullptr, scan_bytes, device_in, device_scan, n));
  CHECK(cub::DeviceSelect::If(nullptr, select_bytes, device_in, device_selected, device_count, n,
                              IsLarge()));
  void* temporary;
  CHECK(cudaMalloc(&temporary, scan_bytes > select_bytes ? scan_bytes : select_bytes));
  CHECK(cub::DeviceScan::ExclusiveSum(temporary, scan_bytes, device_in, device_scan, n));
  CHECK(cub::DeviceSelect::If(temporary, select_bytes, device_in, device_selected, device_count,
                              n, IsLarge()));
  int count = 0;
  CHECK(cudaMemcpy(scanned.data(), device_scan, bytes, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(&count, device_count, sizeof(int), cudaMemcpyDeviceToHost));
  const bool count_possible = count >= 0 && count <= n;
  std::vector<int> selected(count_possible ? count : 0);
  CHECK(cudaMemcpy(selected.data(), device_selected, selected.size() * sizeof(int),
                   cudaMemcpyDeviceToHost));
  CHECK(cudaFree(temporary));
  CHECK(cudaFree(device_in));
  CHECK(cudaFree(device_scan));
  CHECK(cudaFree(device_selected));
  CHECK(cudaFree(device_count));

  Checksum sum;
  sum.Add(scanned);
  sum.Add(selected);
  std::printf("last prefix %d, %d of %d selected\n", scanned[n - 1], count, n);
  return Report("cub_scan_select", scanned == expected_scan && selected == expected_selected, sum);
}
