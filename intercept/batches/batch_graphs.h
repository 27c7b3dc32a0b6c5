// The graphs as which batches are launched: chains of kernel nodes that are made once and whose nodes are set
// to other launches each time. There is one set of graphs in the process, for one context. batches.cpp calls
// all of it under its lock. CUDA Driver API, "Graph Management".
#pragma once

#include <cstdint>

#include <cuda.h>

#include "intercept/batches/batch_kernels.h"

namespace cupola::intercept::batches {

/// Makes all graphs (batch_row.h, kGraphSizes) for `context`, which must be current and at rest, with nodes
/// that launch `first`, and uploads them in `stream`. Takes some 1 ms. False: the driver refused, and there
/// are no graphs.
bool MakeGraphs(CUcontext context, CUstream stream, const HeldLaunch& first) noexcept;

/// Whether there are graphs of this context.
bool HasGraphs(CUcontext context) noexcept;

/// Launches `launches`, one after the other, as a graph of `count` nodes; `count` is one of kGraphSizes. The
/// graphs' context is current. Waits only where a launch would. After an error nothing has been launched.
CUresult LaunchAsGraph(const HeldLaunch* launches, uint32_t count, CUstream stream) noexcept;

/// Whether at most some 60 of the launched graphs have not ended. Then the launch of another graph finds room
/// in the driver's queues and does not wait. Queries the driver now and then.
bool HasRoom() noexcept;

/// Destroys the graphs; those that run still run to their end.
void EndGraphs() noexcept;

/// Forgets the graphs without touching them: in the child after a fork, or when their context has ended.
void ForgetGraphs() noexcept;

}  // namespace cupola::intercept::batches
