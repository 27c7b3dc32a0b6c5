// The launch calls of a shared libcudart, as thin doors: they note that the launch came this way
// and call the libcudart that the caller would have got; the launch itself is recorded once, by the
// driver hook under it. Programs with a static libcudart never come here.
// CUDA Runtime API, "Execution Control"; the __ forms are those that nvcc 13 calls.
#include <cstddef>

#include "intercept/next_definition.h"
#include "intercept/thread_state.h"

namespace cupola::intercept {
namespace {

// dim3 and cudaStream_t as the ABI passes them; the runtime's headers are not needed for more.
struct Dim3 {
  unsigned x, y, z;
};
using Launch = int (*)(const void*, Dim3, Dim3, void**, size_t, void*);
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
int PassDoor(DoorName door, const void* caller, Arguments... arguments) noexcept {
  const auto next = reinterpret_cast<Function>(NextDefinition(door, caller));
  if (next == nullptr) return kNoSuchSymbol;
  const DoorScope scope;
  return next(arguments...);
}

}  // namespace

#define CUPOLA_DOOR(name)                                                                         \
  extern "C" __attribute__((visibility("default"))) int name(                                     \
      const void* function, Dim3 grid, Dim3 block, void** arguments, size_t shared,               \
      void* stream) noexcept {                                                                    \
    return PassDoor<Launch>(DoorName::k_##name, __builtin_return_address(0), function, grid,      \
                            block, arguments, shared, stream);                                    \
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
    return PassDoor<LaunchEx>(DoorName::k_##name, __builtin_return_address(0), config,       \
                              function, arguments);                                          \
  }
CUPOLA_DOOR(cudaLaunchKernelExC)
CUPOLA_DOOR(cudaLaunchKernelExC_ptsz)
#undef CUPOLA_DOOR

}  // namespace cupola::intercept
