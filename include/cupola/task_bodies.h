/// @file
/// The functions that are the bodies of a TaskSystem: how the arguments of each are packed into a
/// task's record, and the two kernels that call them by number, their index in the list of
/// functions: the MasterKernel, and the kernel of solo tasks (tasks that are launches of their
/// own). cupola/task.h includes this header; programs use only Registers of it. For C++20 and nvcc.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "device/runtime/master_kernel.cuh"
#include "device/runtime/solo_task.cuh"

namespace cupola::task {

/// Number of registers of a thread that the bodies of a TaskSystem may use. It decides the shape of
/// the MTBs on an SM. Bodies that need more registers keep values in local memory (nvcc -Xptxas -v
/// says so of the MasterKernel). With more registers a thread, fewer threads run at a time. [CUDA
/// C++ Programming Guide, "Launch Bounds"]
enum class Registers : uint32_t {
  k32 = 32,   ///< two MTBs of 1,024 threads on an SM
  k64 = 64,   ///< one of 1,024
  k128 = 128  ///< one of 512
};

/// Threads of an MTB, those of its scheduler warp included.
/// @param registers  of a thread
/// @return 1,024 or 512
constexpr uint32_t MtbThreads(Registers registers) {
  return runtime::MtbThreads(static_cast<uint32_t>(registers));
}
/// MTBs that are on an SM at a time.
/// @param registers  of a thread
/// @return 2 or 1
constexpr uint32_t MtbsOfAnSm(Registers registers) {
  return runtime::MtbsOfAnSm(static_cast<uint32_t>(registers));
}

namespace internal {

/// Where each parameter of a function lies in the arguments of a record, and how they are packed.
/// Only for functions that return nothing; `Function` is a pointer to the `__device__` function.
template <auto Function>
struct Body;

template <class... Parameters, void (*Function)(Parameters...)>
struct Body<Function> {
  /// Offset of parameter `which` in bytes, each at a multiple of its alignment; for the number of
  /// parameters, the bytes of all together.
  static constexpr uint32_t Offset(uint32_t which) {
    const uint32_t sizes[] = {0, sizeof(Parameters)...}, aligns[] = {1, alignof(Parameters)...};
    uint32_t at = 0;
    for (uint32_t i = 1; i <= which; ++i)
      at = (at + aligns[i] - 1) / aligns[i] * aligns[i] + sizes[i];
    // Behind the parameter before it, at the next multiple of its own alignment.
    if (which != sizeof...(Parameters)) {
      at = (at + aligns[which + 1] - 1) / aligns[which + 1] * aligns[which + 1];
    }
    return at;
  }
  template <uint32_t kWhich>
  static constexpr uint32_t kOffset = Offset(kWhich);
  static constexpr uint32_t kBytes = kOffset<sizeof...(Parameters)>;
  static_assert(kBytes <= runtime::kTaskArgumentBytes, "a task has at most 176 bytes of arguments");
  static_assert((std::is_trivially_copyable_v<Parameters> && ...));
  static_assert(((alignof(Parameters) <= runtime::kTaskArgumentAlign) && ...),
                "a task has no arguments that are aligned to more than 16 bytes");

  static void Pack(char* to, Parameters... parameters) {
    uint32_t which = 0;
    (std::memcpy(to + Offset(which++), &parameters, sizeof parameters), ...);
  }
  /// Like Pack, from a pointer to each argument, as cudaLaunchKernel takes them.
  static void PackFrom(char* to, [[maybe_unused]] void* const* from) {
    [[maybe_unused]] uint32_t which = 0;
    ((std::memcpy(to + Offset(which), from[which], sizeof(Parameters)), ++which), ...);
  }
  static constexpr uint32_t kParameters = sizeof...(Parameters);

  template <uint32_t... Which>
  __device__ static void CallWith(const char* from, std::integer_sequence<uint32_t, Which...>) {
    Function(*reinterpret_cast<const Parameters*>(from + kOffset<Which>)...);
  }
  __device__ static void Call(const char* from) {
    CallWith(from, std::make_integer_sequence<uint32_t, sizeof...(Parameters)>());
  }
};

/// What SpawnBody needs of a body that it knows by number only.
struct BodyFacts {
  uint32_t parameters;  ///< number of parameters
  uint32_t bytes;       ///< of the packed arguments
  void (*pack)(char* to, void* const* from);
};

/// Whether two functions, perhaps of different types, are the same one.
template <auto One, auto Other>
constexpr bool IsSame() {
  if constexpr (std::is_same_v<decltype(One), decltype(Other)>) {
    return One == Other;
  } else {
    return false;
  }
}

/// All bodies of a TaskSystem.
template <auto... Functions>
struct Bodies {
  /// The number of a function among them; 0xffff if it is not one.
  template <auto Function>
  static constexpr uint16_t Index() {
    uint16_t index = 0;
    const bool found = ((IsSame<Function, Functions>() || (++index, false)) || ...);
    return found ? index : 0xffff;
  }
  static constexpr BodyFacts kFacts[] = {
      {Body<Functions>::kParameters, Body<Functions>::kBytes, &Body<Functions>::PackFrom}...};
  /// Calls the function with the number `body`, for the calling thread.
  __device__ static void Run(uint32_t body, const char* arguments) {
    uint32_t index = 0;
    ((body == index++ ? Body<Functions>::Call(arguments) : void()), ...);
  }
};

/// The MasterKernel of these bodies. Its launch bounds are what limits the bodies' registers.
template <Registers kRegisters, auto... Functions>
__global__ void __launch_bounds__(MtbThreads(kRegisters), MtbsOfAnSm(kRegisters))
    MasterKernel(const __grid_constant__ runtime::MasterParams params) {
  runtime::RunMtb<Bodies<Functions...>>(params);
}

/// The launch that runs one task by itself: the same bodies, with as many registers as they need.
template <Registers kRegisters, auto... Functions>
__global__ void __launch_bounds__(MtbThreads(kRegisters))
    SoloKernel(const __grid_constant__ runtime::SoloParams params) {
  runtime::RunSolo<Bodies<Functions...>>(params);
}

}  // namespace internal

}  // namespace cupola::task
