// Pieces and copies of graphs that are no longer used. They are kept until the driver may be asked to destroy them: that may
// wait for the device, so no launch may be guarded meanwhile, and nobody may be launching them. Part of the builder
// (pieces.cpp), which calls everything here under its build_mutex.
#pragma once

#include <atomic>

#include <cuda.h>

#include "intercept/graphs/pieced_graph.h"

namespace cupola::intercept::graphs {

/// Takes over a set and a copy of the graph; each may be null.
void Retire(const PiecedGraph& graph, PieceSet* set, GraphCopy* copy = nullptr);

/// Destroys what it can. At the process's end (`at_exit`) only memory is freed, since the driver destroys everything. Returns
/// whether something is left.
bool DestroyRetired(const std::atomic<bool>& at_exit);

/// The context has ended, and the driver's objects with it.
void ForgetRetiredOf(CUcontext context);
/// In the child after a fork: frees nothing.
void ForgetRetiredAfterFork();

}  // namespace cupola::intercept::graphs
