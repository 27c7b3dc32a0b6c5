// What must be known of a kernel before a launch of it can be held back: where its parameters lie, and
// that the driver takes such launches. All under the lock of the batches (batches.cpp).
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda.h>

namespace cupola::intercept {
struct LaunchFacts;
struct LaunchDetails;
}  // namespace cupola::intercept

namespace cupola::intercept::batches {

/// Launches with more bytes of parameters are not held.
inline constexpr uint32_t kMostParameterBytes = 256;

struct BatchKernel {
  static constexpr uint32_t kMostParameters = 32;
  static constexpr uint32_t kMostShapes = 4;
  struct Parameter {
    uint16_t offset, bytes;
  };

  const void* program = nullptr;  ///< CUfunction or CUkernel, as the program launches it
  CUfunction function = nullptr;  ///< in the context that it was launched in
  CUcontext context = nullptr;
  bool is_usable = false;
  uint32_t parameters = 0;
  uint32_t bytes = 0;  ///< of all parameters
  Parameter each[kMostParameters];
  uint32_t shape_count = 0;
  uint64_t shapes[kMostShapes];  ///< blocks and shared memory that the driver took; the latest ones
};

/// A launch that is held back.
struct HeldLaunch {
  /// Of `kernel`, with the shape that `facts` say; its parameters are not set.
  void Take(const LaunchFacts& facts, const BatchKernel& kernel) noexcept;
  /// Its arguments as a launch's kernelParams, room for kMostParameters of them.
  void PointAtArguments(void** params) const noexcept;

  const BatchKernel* kernel;
  uint32_t grid[3], block[3];
  uint32_t shared_bytes, bytes;
  alignas(16) std::byte parameters[kMostParameterBytes];

  /// Whether a graph's node that has `other` needs no change.
  bool IsSame(const HeldLaunch& other) const noexcept;
};

/// The kernel of `function` in `context`, where a launch of it with such blocks, as many bytes of shared
/// memory and such a grid is taken by the driver; null where that is not known.
const BatchKernel* FindKernel(const LaunchFacts& facts, CUcontext context) noexcept;

/// The driver took a launch in `context`: remembers that. Asks the driver about a kernel that it has not
/// seen before; does not wait, since the kernel is loaded. Null: none of its launches can be held.
const BatchKernel* LearnKernel(const LaunchFacts& facts, CUcontext context) noexcept;

/// Copies what the launch says. False: its parameters are not as the kernel has them.
bool CopyLaunch(const LaunchFacts& facts, const LaunchDetails& details, const BatchKernel& kernel,
                HeldLaunch* to) noexcept;

/// Whether any kernel is known.
bool KnowsKernels() noexcept;

/// Handles may mean other kernels from now on, or their limits have changed.
void ForgetKernels() noexcept;

/// The same in the child of a fork, where another thread of the parent may have been amid a change.
void ForgetKernelsAfterFork() noexcept;

}  // namespace cupola::intercept::batches
