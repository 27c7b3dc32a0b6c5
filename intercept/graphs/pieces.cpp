#include "intercept/graphs/pieces.h"

#include <algorithm>
#include <ctime>
#include <new>
#include <utility>

#include <pthread.h>

#include "intercept/facts/green_contexts.h"
#include "intercept/facts/streams.h"
#include "intercept/graphs/graph_copy.h"
#include "intercept/graphs/pieced_graph.h"
#include "intercept/graphs/queue_setup.h"
#include "intercept/graphs/retired_pieces.h"
#include "intercept/images/images.h"
#include "intercept/launch/agent_context.h"
#include "intercept/launch/gates.h"
#include "intercept/launch/gpu_board.h"
#include "intercept/launch/launch_context.h"
#include "intercept/launch/launch_counters.h"
#include "intercept/launch/own_call_scope.h"
#include "intercept/launch/preemption_settings.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/fast_clock.h"
#include "intercept/process/handle_map.h"
#include "intercept/process/mutex_lock.h"
#include "intercept/process/notice.h"
#include "intercept/process/own_thread.h"
#include "intercept/process/participation.h"
#include "intercept/process/thread_state.h"

namespace cupola::intercept::graphs {
namespace {

constexpr uint32_t kFirstNodes = 4;    // nodes of a piece while nothing is known of their times
constexpr uint32_t kMostNodes = 64;    // of a piece, later
constexpr uint32_t kMostTrials = 4;
constexpr uint32_t kMostVoidTrials = 8;  // where processes take turns, somebody asks during each
constexpr uint64_t kBuildNs = 20'000'000;  // so long pieces are built at a time, while no launch is guarded or deferred
constexpr uint64_t kLookNs = 2'000'000;  // between two looks whether a trial is over
constexpr size_t kStackBytes = 256 << 10;

constexpr char kShort[] = "it is short";

HandleMap by_exec;  // CUgraphExec -> PiecedGraph*

// Held while the builder makes driver calls for a graph, and by whoever ends a context. Not held while somebody waits
// for a graph of the program.
pthread_mutex_t build_mutex = PTHREAD_MUTEX_INITIALIZER;

// `all_mutex` guards `all` and `has_news`; never held over a driver call.
pthread_mutex_t all_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t news = PTHREAD_COND_INITIALIZER;
std::vector<PiecedGraph*>* all = nullptr;
bool has_news = false;
std::atomic<bool> has_builder{false};
std::atomic<bool> at_exit{false};  // the process ends

void TellBuilder() {
  const MutexLock lock(all_mutex);
  has_news = true;
  pthread_cond_signal(&news);
}

/// Goes on building the pieces of `set`. No launch of the context is guarded or deferred while some of them are built, and the
/// program's own launches go on in between.
Built GoOnBuilding(PiecedGraph& graph, PieceSet& set) {
  while (set.execs.size() < set.ranges.size()) {
    const OwnCallScope scope;
    if (!scope.may_ask()) return Built::kNotNow;
    if (at_exit.load()) return Built::kRefused;
    const MutexLock lock(graph.copy_mutex);
    if (graph.changes.load() != set.changes) return Built::kNotNow;
    const uint64_t begun_ns = NowNs();
    while (set.execs.size() < set.ranges.size() && NowNs() - begun_ns < kBuildNs) {
      const PieceRange& range = set.ranges[set.execs.size()];
      const CUgraphExec exec = graph.copy->Build(range.first, range.count, graph.priority);
      if (exec == nullptr) return Built::kRefused;
      set.execs.push_back(exec);
      Count(launch_counters.pieces_built);
    }
    launch_counters.piece_build_ns.fetch_add(NowNs() - begun_ns, std::memory_order_relaxed);
  }
  while (set.is_trial && set.events.size() < 2 * set.ranges.size()) {
    CUevent event = nullptr;
    if (CUPOLA_CALL_REAL(cuEventCreate, PFN_cuEventCreate_v2000)(&event, CU_EVENT_DEFAULT) != CUDA_SUCCESS) {
      return Built::kRefused;
    }
    set.events.push_back(event);
  }
  return Built::kAll;
}

uint64_t SumOf(const std::vector<uint64_t>& ns) {
  uint64_t sum = 0;
  for (uint64_t each : ns) sum += each;
  return sum;
}

void Publish(PiecedGraph& graph, PieceSet* set) {
  Retire(graph, graph.set.exchange(set));
}

/// From now on the graph is launched whole, unless it is gone.
void StayWhole(PiecedGraph& graph) {
  PiecedGraph::State state = graph.state.load();
  while (state != PiecedGraph::State::kGone &&
         !graph.state.compare_exchange_weak(state, PiecedGraph::State::kWhole)) {
  }
}

void KeepWhole(PiecedGraph& graph, const char* why) {
  graph.why.store(why);
  StayWhole(graph);
  Publish(graph, nullptr);
  Say(Level::kDebug, {"a graph of ", Decimal(graph.copy->size()), " nodes is launched whole: ", why});
}

/// Goes on with `building`, which is of the graph as it is now. Returns whether that is to be gone on with soon.
bool GoOn(PiecedGraph& graph) {
  const Built built = GoOnBuilding(graph, *graph.building);
  if (built == Built::kNotNow) return true;
  PieceSet* const set = std::exchange(graph.building, nullptr);
  if (built == Built::kRefused) {
    Retire(graph, set);
    KeepWhole(graph, "the driver refuses its pieces");
    return false;
  }
  Publish(graph, set);
  PiecedGraph::State wanted = PiecedGraph::State::kWanted;
  graph.state.compare_exchange_strong(wanted, PiecedGraph::State::kReady);
  return false;
}

/// Cuts the graph by what is known of its nodes, or keeps it in one piece where nobody may ask the process to yield.
/// Returns whether `building` is to be gone on with.
bool Cut(PiecedGraph& graph, const LaunchContext& context) {
  const uint32_t changes = graph.changes.load();
  const MutexLock lock(graph.copy_mutex);
  if (!graph.replaced.empty()) {  // the program has updated the graph: another one may have other times
    for (GraphCopy* copy : std::exchange(graph.replaced, {})) Retire(graph, nullptr, copy);
    graph.node_ns.assign(graph.copy->size(), 0);
    graph.trials = graph.void_trials = 0;
  }
  const bool is_fed = context.pieces.feed_stream != nullptr;
  if (!is_fed && graph.copy->leaves() > kMostNodesUnfed) return KeepWhole(graph, "it has too many nodes"), false;
  graph.priority = WantsPriority(context) ? &context.greatest_priority : nullptr;
  const bool is_cut = GatesMayHold(context);
  const bool is_known = graph.trials != 0;
  PieceLimits limits{.ns = preemption_settings.piece_ns, .nodes = is_known ? kMostNodes : kFirstNodes};
  const bool is_trial = is_cut && graph.trials < kMostTrials;
  const uint32_t most_pieces = MostPieces(graph.copy->leaves(), is_trial, is_fed);
  if (is_known) limits.ns = std::max(limits.ns, SumOf(graph.node_ns) / (most_pieces - most_pieces / 4));
  if (!is_cut) limits = {.ns = UINT64_MAX, .nodes = UINT32_MAX};
  std::vector<PieceRange> ranges = CutIntoPieces(graph.node_ns, graph.copy->tied(), limits);
  while (is_cut && ranges.size() > most_pieces) {
    limits.ns += limits.ns / 4;
    limits.nodes *= 2;
    ranges = CutIntoPieces(graph.node_ns, graph.copy->tied(), limits);
  }
  std::vector<std::unique_ptr<NodeKernel>> kernels;
  if (is_known && is_cut && graph.copy->leaves() <= kMostNodesUnfed) {  // a launch with such kernels is not deferred
    kernels = FindNodeKernels(*graph.copy, ranges, preemption_settings.piece_ns);
  }
  if (is_known && ranges.size() < 2 && graph.priority == nullptr && kernels.empty()) {
    return KeepWhole(graph, kShort), false;
  }
  auto* const set = new (std::nothrow) PieceSet;
  if (set == nullptr) return KeepWhole(graph, "there is no memory"), false;
  set->kernels = std::move(kernels);
  set->changes = changes;
  set->ranges = std::move(ranges);
  set->nodes = graph.copy->leaves();
  set->expected_ns = SumOf(graph.node_ns);
  for (const PieceRange& range : set->ranges) set->longest_ns = std::max(set->longest_ns, range.ns);
  set->mean_rest_ns = MeanRestNs(set->ranges);
  set->is_cut = is_cut;
  set->most_pieces = MostPieces(set->nodes, /*is_trial=*/false, is_fed);
  set->is_trial = is_trial;
  if (set->is_trial) set->trial.store(PieceSet::Trial::kWanted);
  graph.building = set;
  return true;
}

/// Takes in the times of a trial that is over. True: the pieces are not as they should be, and the graph is to be cut
/// anew.
bool Learn(PiecedGraph& graph, PieceSet& set) {
  const auto elapsed = CUPOLA_CALL_REAL(cuEventElapsedTime, PFN_cuEventElapsedTime_v2000);
  std::vector<uint64_t> took;
  for (size_t i = 0; i < set.ranges.size(); ++i) {
    float ms = 0;
    if (elapsed(&ms, set.events[2 * i], set.events[2 * i + 1]) != CUDA_SUCCESS) return false;
    took.push_back(static_cast<uint64_t>(std::max(ms, 0.0f) * 1e6f));
  }
  LearnFromPieces(set.ranges, took, &graph.node_ns);
  ++graph.trials;
  if (graph.trials == 1) return true;
  const uint64_t wanted = std::max(preemption_settings.piece_ns, SumOf(took) / set.most_pieces);
  for (size_t i = 0; i < took.size(); ++i) {
    if (set.ranges[i].count > 1 && took[i] > wanted + wanted / 4) return true;
  }
  return set.ranges.size() > 1 + 2 * SumOf(took) / wanted;
}

/// Cuts the graph and begins to build the pieces. Returns whether it is to be looked at again soon.
bool BeginToBuild(PiecedGraph& graph) {
  LaunchContext* const context = FindContext(graph.context);
  const Built made = context != nullptr ? MakeQueue(context) : Built::kRefused;
  if (made == Built::kRefused) {
    KeepWhole(graph, "the driver refuses what its pieces need");
    return false;
  }
  if (made == Built::kNotNow) return true;
  return Cut(graph, *context) && GoOn(graph);
}

/// What is to be done for one graph. Returns whether it is to be looked at again soon.
bool WorkOn(PiecedGraph& graph) {
  using State = PiecedGraph::State;
  const MutexLock lock(build_mutex);
  if (!graph.has_context || at_exit.load()) return false;
  const State state = graph.state.load();
  if (graph.building != nullptr && (state == State::kWhole || graph.building->changes != graph.changes.load())) {
    Retire(graph, std::exchange(graph.building, nullptr));
  }
  if (state != State::kWanted && state != State::kReady && state != State::kGone) return false;
  if (TakeContext(graph.context) != CUDA_SUCCESS) return false;
  if (graph.building != nullptr && state != State::kGone) return GoOn(graph);
  if (state == State::kWanted) return BeginToBuild(graph);
  PieceSet* const set = graph.set.load();
  if (state == State::kGone || set == nullptr) return false;
  if (set->trial.load() != PieceSet::Trial::kSubmitted) return false;
  const CUresult is_over = CUPOLA_CALL_REAL(cuEventQuery, PFN_cuEventQuery_v2000)(set->events.back());
  if (is_over == CUDA_ERROR_NOT_READY) return true;
  LaunchContext* const context = FindContext(graph.context);
  // Where somebody asked meanwhile, pieces may have shared the GPU's time slices. Such times are learnt only where nothing is
  // known yet.
  const bool was_asked = context == nullptr || context->gpu->slot().wake.load() != set->wake;
  if (is_over != CUDA_SUCCESS) {
    set->trial.store(PieceSet::Trial::kNone);
  } else if (was_asked && graph.trials != 0) {
    if (++graph.void_trials == kMostVoidTrials) {
      graph.trials = kMostTrials;
      return BeginToBuild(graph);
    }
    set->trial.store(PieceSet::Trial::kWanted);
  } else if (Learn(graph, *set)) {
    return BeginToBuild(graph);
  } else {
    set->trial.store(PieceSet::Trial::kNone);
  }
  return false;
}

void Free(PiecedGraph* graph) {
  const MutexLock lock(build_mutex);
  for (GraphCopy* copy : graph->replaced) Retire(*graph, nullptr, copy);
  Retire(*graph, graph->building);
  Retire(*graph, graph->set.exchange(nullptr), graph->copy);
  delete graph;
}

/// Waits for news, at most kLookNs where `soon`. Returns the graphs that there are; those that are gone are in `gone`,
/// and no longer known.
std::vector<PiecedGraph*> AwaitNews(bool soon, std::vector<PiecedGraph*>* gone) {
  const MutexLock lock(all_mutex);
  if (!has_news) {
    if (soon) {
      (void)WaitForSignal(news, all_mutex, MonotonicIn(kLookNs));
    } else {
      pthread_cond_wait(&news, &all_mutex);
    }
  }
  has_news = false;
  const auto is_gone = [](const PiecedGraph* graph) { return graph->state.load() == PiecedGraph::State::kGone; };
  std::copy_if(all->begin(), all->end(), std::back_inserter(*gone), is_gone);
  std::erase_if(*all, is_gone);
  return *all;
}

void* Build(void*) {
  ++this_thread.depth;  // driver calls of this thread are not the program's
  const RelaxedCapture relaxed;
  for (bool soon = false;;) {
    std::vector<PiecedGraph*> gone;
    const std::vector<PiecedGraph*> graphs = AwaitNews(soon, &gone);
    for (PiecedGraph* graph : gone) Free(graph);
    soon = false;
    for (PiecedGraph* graph : graphs) soon |= WorkOn(*graph);
    {
      const MutexLock lock(build_mutex);
      soon |= DestroyRetired(at_exit.load());
    }
    LetContextGo();
  }
}

void OnContextEnds(CUcontext context) {
  const MutexLock build_lock(build_mutex);
  const MutexLock lock(all_mutex);
  if (all == nullptr) return;
  for (PiecedGraph* graph : *all) {
    if (graph->context != context) continue;
    graph->has_context = false;
    StayWhole(*graph);
  }
  ForgetRetiredOf(context);
}

// Kernels have got variants (images.h): graphs are cut anew, so that theirs can go with a guard.
void OnVariantsCame() {
  using State = PiecedGraph::State;
  const MutexLock lock(all_mutex);
  if (all == nullptr) return;
  for (PiecedGraph* graph : *all) {
    State ready = State::kReady, whole = State::kWhole;
    bool is_wanted = graph->state.compare_exchange_strong(ready, State::kWanted);
    if (graph->why.load() == kShort) is_wanted |= graph->state.compare_exchange_strong(whole, State::kWanted);
    if (!is_wanted) continue;
    graph->why.store(nullptr);
    has_news = true;
  }
  if (has_news) pthread_cond_signal(&news);
}

}  // namespace

PiecedGraph* FindPieced(CUgraphExec exec) noexcept { return reinterpret_cast<PiecedGraph*>(by_exec.Find(exec, 0)); }

PiecesInUse::PiecesInUse(CUgraphExec exec, const LaunchContext& context, uint64_t stream, bool may_be_held,
                         bool wants_priority) noexcept {
  PiecedGraph* const graph = FindPieced(exec);
  if (graph == nullptr || graph->context != context.context.load(std::memory_order_relaxed)) return;
  const uint64_t last = graph->stream.exchange(stream);
  is_elsewhere_ = last != 0 && last != stream;  // plant: overlaps_itself
  if (is_elsewhere_) why_ = "its last launch was on another stream";
  if (const char* const why = graph->why.load(std::memory_order_relaxed); why != nullptr) why_ = why;
  if ((!may_be_held && !wants_priority) || is_elsewhere_) return;
  using State = PiecedGraph::State;
  State state = graph->state.load();
  graph->was_launched = true;
  if (graph->whole_launches != 0) --graph->whole_launches;
  if (state == State::kChanged && graph->whole_launches == 0) {
    graph->why.store(nullptr);
    if (graph->state.compare_exchange_strong(state, State::kWanted)) TellBuilder();
    return;
  }
  if (state == State::kKept) {
    if (!graph->state.compare_exchange_strong(state, State::kWanted)) return;
    if (!has_builder.exchange(true) && !StartOwnThread(&Build, nullptr, kStackBytes)) has_builder.store(false);
    TellBuilder();
    return;
  }
  if (state != State::kReady) return;
  PieceSet* set = graph->set.load();
  while (set != nullptr) {
    set->users.fetch_add(1);
    PieceSet* const now = graph->set.load();
    if (now == set) break;
    set->users.fetch_sub(1);
    set = now;
  }
  if (set != nullptr && set->changes != graph->changes.load()) {  // built while the program changed the graph
    set->users.fetch_sub(1);
    if (graph->state.compare_exchange_strong(state, State::kWanted)) TellBuilder();
    return;
  }
  set_ = set;
  if (set == nullptr || set->is_cut || !may_be_held) return;
  // Built for the priority alone, and now somebody may ask the process as well.
  if (graph->state.compare_exchange_strong(state, State::kWanted)) TellBuilder();
}

PiecesInUse::~PiecesInUse() {
  if (set_ != nullptr) set_->users.fetch_sub(1);
}

void OnTrialSubmitted(PieceSet& set) noexcept {
  set.trial.store(PieceSet::Trial::kSubmitted);
  TellBuilder();
}

void OnInstantiated(CUgraphExec exec, CUgraph graph, uint64_t flags) noexcept {
  if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0) return;
  if (!PreemptionOn() || preemption_settings.piece_ns == 0 || preemption_settings.gate_every == 0) return;
  // The builder would make the context current on a second thread (facts/green_contexts.h).
  if (IsGreen(nullptr, {reinterpret_cast<uint64_t>(CurrentContext()), 0, 0})) return;
  const RelaxedCapture relaxed;
  const char* why = nullptr;
  GraphCopy* const copy = GraphCopy::Make(graph, flags, kMostNodesInPieces, &why);
  auto* const made = new (std::nothrow) PiecedGraph;
  if (made == nullptr) return;
  made->context = CurrentContext();
  made->flags = flags;
  made->copy = copy;
  if (copy != nullptr) {
    made->node_ns.assign(copy->size(), 0);
  } else {
    Say(Level::kDebug, {"a graph is launched whole: ", why});
    made->why.store(why);
    made->state.store(PiecedGraph::State::kWhole);
  }
  {
    const MutexLock lock(all_mutex);
    if (all == nullptr) all = new std::vector<PiecedGraph*>;
    all->push_back(made);
  }
  by_exec.Set(exec, reinterpret_cast<uint64_t>(made));
}

