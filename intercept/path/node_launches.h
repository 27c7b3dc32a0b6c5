// NodeLaunches: the kernels of one launch of a graph in pieces that go with a guard, in place of their pieces, so that they can
// be stopped half-way (graphs/node_kernel.h). The launch call makes it before it takes launch_mutex, since a kernel's first
// launch may have to wait for the device; PieceRow then makes the launches. On any doubt a kernel goes as its piece.
#pragma once

#include <cstdint>
#include <vector>

#include <cuda.h>

#include "intercept/graphs/pieces.h"
#include "intercept/launch/known_launch.h"
#include "intercept/launch/launch.h"
#include "intercept/launch/packed_launch.h"

namespace cupola::intercept {
struct LaunchContext;
struct StreamKey;

/// Belongs to one launch call.
class NodeLaunches {
 public:
  /// `of` is the launch of the graph. Chooses the kernels that are worth a guard now. May wait for the device.
  NodeLaunches(LaunchContext& context, const Launch& of, const StreamKey& stream, const graphs::PieceSet& set);

  bool IsEmpty() const noexcept { return all_.empty(); }
  /// How long they are expected to take together, in nanoseconds.
  uint64_t ns() const noexcept { return ns_; }

  /// Launches the kernel that stands for that piece. False: there is none, or it cannot go with a guard now; nothing was
  /// launched. The caller holds launch_mutex.
  bool Launch(uint32_t piece, CUresult* result) const noexcept;

 private:
  struct One {
    uint32_t piece;
    intercept::Launch launch;
    KeptAttributes attributes;
    PreemptibleForm form;
  };
  std::vector<One> all_;  // in the order of the pieces
  uint64_t ns_ = 0;
};

}  // namespace cupola::intercept
