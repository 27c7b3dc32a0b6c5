// What a launch that has become a task says of its grid: in the record, between the header and the
// kernel's parameters. Plain layout, for host and device code alike. docs/narrow-tasks.md.
#pragma once

#include <cstdint>

#include "device/runtime/task_record.h"

namespace cupola::runtime {

struct TaskGrid {
  uint16_t block[3];  ///< threads: x, y, z
  uint16_t blocks_z;
  uint32_t blocks_x, blocks_y;
};
static_assert(sizeof(TaskGrid) == 16);

/// Of a kernel's parameters, which lie at a multiple of 16.
inline constexpr uint32_t kTaskParameterBytes = kTaskArgumentBytes - sizeof(TaskGrid);
static_assert((sizeof(TaskHeader) + sizeof(TaskGrid)) % 16 == 0);

/// TaskHeader::body of a copy between memory that the device can read and write, in place of a
/// kernel; its parameters are a TaskCopy.
inline constexpr uint16_t kCopyBody = 0xffff;
struct TaskCopy {
  uint64_t to, from;
  uint64_t bytes;
};

/// The same of one that sets memory; its parameters are a TaskFill.
inline constexpr uint16_t kFillBody = 0xfffe;
struct TaskFill {
  uint64_t to;
  uint32_t pattern;  ///< of four bytes, again and again
  uint32_t bytes;
};

/// Bodies below this are kernels.
inline constexpr uint16_t kFirstOwnBody = kFillBody;

/// MasterParams::unit_bytes of a MasterKernel that runs launches: a block may have up to
/// kArenaUnits of these.
inline constexpr uint32_t kTaskUnitBytes = 512;

/// How a thread's index in its block is told to a body: x | y << kTaskThreadBits | z << twice that.
inline constexpr uint32_t kTaskThreadBits = 11;

}  // namespace cupola::runtime
