// The grid of a launch that has become a task. It lies in the task's record between the header and
// the kernel's parameters. Plain layouts, for host and device code alike. docs/masterkernel.md.
#pragma once

#include <cstdint>

#include "device/runtime/task_record.h"

namespace cupola::runtime {

/// Shape of the launch. intercept/tasks writes it; master_image.cu reads it.
struct TaskGrid {
  uint16_t block[3];  ///< threads of a block: x, y, z
  uint16_t blocks_z;  ///< blocks of the grid
  uint32_t blocks_x;
  uint32_t blocks_y;
};
static_assert(sizeof(TaskGrid) == 16);

/// The most bytes of a kernel's parameters. They begin at a multiple of 16.
inline constexpr uint32_t kTaskParameterBytes = kTaskArgumentBytes - sizeof(TaskGrid);
static_assert((sizeof(TaskHeader) + sizeof(TaskGrid)) % 16 == 0);

/// TaskHeader::body of a task that copies memory instead of running a kernel. The device must be
/// able to read and write both ranges. The task's parameters are a TaskCopy.
inline constexpr uint16_t kCopyBody = 0xffff;
struct TaskCopy {
  uint64_t to;    ///< device address
  uint64_t from;  ///< device address
  uint64_t bytes;
};

/// TaskHeader::body of a task that sets memory. The task's parameters are a TaskFill.
inline constexpr uint16_t kFillBody = 0xfffe;
struct TaskFill {
  uint64_t to;       ///< device address
  uint32_t pattern;  ///< four bytes, which are repeated
  uint32_t bytes;    ///< bytes to set
};

/// Bodies with numbers below this are kernels.
inline constexpr uint16_t kFirstOwnBody = kFillBody;

/// MasterParams::unit_bytes of a MasterKernel that runs launches as tasks. A block may have up to
/// kArenaUnits units.
inline constexpr uint32_t kTaskUnitBytes = 512;

/// A body is told a thread's index in its block as x | y << kTaskThreadBits |
/// z << (2 * kTaskThreadBits).
inline constexpr uint32_t kTaskThreadBits = 11;

}  // namespace cupola::runtime
