// PieceRow: the pieces of one launch of a graph, on their way into a stream. The launch call puts all of them in at once, or
// the feeder does so as there is room (path/graph_feeder.h).
#pragma once

#include <cstdint>

#include <cuda.h>

#include "intercept/graphs/pieces.h"

namespace cupola::intercept {
struct LaunchContext;
class NodeLaunches;

/// Belongs to one thread at a time.
class PieceRow {
 public:
  /// Behind so many pieces there is a write. It costs the stream 2 us (H200), and room in the driver's queue.
  static constexpr uint32_t kPiecesAWrite = 8;

  /// Takes the set's trial, if one is wanted and no other launch has taken it. The set must live on, which the caller sees to
  /// (PieceSet::users).
  PieceRow(LaunchContext& context, graphs::PieceSet& set) noexcept;

  LaunchContext& context() const noexcept { return *context_; }
  graphs::PieceSet& set() const noexcept { return *set_; }
  uint32_t size() const noexcept { return static_cast<uint32_t>(set_->execs.size()); }
  bool is_trial() const noexcept { return is_trial_; }
  bool is_over() const noexcept { return next_ == size(); }
  uint32_t next() const noexcept { return next_; }
  uint32_t left() const noexcept { return size() - next_; }

  /// How many of the next pieces the driver takes now without a wait in it, with those that it has.
  uint32_t Fitting() const noexcept;
  /// Whether all pieces fit into an empty queue of the driver. Those of other launches must be fed.
  bool MayFit() const noexcept;

  /// How many entries of a stream (LaunchContext::queued) all pieces are, with their gates and the writes.
  uint32_t entries() const noexcept { return 2 * size() + size() / kPiecesAWrite + 1; }

  /// From now on the pieces count as PieceQueue::promised. Called before the first is put into a stream.
  void Promise() noexcept;

  /// The kernels that go with a guard in place of their pieces. They must live as long as pieces are put into a stream.
  void SetNodes(const NodeLaunches* nodes) noexcept { nodes_ = nodes; }
  bool HasNodes() const noexcept { return nodes_ != nullptr; }

  /// Puts at most `most` pieces into the stream, with a gate before each, and behind every eighth and the last a write of how
  /// many have ended. Returns what the driver returned; after a refusal the row can go on with the same piece.
  /// `per_thread`: `stream` is of a _ptsz call.
  CUresult Put(CUstream stream, bool per_thread, uint32_t most) noexcept;

  /// Called when the row is over, or will not be gone on with: its trial is under way, or another launch may take it.
  void End() noexcept;

 private:
  bool RecordEvent(size_t event, CUstream stream, bool per_thread);
  void WriteEnded(uint32_t count, CUstream stream, bool per_thread);

  LaunchContext* context_;
  graphs::PieceSet* set_;
  const NodeLaunches* nodes_ = nullptr;  ///< null: all pieces are launched as such
  uint32_t next_ = 0;      ///< the next piece
  bool is_promised_ = false;
  bool is_trial_ = false;
  bool is_timed_ = false;  ///< it is a trial, and all its events up to here are recorded
};

}  // namespace cupola::intercept
