// NodeKernel: a kernel of a program's graph that takes longer than a piece and has a variant. It stands alone in its piece, and
// is launched by itself, with a guard, in place of the piece (path/node_launches.h), so that it can be stopped half-way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <cuda.h>

#include "intercept/graphs/piece_cut.h"

namespace cupola::intercept::graphs {

class GraphCopy;

/// What a launch of the kernel needs. Never changed once it is made.
struct NodeKernel {
  const void* function = nullptr;  ///< CUfunction or CUkernel of the program; FindVariant knew it when this was made
  uint32_t grid[3] = {};           ///< blocks, as x, y, z
  uint32_t block[3] = {};          ///< threads of a block, as x, y, z
  uint32_t shared_bytes = 0;       ///< dynamic shared memory of a block
  CUlaunchAttribute priority{};    ///< the priority that the program gave it; else its id is IGNORE
  std::vector<std::byte> arguments;
  std::vector<void*> params;       ///< kernelParams of a launch: each points into `arguments`
};

/// Whether the node is a kernel that has a variant.
bool HasVariant(CUgraphNode node) noexcept;

/// The kernel of a node. Null: it is no kernel, has no preemptible variant, or has attributes that its variant cannot carry.
std::unique_ptr<NodeKernel> ReadNodeKernel(CUgraphNode node);

/// For each range the kernel that is alone in it and expected to take more than `above_ns`; else null. Empty: there is none.
std::vector<std::unique_ptr<NodeKernel>> FindNodeKernels(const GraphCopy& copy, const std::vector<PieceRange>& ranges,
                                                         uint64_t above_ns);

}  // namespace cupola::intercept::graphs
