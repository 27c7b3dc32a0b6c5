// Hooks of the launch calls that are older than cuLaunchKernel, and of the cooperative launch over
// several devices. CUDA Driver API, "Execution Control [DEPRECATED]".
#include <cuda.h>

#include "intercept/path/launch_path.h"
#include "intercept/process/calls.h"
#include "intercept/process/handle_map.h"

namespace cupola::intercept {
namespace {

// CUfunction -> the block shape (x 11 bits, y 11, z 7) and shared bytes (32) that the program has set
// for it, packed. The device limits are 1024, 1024 and 64.
HandleMap shapes;

constexpr uint64_t kBlockBits = (uint64_t{1} << 29) - 1;

uint64_t PackBlock(int x, int y, int z) {
  return (static_cast<uint64_t>(x) & 0x7FF) | (static_cast<uint64_t>(y) & 0x7FF) << 11 |
         (static_cast<uint64_t>(z) & 0x7F) << 22;
}

template <typename CallReal>
CUresult PassLegacy(CUfunction f, int width, int height, CUstream stream,
                    const CallReal& call) noexcept {
  const uint64_t shape = shapes.Find(f, PackBlock(1, 1, 1));
  const Launch launch{
      .function = f, .stream = stream,
      .grid = {static_cast<uint32_t>(width), static_cast<uint32_t>(height), 1},
      .block = {static_cast<uint32_t>(shape & 0x7FF), static_cast<uint32_t>(shape >> 11 & 0x7FF),
                static_cast<uint32_t>(shape >> 22 & 0x7F)},
      .shared_bytes = static_cast<uint32_t>(shape >> 29), .door = LaunchDoor::kLegacy};
  return PassLaunch(launch, call);
}

}  // namespace

extern "C" {

CUresult hook_cuFuncSetBlockShape(CUfunction f, int x, int y, int z) noexcept {
  const CUresult result = CUPOLA_REAL(cuFuncSetBlockShape)(f, x, y, z);
  if (result == CUDA_SUCCESS && !InsideHook()) {
    shapes.Set(f, (shapes.Find(f, 0) & ~kBlockBits) | PackBlock(x, y, z));
  }
  return result;
}

CUresult hook_cuFuncSetSharedSize(CUfunction f, unsigned bytes) noexcept {
  const CUresult result = CUPOLA_REAL(cuFuncSetSharedSize)(f, bytes);
  if (result == CUDA_SUCCESS && !InsideHook()) {
    shapes.Set(f, (shapes.Find(f, PackBlock(1, 1, 1)) & kBlockBits) |
                      static_cast<uint64_t>(bytes) << 29);
  }
  return result;
}

CUresult hook_cuLaunch(CUfunction f) noexcept {
  return PassLegacy(f, 1, 1, nullptr, [&] { return CUPOLA_REAL(cuLaunch)(f); });
}

CUresult hook_cuLaunchGrid(CUfunction f, int width, int height) noexcept {
  return PassLegacy(f, width, height, nullptr,
                    [&] { return CUPOLA_REAL(cuLaunchGrid)(f, width, height); });
}

CUresult hook_cuLaunchGridAsync(CUfunction f, int width, int height, CUstream stream) noexcept {
  return PassLegacy(f, width, height, stream,
                    [&] { return CUPOLA_REAL(cuLaunchGridAsync)(f, width, height, stream); });
}

// One call makes a launch on each device. The first launch passes with the call itself, the others
// after it with the call's result.
CUresult hook_cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS* list, unsigned count,
                                                   unsigned flags) noexcept {
  const auto real = CUPOLA_REAL(cuLaunchCooperativeKernelMultiDevice);
  if (list == nullptr || count == 0) return real(list, count, flags);
  CUresult result = CUDA_SUCCESS;
  for (unsigned i = 0; i < count; ++i) {
    const CUDA_LAUNCH_PARAMS& one = list[i];
    const Launch launch{
        .function = one.function, .stream = one.hStream,
        .grid = {one.gridDimX, one.gridDimY, one.gridDimZ},
        .block = {one.blockDimX, one.blockDimY, one.blockDimZ},
        .shared_bytes = one.sharedMemBytes, .flags = kFlagCooperative,
        .door = LaunchDoor::kLaunchCooperativeMulti};
    if (i == 0) {
      result = PassLaunch(launch, [&] { return real(list, count, flags); });
    } else {
      PassLaunch(launch, [&] { return result; });
    }
  }
  return result;
}

}  // extern "C"
}  // namespace cupola::intercept
