// The graphs that batches are launched as: chains of kernel nodes, made once and given other launches each
// time. All under the lock of the batches (batches.cpp). CUDA Driver API, "Graph Management".
#pragma once

#include <cstdint>

#include <cuda.h>

#include "intercept/batches/batch_kernels.h"

namespace cupola::intercept::batches {

/// Makes all graphs (batch_row.h, kGraphSizes), with nodes that launch `first`, for `context`, which is
/// current and at rest, and has them uploaded in `stream`: some 1 ms. False: the driver refused; there are
/// none then.
bool MakeGraphs(CUcontext context, CUstream stream, const HeldLaunch& first) noexcept;

/// Whether there are graphs, and of which context.
bool HasGraphs(CUcontext context) noexcept;

/// Launches a graph of `count` nodes, one of kGraphSizes, that does what `launches` are, one after the
/// other. The context is current. Does not wait, but where a launch would. On an error nothing has been
/// launched.
CUresult LaunchAsGraph(const HeldLaunch* launches, uint32_t count, CUstream stream) noexcept;

/// Whether the device is not far behind: at most some 60 graphs have been launched that have not ended. A
/// launch of a graph finds room in the driver's queues then, and does not wait. Asks the driver now and then.
bool HasRoom() noexcept;

/// Destroys them; those that run end as they would.
void EndGraphs() noexcept;

/// In the child of a fork, or when their context has ended: they are not touched.
void ForgetGraphs() noexcept;

}  // namespace cupola::intercept::batches
