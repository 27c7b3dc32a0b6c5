// The launch calls of a shared libcudart, as thin doors: they note that the launch came this way
// and call the libcudart that the caller would have got; the launch itself is recorded once, by the
// driver hook under it. Programs with a static libcudart never come here.
// CUDA Runtime API, "Execution Control"; the __ forms are those that nvcc 13 calls.
#include <cstddef>
#include <cstdint>

#include "intercept/next_definition.h"
#include "intercept/recorder.h"
#include "intercept/thread_state.h"

namespace cupola::intercept {
namespace {

// A dim3 by value is passed like its first two numbers in one register and the third in another
// [x86-64 psABI 3.2.3]; as such they go through without being put together.
using Launch = int (*)(const void*, uint64_t, unsigned, uint64_t, unsigned, void**, size_t, void*);
using LaunchEx = int (*)(const void*, const void*, void**);

constexpr int kNoSuchSymbol = 302;  // cudaErrorSharedObjectSymbolNotFound

class DoorScope {
 public:
  DoorScope() noexcept { ++this_thread.runtime_doors; }
  ~DoorScope() { --this_thread.runtime_doors; }
  DoorScope(const DoorScope&) = delete;
  DoorScope& operator=(const DoorScope&) = delete;
};

template <typename Function, typename... Arguments>
[[gnu::noinline]] int PassDoor(DoorName door, const void* caller, Arguments... arguments) noexcept {
  const auto next = reinterpret_cast<Function>(NextDefinition(door, caller));
  if (next == nullptr) return kNoSuchSymbol;
  const DoorScope scope;
  return next(arguments...);
}

}  // namespace

/// Leaves by a jump when nothing is recorded (see NothingRecorded) and the call site is known.
#define CUPOLA_JUMP(door, Function, ...)                                                          \
  if (NothingRecorded()) [[likely]] {                                                             \
    void* const known = KnownDefinition(door, __builtin_return_address(0));                       \
    if (known != nullptr) [[likely]] return reinterpret_cast<Function>(known)(__VA_ARGS__);       \
  }

#define CUPOLA_DOOR(name)                                                                         \
  extern "C" __attribute__((visibility("default"))) int name(                                     \
      const void* function, uint64_t grid_xy, unsigned grid_z, uint64_t block_xy,                 \
      unsigned block_z, void** arguments, size_t shared, void* stream) noexcept {                 \
    CUPOLA_JUMP(DoorName::k_##name, Launch, function, grid_xy, grid_z, block_xy, block_z,         \
                arguments, shared, stream)                                                        \
    return PassDoor<Launch>(DoorName::k_##name, __builtin_return_address(0), function, grid_xy,   \
                            grid_z, block_xy, block_z, arguments, shared, stream);                \
  }
CUPOLA_DOOR(cudaLaunchKernel)
CUPOLA_DOOR(cudaLaunchKernel_ptsz)
CUPOLA_DOOR(__cudaLaunchKernel)
CUPOLA_DOOR(__cudaLaunchKernel_ptsz)
CUPOLA_DOOR(cudaLaunchCooperativeKernel)
CUPOLA_DOOR(cudaLaunchCooperativeKernel_ptsz)
#undef CUPOLA_DOOR

#define CUPOLA_DOOR(name)                                                                    \
  extern "C" __attribute__((visibility("default"))) int name(                                \
      const void* config, const void* function, void** arguments) noexcept {                 \
    CUPOLA_JUMP(DoorName::k_##name, LaunchEx, config, function, arguments)                   \
    return PassDoor<LaunchEx>(DoorName::k_##name, __builtin_return_address(0), config,       \
                              function, arguments);                                          \
  }
CUPOLA_DOOR(cudaLaunchKernelExC)
CUPOLA_DOOR(cudaLaunchKernelExC_ptsz)
#undef CUPOLA_DOOR

}  // namespace cupola::intercept