void OnDestroyed(CUgraphExec exec) noexcept {
  PiecedGraph* const graph = FindPieced(exec);
  if (graph == nullptr) return;
  by_exec.Erase(exec);
  graph->state.store(PiecedGraph::State::kGone);
  if (has_builder.load()) return TellBuilder();
  {
    const MutexLock lock(all_mutex);
    std::erase(*all, graph);
  }
  // There are no pieces. The hook's caller has waited as for a call that destroys a graph.
  graph->replaced.push_back(graph->copy);
  for (GraphCopy* copy : graph->replaced) {
    if (copy != nullptr) copy->DestroyGraph();
    delete copy;
  }
  delete graph;
}

void StartGraphs() noexcept {
  if (!PreemptionOn()) return;
  stream_ends.with_context.Subscribe(&OnContextEnds);
  variants_came.Subscribe(&OnVariantsCame);
}

void EndGraphsAtExit() noexcept {
  at_exit.store(true);
  if (has_builder.load()) AwaitMutexAtExit(build_mutex);
}

// What was allocated is not freed: another thread of the parent may have been changing it.
void ForgetGraphsAfterFork() noexcept {
  build_mutex = all_mutex = PTHREAD_MUTEX_INITIALIZER;
  news = PTHREAD_COND_INITIALIZER;
  all = nullptr;
  ForgetRetiredAfterFork();
  has_news = false;
  has_builder.store(false);
  at_exit.store(false);
  by_exec.ResetAfterFork();
}

}  // namespace cupola::intercept::graphs
