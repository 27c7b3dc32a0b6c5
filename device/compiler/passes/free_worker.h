// The PTX of a worker whose warps go from range to range by themselves: of kernels whose blocks
// share nothing inside. See worker_code.h. Internal to the folder; pure.
#pragma once

#include <cstdint>

#include "device/compiler/passes/worker_code.h"

namespace cupola::passes {

/// Bytes of its cupola_worker.
inline constexpr uint32_t kFreeWorkerBytes = 128;

/// Precondition: shape.warps_run_free.
WorkerCode MakeFreeWorker(const WorkerShape& shape);

}  // namespace cupola::passes
