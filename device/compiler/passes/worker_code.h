// The PTX of a persistent worker around the body of a kernel: how the worker claims blocks, looks for
// a stop, hands blocks back and leaves. It is text written against the layouts of
// device/runtime/preempt_control.h. Internal to the folder; pure.
#pragma once

#include <cstdint>
#include <vector>

#include "device/compiler/ptx/ir.h"

namespace cupola::passes {

/// How the threads of a block that have finished it wait for the others.
enum class Meeting : uint8_t {
  kBarrier,     ///< all threads come to the same barriers of the body: one more barrier is enough
  kRendezvous,  ///< some return before others come to a barrier: all meet at one place (early_return.h)
  kReducing,    ///< like kRendezvous, and barriers of the body reduce values: two phases a barrier
};

/// What MakeWorkerCode must know of the body. The planner sets it.
struct WorkerShape {
  Meeting meeting = Meeting::kBarrier;
  uint32_t barrier = 0;           ///< number of the barrier at which the threads meet
  bool tells_functions = false;   ///< device functions read block indices in cupola_block
  bool waits_for_copies = false;  ///< the body has cp.async
  bool shares_in_blocks = true;   ///< a block must end before the worker's next one begins
  uint32_t resumes = 0;           ///< number of barriers that the body had (RouteBarriers); 0 for kBarrier
};

/// Size in bytes of `cupola_worker`, the worker's own shared memory.
inline constexpr uint32_t kWorkerSharedBytes = 80;

/// The code around the body. The body stands between `before` and `after`, with kBarrier in a scope of its own, and
/// leaves by "bra $cupola_tail". In the body %cupola_x, _y and _z are the indices of its block.
struct WorkerCode {
  std::vector<ptx::Statement> before;
  std::vector<ptx::Statement> after;
};
WorkerCode MakeWorkerCode(const WorkerShape& shape);

}  // namespace cupola::passes
