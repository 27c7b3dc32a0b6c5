// PiecedGraph: what is known of one executable graph of the program. For pieces.cpp, which builds its pieces, and for
// graph_change.cpp, which follows the program's changes of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include <cuda.h>
#include <pthread.h>

#include "intercept/graphs/graph_copy.h"
#include "intercept/graphs/pieces.h"

namespace cupola::intercept::graphs {

/// The members without a note belong to the builder, under build_mutex.
struct PiecedGraph {
  enum class State : uint8_t {
    kKept,     ///< there is a copy; nobody may ask yet
    kWanted,   ///< the builder is to build pieces
    kReady,    ///< `set` may be used
    kChanged,  ///< the program has changed it lately: it goes whole for `whole_launches`
    kWhole,    ///< it is launched whole for good
    kGone,     ///< the program's graph was destroyed: the builder frees everything
  };
  std::atomic<State> state{State::kKept};  ///< any thread
  std::atomic<PieceSet*> set{nullptr};     ///< any thread; changed by the builder
  std::atomic<uint64_t> stream{0};         ///< id of the stream of its last launch; 0 = there was none; any thread
  std::atomic<const char*> why{nullptr};   ///< why it is launched whole; null: it is not; any thread
  std::atomic<uint32_t> changes{0};        ///< how often the program has changed it; any thread
  /// Launches for which it still goes whole, and how often it was changed again before these were over. For the threads of
  /// the program, which neither change nor launch a graph on two of them at once.
  uint32_t whole_launches = 0, hasty_changes = 0;
  bool was_launched = false;  ///< since the last change; the same
  CUcontext context = nullptr;  ///< never changes
  uint64_t flags = 0;           ///< those with which it was instantiated; never change
  bool has_context = true;      ///< false: the context has ended; under build_mutex
  /// Guards `copy` and what is in it; never held while somebody waits for a guarded launch.
  pthread_mutex_t copy_mutex = PTHREAD_MUTEX_INITIALIZER;
  GraphCopy* copy = nullptr;               ///< null: it cannot be launched in pieces
  std::vector<GraphCopy*> replaced;        ///< copies that are to be destroyed; under copy_mutex
  std::vector<uint64_t> node_ns;           ///< expected times, in the order of `copy`
  uint32_t trials = 0;                     ///< of which something was learnt
  uint32_t void_trials = 0;                ///< during which somebody asked for the GPU
  PieceSet* building = nullptr;            ///< pieces that are being built
  const int* priority = nullptr;           ///< the priority for its kernels; null: their own
};

/// Null: it is not known.
PiecedGraph* FindPieced(CUgraphExec exec) noexcept;

}  // namespace cupola::intercept::graphs
