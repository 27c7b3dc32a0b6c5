// The PTX of a persistent worker around the body of a kernel: how it claims blocks, looks for a
// stop, hands back and leaves. Text against the layouts of device/runtime/preempt_control.h.
// Internal to the folder; pure.
#pragma once

#include <cstdint>
#include <vector>

#include "device/compiler/ptx/ir.h"

namespace cupola::passes {

/// How threads of a block that are through with it wait for the others.
enum class Meeting : uint8_t {
  kBarrier,     ///< all threads come to the same barriers of the body: one more barrier
  kRendezvous,  ///< some return before others come to a barrier: all meet at one place (early_return.h)
  kReducing,    ///< the same, and barriers of the body reduce values: two phases a barrier
};

struct WorkerShape {
  Meeting meeting = Meeting::kBarrier;
  uint32_t barrier = 0;           ///< its number
  bool tells_functions = false;   ///< device functions read block indices in cupola_block
  bool waits_for_copies = false;  ///< the body has cp.async
  bool shares_in_blocks = true;   ///< a block ends before the worker's next one begins
  uint32_t resumes = 0;           ///< not of kBarrier: how many barriers the body had (RouteBarriers)
};

/// Bytes of `cupola_worker`, the worker's own shared memory.
inline constexpr uint32_t kWorkerSharedBytes = 80;

/// What goes around the body, which stands between `before` and `after`, of kBarrier in a scope of its own, and
/// leaves by "bra $cupola_tail": %cupola_x, _y and _z are the indices of its block.
struct WorkerCode {
  std::vector<ptx::Statement> before, after;
};
WorkerCode MakeWorkerCode(const WorkerShape& shape);

}  // namespace cupola::passes
