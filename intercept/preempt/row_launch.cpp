#include "intercept/preempt/row_launch.h"

#include "intercept/process/driver_calls.h"

namespace cupola::intercept::preempt {

CUresult LaunchRow(const RowLaunch& row, uint32_t blocks) noexcept {
  size_t bytes = row.bytes;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, row.arguments, CU_LAUNCH_PARAM_BUFFER_SIZE,
                   &bytes, CU_LAUNCH_PARAM_END};
  if (row.attributes.count == 0) {
    const auto launch_kernel = Real<PFN_cuLaunchKernel_v4000>(row.per_thread ? Call::k_cuLaunchKernel_ptsz
                                                                      : Call::k_cuLaunchKernel);
    return launch_kernel(row.function, blocks, 1, 1, row.block[0], row.block[1], row.block[2],
                  row.shared_bytes, row.stream, nullptr, extra);
  }
  CUlaunchConfig config{};
  config.gridDimX = blocks;
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = row.block[0];
  config.blockDimY = row.block[1];
  config.blockDimZ = row.block[2];
  config.sharedMemBytes = row.shared_bytes;
  config.hStream = row.stream;
  config.attrs = const_cast<CUlaunchAttribute*>(row.attributes.list);
  config.numAttrs = row.attributes.count;
  const auto launch_kernel = Real<PFN_cuLaunchKernelEx_v11060>(
      row.per_thread ? Call::k_cuLaunchKernelEx_ptsz : Call::k_cuLaunchKernelEx);
  return launch_kernel(&config, row.function, nullptr, extra);
}

}  // namespace cupola::intercept::preempt
