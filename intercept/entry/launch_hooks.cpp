// Hooks of the launch calls: each describes the launch and gives it to the launch path
// (path/launch_path.h) together with the program's own call. The build makes each hook's entry, hook_<call>: it jumps
// to the driver if nothing is recorded or watched in this process (RecordingState::kOff), else to recorded_<call>,
// which is here. Any thread. CUDA Driver API, "Execution Control".
#include <cuda.h>

#include "intercept/facts/graphs.h"
#include "intercept/path/launch_path.h"
#include "intercept/process/calls.h"

namespace cupola::intercept {
namespace {

// In the functions named Pass..., `real` is the driver's function, and `per_thread` says that it is the _ptsz form. The
// driver's call takes its arguments from `launch`, so that they are stored only once.
template <typename Function>
[[gnu::always_inline]] inline CUresult PassKernel(
    Function real, bool per_thread, CUfunction f, const uint32_t (&grid)[3],
    const uint32_t (&block)[3], unsigned shared, CUstream stream, void** params,
    void** extra) noexcept {
  const Launch launch{
      .function = f, .stream = stream, .per_thread = per_thread,
      .grid = {grid[0], grid[1], grid[2]}, .block = {block[0], block[1], block[2]},
      .shared_bytes = shared,
      .flags = static_cast<uint16_t>(extra != nullptr ? kFlagPackedArgs : 0),
      .door = LaunchDoor::kLaunchKernel,
      .params = params, .extra = extra};
  return PassLaunch(launch, [&launch, real] {
    return real(static_cast<CUfunction>(const_cast<void*>(launch.function)), launch.grid[0],
                launch.grid[1], launch.grid[2], launch.block[0], launch.block[1], launch.block[2],
                launch.shared_bytes, launch.stream, launch.params, launch.extra);
  });
}

// Cooperative launches also arrive as an attribute of cuLaunchKernelEx.
bool IsCooperative(const CUlaunchConfig& config) {
  for (unsigned i = 0; config.attrs != nullptr && i < config.numAttrs; ++i) {
    if (config.attrs[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
      return config.attrs[i].value.cooperative != 0;
    }
  }
  return false;
}

// Without a config there is nothing to describe: the call goes straight to the driver.
template <typename Function>
CUresult PassKernelEx(Function real, bool per_thread, const CUlaunchConfig* config, CUfunction f,
                      void** params, void** extra) noexcept {
  if (config == nullptr) return real(config, f, params, extra);
  const Launch launch{
      .function = f, .stream = config->hStream, .per_thread = per_thread,
      .grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
      .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
      .shared_bytes = config->sharedMemBytes,
      .flags = static_cast<uint16_t>((extra != nullptr ? kFlagPackedArgs : 0) |
                                     (IsCooperative(*config) ? kFlagCooperative : 0)),
      .door = LaunchDoor::kLaunchKernelEx,
      .params = params, .extra = extra,
      .attributes = config->attrs, .attribute_count = config->numAttrs};
  return PassLaunch(launch, [&] { return real(config, f, params, extra); });
}

template <typename Function>
CUresult PassCooperative(Function real, bool per_thread, CUfunction f, const uint32_t (&grid)[3],
                         const uint32_t (&block)[3], unsigned shared, CUstream stream,
                         void** params) noexcept {
  const Launch launch{
      .function = f, .stream = stream, .per_thread = per_thread,
      .grid = {grid[0], grid[1], grid[2]}, .block = {block[0], block[1], block[2]},
      .shared_bytes = shared, .flags = kFlagCooperative, .door = LaunchDoor::kLaunchCooperative, .params = params};
  return PassLaunch(launch, [&] {
    return real(f, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared, stream, params);
  });
}

template <typename Function>
CUresult PassGraph(Function real, bool per_thread, CUgraphExec exec, CUstream stream) noexcept {
  const Launch launch{.stream = stream, .per_thread = per_thread,
                          .graph = exec, .kernel_nodes = KernelNodesOf(exec), .door = LaunchDoor::kLaunchGraph};
  return PassLaunch(launch, [&] { return real(exec, stream); });
}

}  // namespace

/// The driver's function behind recorded_<name>, with its type.
#define CUPOLA_REAL_LAUNCH(name) (Real<decltype(&recorded_##name)>(Call::k_##name))

extern "C" {

CUresult recorded_cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                 unsigned by, unsigned bz, unsigned shared, CUstream stream,
                                 void** params, void** extra) noexcept {
  return PassKernel(CUPOLA_REAL_LAUNCH(cuLaunchKernel), false, f, {gx, gy, gz}, {bx, by, bz},
                    shared, stream, params, extra);
}

CUresult recorded_cuLaunchKernel_ptsz(CUfunction f, unsigned gx, unsigned gy, unsigned gz,
                                      unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                      CUstream stream, void** params, void** extra) noexcept {
  return PassKernel(CUPOLA_REAL_LAUNCH(cuLaunchKernel_ptsz), true, f, {gx, gy, gz}, {bx, by, bz},
                    shared, stream, params, extra);
}

CUresult recorded_cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** params,
                                   void** extra) noexcept {
  return PassKernelEx(CUPOLA_REAL_LAUNCH(cuLaunchKernelEx), false, config, f, params, extra);
}

CUresult recorded_cuLaunchKernelEx_ptsz(const CUlaunchConfig* config, CUfunction f, void** params,
                                        void** extra) noexcept {
  return PassKernelEx(CUPOLA_REAL_LAUNCH(cuLaunchKernelEx_ptsz), true, config, f, params, extra);
}

CUresult recorded_cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz,
                                            unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                            CUstream stream, void** params) noexcept {
  return PassCooperative(CUPOLA_REAL_LAUNCH(cuLaunchCooperativeKernel), false, f, {gx, gy, gz},
                         {bx, by, bz}, shared, stream, params);
}

CUresult recorded_cuLaunchCooperativeKernel_ptsz(CUfunction f, unsigned gx, unsigned gy,
                                                 unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                                 unsigned shared, CUstream stream,
                                                 void** params) noexcept {
  return PassCooperative(CUPOLA_REAL_LAUNCH(cuLaunchCooperativeKernel_ptsz), true, f, {gx, gy, gz},
                         {bx, by, bz}, shared, stream, params);
}

CUresult recorded_cuGraphLaunch(CUgraphExec exec, CUstream stream) noexcept {
  return PassGraph(CUPOLA_REAL_LAUNCH(cuGraphLaunch), false, exec, stream);
}

CUresult recorded_cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream) noexcept {
  return PassGraph(CUPOLA_REAL_LAUNCH(cuGraphLaunch_ptsz), true, exec, stream);
}

}  // extern "C"

}  // namespace cupola::intercept
