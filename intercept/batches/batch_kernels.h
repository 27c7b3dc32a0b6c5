// Keeps what must be known of a kernel before a launch of it can be held back: where its parameters lie, and
// which shapes of launches the driver accepts. batches.cpp calls all of it under its lock; a BatchKernel lives
// until ForgetKernels.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda.h>

namespace cupola::intercept {
struct Launch;
}  // namespace cupola::intercept

namespace cupola::intercept::batches {

/// A launch with more bytes of parameters is not held.
inline constexpr uint32_t kMostParameterBytes = 256;

struct BatchKernel {
  static constexpr uint32_t kMostParameters = 32;
  static constexpr uint32_t kMostShapes = 4;
  struct Parameter {
    uint16_t offset;  ///< in the kernel's parameters, in bytes
    uint16_t bytes;
  };

  const void* program = nullptr;    ///< CUfunction or CUkernel, as the program launches it
  CUfunction function = nullptr;    ///< the same in `context`
  CUcontext context = nullptr;      ///< in which it was launched first
  bool is_usable = false;           ///< launches of it can be held
  uint32_t parameters = 0;          ///< number of parameters
  uint32_t bytes = 0;               ///< of all parameters
  Parameter each[kMostParameters];
  uint32_t shape_count = 0;         ///< shapes so far; the last kMostShapes are kept
  uint64_t shapes[kMostShapes];     ///< block dimensions and shared memory that the driver accepted
};

/// A launch that is held back.
struct HeldLaunch {
  /// Takes over the kernel and the shape of `launch`, but no arguments.
  void Take(const Launch& launch, const BatchKernel& kernel) noexcept;
  /// Sets `params`, which has room for kMostParameters pointers, to the arguments, as kernelParams.
  void PointAtArguments(void** params) const noexcept;

  const BatchKernel* kernel;
  uint32_t grid[3];       ///< blocks in x, y, z
  uint32_t block[3];      ///< threads in x, y, z
  uint32_t shared_bytes;  ///< dynamic shared memory of a block
  uint32_t bytes;         ///< of `parameters` that are in use
  alignas(16) std::byte parameters[kMostParameterBytes];

  /// Whether a graph's node that launches `other` needs no change to launch this.
  bool IsSame(const HeldLaunch& other) const noexcept;
};

/// The kernel of `launch` in `context`, if the driver is known to accept a launch of it with this grid, these
/// blocks and this much shared memory; else null.
const BatchKernel* FindKernel(const Launch& launch, CUcontext context) noexcept;

/// Remembers that the driver accepted a launch in `context`. Queries the driver about a kernel that was not
/// seen before; this does not wait, since the kernel is loaded. Null: no launch of the kernel can be held.
const BatchKernel* LearnKernel(const Launch& launch, CUcontext context) noexcept;

/// Copies the launch's shape and arguments. False: the arguments do not match the kernel's parameters.
bool CopyLaunch(const Launch& launch, const BatchKernel& kernel,
                HeldLaunch* to) noexcept;

/// Whether any kernel is known.
bool KnowsKernels() noexcept;

/// Forgets all kernels, because handles may mean other kernels from now on, or limits have changed.
void ForgetKernels() noexcept;

/// The same in the child after a fork, where another thread of the parent may have been amid a change.
void ForgetKernelsAfterFork() noexcept;

}  // namespace cupola::intercept::batches
