// The pieces of the program's graphs. In a process that others may ask to yield, a graph is launched as a row of smaller
// graphs with a gate before each, so that it can be held back between them. In a process that may ask others with which it
// shares a context (MPS), its kernels get the highest priority: there a graph may be one piece. A thread of ours, the builder, builds them
// from a copy of the graph, once it is launched while somebody may ask. It learns what the nodes take from launches
// with an event before each piece (a trial), and cuts the graph anew until the pieces are as long as is wanted.
// path/graph_launch.cpp launches them. docs/graphs.md.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include <cuda.h>

#include "intercept/graphs/node_kernel.h"
#include "intercept/graphs/piece_cut.h"

namespace cupola::intercept {
struct LaunchContext;
}

namespace cupola::intercept::graphs {

/// What the driver has in its queue at most, of all graphs in pieces of a context. On an H100 it took 141 to 392 pieces behind a
/// closed gate before a launch waited inside it: 2,200 to 2,300 *entries*, one for each node and two for each piece. On an
/// H200 it took 480 pieces, whatever was in them: 1,020 calls, which are gate and launch of each piece, and now and then a
/// write. In a trial a piece has two events as well, so that it counts as two.
inline constexpr uint32_t kMostQueuedEntries = 1'800, kEntriesOfPiece = 2;
inline constexpr uint32_t kMostQueuedPieces = 440;
/// Graphs of more nodes go whole; those of more than kMostNodesUnfed also where no launch can be deferred
/// (launch/piece_queue.h).
inline constexpr uint32_t kMostNodesInPieces = 20'000, kMostNodesUnfed = 1'300;

/// The most pieces of a graph of so many nodes. Longer graphs get longer pieces. `is_fed`: launches can be deferred, so that
/// not all of its pieces need fit into the driver's queue.
constexpr uint32_t MostPieces(uint32_t nodes, bool is_trial, bool is_fed) {
  constexpr uint32_t kMostPieces = 360, kMostFedPieces = 2'000;
  if (is_fed) return is_trial ? kMostFedPieces / 2 : kMostFedPieces;
  const uint32_t most = is_trial ? kMostQueuedPieces / 2 : kMostPieces;
  const uint32_t room = nodes < kMostQueuedEntries ? (kMostQueuedEntries - nodes) / kEntriesOfPiece : 1;
  return room < most ? room : most;
}

/// The pieces of a graph, as they were cut once. Never changed once it is published, its atomics excepted.
struct PieceSet {
  enum class Trial : uint8_t { kNone, kWanted, kBegun, kSubmitted };

  uint32_t changes = 0;            ///< PiecedGraph::changes when it was begun: it is of no use after another one
  std::vector<PieceRange> ranges;
  std::vector<CUgraphExec> execs;  ///< one for each range
  std::vector<std::unique_ptr<NodeKernel>> kernels;  ///< of each range: a kernel that can go with a guard; empty: there is none
  std::vector<CUevent> events;     ///< for a trial: of each piece one before it, behind its gate, and one behind it; else empty
  uint32_t nodes = 0;
  uint32_t most_pieces = 0;        ///< that the graph may have when it is no trial
  uint64_t expected_ns = 0;        ///< of all pieces together; 0 = not known yet
  uint64_t longest_ns = 0;         ///< of the longest piece; 0 = not known yet
  uint64_t mean_rest_ns = 0;       ///< until the piece under way has ended, on average; 0 = not known yet
  bool is_trial = false;           ///< one of its launches is to be a trial
  bool is_cut = false;             ///< false: it is one piece, for the sake of the priority
  std::atomic<Trial> trial{Trial::kNone};
  uint32_t wake = 0;               ///< BoardSlot::wake when the trial began: if it changes meanwhile, the trial is void
  std::atomic<uint32_t> users{0};  ///< threads that are launching it
};

/// The pieces in which a graph is to be launched; the builder does not destroy them while this lives.
class PiecesInUse {
 public:
  /// Called before each launch of a graph, whole ones too, into the stream of that id. `may_be_held`: others may ask the
  /// process to yield; `wants_priority`: its kernels are to have the highest priority. In both cases the builder is asked to
  /// build the pieces, if that was not done yet. A launch goes whole if the
  /// last one of the same graph was on another stream: the driver makes whole launches of a graph wait for one another,
  /// and a stream does so for what is on it. Any thread; takes no lock unless it asks the builder.
  PiecesInUse(CUgraphExec exec, const LaunchContext& context, uint64_t stream, bool may_be_held,
              bool wants_priority) noexcept;
  ~PiecesInUse();
  PiecesInUse(const PiecesInUse&) = delete;
  PiecesInUse& operator=(const PiecesInUse&) = delete;

  /// Null: the graph is launched whole.
  PieceSet* get() const noexcept { return set_; }
  /// Whether pieces of the graph may still be on another stream: a whole launch must wait for them.
  bool is_elsewhere() const noexcept { return is_elsewhere_; }
  /// Where get() is null: why the graph goes whole, a static text.
  const char* why_whole() const noexcept { return why_; }

 private:
  PieceSet* set_ = nullptr;
  bool is_elsewhere_ = false;
  const char* why_ = "its pieces are not built yet";
};

/// The trial's last event is in the stream. Wakes the builder.
void OnTrialSubmitted(PieceSet& set) noexcept;

/// `exec` was made of `graph`, on this thread, with flags of CUgraphInstantiate_flags. Keeps a copy of the graph, if it can
/// be launched in pieces, else why not.
void OnInstantiated(CUgraphExec exec, CUgraph graph, uint64_t flags) noexcept;
/// The program is about to destroy its executable graph. Nothing of it is in a launch call.
void OnDestroyed(CUgraphExec exec) noexcept;

/// Subscribes to the ends of contexts. Called when the process starts.
void StartGraphs() noexcept;
void ForgetGraphsAfterFork() noexcept;
/// From exit(), before the driver's own handlers: the builder makes no more calls.
void EndGraphsAtExit() noexcept;

}  // namespace cupola::intercept::graphs
