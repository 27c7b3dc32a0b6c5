#include "intercept/graphs/graph_change.h"

#include "intercept/facts/streams.h"
#include "intercept/graphs/pieced_graph.h"
#include "intercept/process/driver_calls.h"

namespace cupola::intercept::graphs {
namespace {

using State = PiecedGraph::State;

constexpr uint32_t kWholeLaunches = 3;  // after a change
constexpr uint32_t kMostHasty = 2;      // changes that came before these were over

}  // namespace

GraphChange::GraphChange(CUgraphExec exec) noexcept {
  graph_ = FindPieced(exec);  // plant: change_unseen
  if (graph_ == nullptr) return;
  graph_->changes.fetch_add(1);
  const State before = graph_->state.load();
  if (before == State::kWhole) {
    graph_ = nullptr;
    return;
  }
  // Changes with no launch between them are one.
  if (graph_->was_launched) graph_->hasty_changes = graph_->whole_launches != 0 ? graph_->hasty_changes + 1 : 0;
  graph_->was_launched = false;
  graph_->whole_launches = kWholeLaunches;
  if (graph_->hasty_changes > kMostHasty) {
    GiveUp("the program changes it again and again");
    return;
  }
  if (before == State::kKept) return;  // there are no pieces yet
  graph_->why.store("the program has changed it");
  graph_->state.store(State::kChanged);
}

void GraphChange::GiveUp(const char* why) noexcept {
  if (graph_ == nullptr) return;
  graph_->why.store(why);
  graph_->state.store(State::kWhole);
  graph_ = nullptr;
}

pthread_mutex_t* GraphChange::mutex() const noexcept { return &graph_->copy_mutex; }

CUgraphNode GraphChange::Find(CUgraphNode node) const noexcept { return graph_->copy->FindCopied(node); }

void GraphChange::OfEnabled(CUgraphNode node, bool is_enabled) noexcept {
  if (graph_ == nullptr) return;
  const MutexLock lock(*mutex());
  const CUgraphNode copied = Find(node);
  if (copied == nullptr || !graph_->copy->SetEnabled(copied, is_enabled)) GiveUp("a change of it cannot be followed");
}

void GraphChange::OfAll(CUgraph graph) noexcept {
  if (graph_ == nullptr) return;
  const RelaxedCapture relaxed;
  const char* why = nullptr;
  GraphCopy* const copy = GraphCopy::Make(graph, graph_->flags, kMostNodesInPieces, &why);
  if (copy == nullptr) return GiveUp(why);
  const MutexLock lock(*mutex());
  graph_->replaced.push_back(graph_->copy);
  graph_->copy = copy;  // plant: update_not_followed
}

}  // namespace cupola::intercept::graphs
