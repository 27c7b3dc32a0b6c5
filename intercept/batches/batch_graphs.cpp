// All variables of this file are used under the lock of batches.cpp.
#include "intercept/batches/batch_graphs.h"

#include <iterator>
#include <new>

#include "intercept/batches/batch_row.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/fast_clock.h"
#include "intercept/process/patient_wait.h"

namespace cupola::intercept::batches {
namespace {

constexpr size_t kSizes = std::size(kGraphSizes);

struct BatchGraph {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  uint64_t used = 0;   ///< `launched` when it was launched last
  uint32_t count = 0;  ///< number of nodes
  CUgraphNode nodes[kMostHeld];  ///< a chain: each node runs when the one before it has ended
  HeldLaunch has[kMostHeld];     ///< the launch to which each node is set in `exec`
};

BatchGraph* graphs[kSizes][4];  // by index in kGraphSizes; kGraphsOfSize of each size are in use
static_assert(kGraphsOfSize[0] <= std::size(graphs[0]));
CUcontext owner = nullptr;  // context of all graphs
uint64_t launched = 0;      // launches of graphs so far

// Marks: an event is recorded behind every kGraphsAMark-th graph, in the stream of that graph. If the device has not
// reached the oldest of the last kMarks marks when a further one is due, there is no room for graphs (HasRoom) until it
// has. So at most some kGraphsAMark * kMarks graphs wait in the driver's queues.
constexpr uint64_t kGraphsAMark = 16;
constexpr uint32_t kMarks = 4;
CUevent marks[kMarks];
uint64_t marked = 0;         // marks so far; the oldest one is marks[marked % kMarks]
bool is_far_behind = false;  // the oldest mark had not been reached when it was last queried
uint32_t times_asked = 0;    // calls of HasRoom while is_far_behind

/// A launch in the form in which a graph's node takes it.
class NodeParams {
 public:
  explicit NodeParams(const HeldLaunch& launch) noexcept {
    launch.PointAtArguments(arguments_);
    params_.func = launch.kernel->function;
    params_.gridDimX = launch.grid[0];
    params_.gridDimY = launch.grid[1];
    params_.gridDimZ = launch.grid[2];
    params_.blockDimX = launch.block[0];
    params_.blockDimY = launch.block[1];
    params_.blockDimZ = launch.block[2];
    params_.sharedMemBytes = launch.shared_bytes;
    params_.kernelParams = arguments_;
  }
  const CUDA_KERNEL_NODE_PARAMS_v2* get() const noexcept { return &params_; }

 private:
  void* arguments_[BatchKernel::kMostParameters + 1] = {};
  CUDA_KERNEL_NODE_PARAMS_v2 params_ = {};
};

// Makes a graph of `count` nodes in a chain, all set to `first`. Null: the driver refused it, or no memory.
BatchGraph* MakeGraph(uint32_t count, const HeldLaunch& first) {
  const auto create = CUPOLA_CALL_REAL(cuGraphCreate, PFN_cuGraphCreate_v10000);
  const auto add = CUPOLA_CALL_REAL(cuGraphAddKernelNode_v2, PFN_cuGraphAddKernelNode_v12000);
  const auto instantiate =
      CUPOLA_CALL_REAL(cuGraphInstantiateWithFlags, PFN_cuGraphInstantiateWithFlags_v11040);
  auto* const made = new (std::nothrow) BatchGraph;
  if (made == nullptr) return nullptr;
  const NodeParams params(first);
  bool is_made = create(&made->graph, 0) == CUDA_SUCCESS;
  for (uint32_t i = 0; is_made && i < count; ++i) {
    const CUgraphNode* const before = i == 0 ? nullptr : &made->nodes[i - 1];
    is_made = add(&made->nodes[i], made->graph, before, i == 0 ? 0 : 1, params.get()) == CUDA_SUCCESS;
    made->has[i] = first;
  }
  made->count = count;
  is_made = is_made && instantiate(&made->exec, made->graph, 0) == CUDA_SUCCESS;
  if (is_made) return made;
  if (made->graph != nullptr) CUPOLA_CALL_REAL(cuGraphDestroy, PFN_cuGraphDestroy_v10000)(made->graph);
  delete made;
  return nullptr;
}

// Chooses, among the graphs of a size (an index in kGraphSizes), the one in which most nodes launch the wanted kernels
// already, since to set a node to another function is what costs most. Among equal ones it takes the one that was
// launched longest ago, since that has most likely ended.
BatchGraph& Choose(const HeldLaunch* launches, uint32_t count, size_t size) {
  BatchGraph* best = nullptr;
  uint32_t most = 0;
  for (uint32_t i = 0; i < kGraphsOfSize[size]; ++i) {
    BatchGraph* const graph = graphs[size][i];
    uint32_t same = 0;
    for (uint32_t node = 0; node < count; ++node) {
      same += graph->has[node].kernel == launches[node].kernel ? 1 : 0;
    }
    if (best == nullptr || same > most || (same == most && graph->used < best->used)) {
      best = graph;
      most = same;
    }
  }
  return *best;
}

bool IsOver(CUevent event) {
  return CUPOLA_CALL_REAL(cuEventQuery, PFN_cuEventQuery_v2000)(event) != CUDA_ERROR_NOT_READY;
}

// Records the next mark, with the event of the oldest one. If the device has not reached that one, records nothing and
// sets is_far_behind.
void Mark(CUstream stream) {
  const auto record = CUPOLA_CALL_REAL(cuEventRecord, PFN_cuEventRecord_v2000);
  const CUevent oldest = marks[marked % kMarks];
  is_far_behind = marked >= kMarks && !IsOver(oldest);
  if (is_far_behind) return;
  record(oldest, stream);
  ++marked;
}

bool MakeMarks() {
  const auto create = CUPOLA_CALL_REAL(cuEventCreate, PFN_cuEventCreate_v2000);
  marked = 0;
  is_far_behind = false;
  for (CUevent& mark : marks) {
    if (create(&mark, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) return false;
  }
  return true;
}

void EndMarks() {
  for (CUevent& mark : marks) {
    if (mark != nullptr) CUPOLA_CALL_REAL(cuEventDestroy_v2, PFN_cuEventDestroy_v4000)(mark);
    mark = nullptr;
  }
}

template <typename Each>
void ForEachGraph(Each&& each) {
  for (auto& of_size : graphs) {
    for (BatchGraph*& graph : of_size) {
      if (graph != nullptr) each(graph);
    }
  }
}

}  // namespace

// At the end it waits on the host for the uploads, at most kUploadNs.
bool MakeGraphs(CUcontext context, CUstream stream, const HeldLaunch& first) noexcept {
  const auto upload = CUPOLA_CALL_REAL(cuGraphUpload, PFN_cuGraphUpload_v11010);
  constexpr uint64_t kUploadNs = 5'000'000;
  const RelaxedCapture relaxed;
  EndGraphs();
  owner = context;
  if (!MakeMarks()) {
    EndGraphs();
    return false;
  }
  for (size_t size = 0; size < kSizes; ++size) {
    for (uint32_t i = 0; i < kGraphsOfSize[size]; ++i) {
      BatchGraph* const made = MakeGraph(kGraphSizes[size], first);
      graphs[size][i] = made;
      if (made == nullptr || upload(made->exec, stream) != CUDA_SUCCESS) {
        EndGraphs();
        return false;
      }
    }
  }
  const uint64_t since = NowNs();
  const CUstream asked = stream != nullptr ? stream : CU_STREAM_LEGACY;
  for (PatientWait wait; AskStream(asked) == CUDA_ERROR_NOT_READY && NowNs() - since < kUploadNs;) wait.Pause();
  return true;
}

bool HasGraphs(CUcontext context) noexcept { return owner == context && graphs[0][0] != nullptr; }

CUresult LaunchAsGraph(const HeldLaunch* launches, uint32_t count, CUstream stream) noexcept {
  const auto set =
      CUPOLA_CALL_REAL(cuGraphExecKernelNodeSetParams_v2, PFN_cuGraphExecKernelNodeSetParams_v12000);
  size_t size = 0;
  while (kGraphSizes[size] != count) ++size;
  BatchGraph& graph = Choose(launches, count, size);
  for (uint32_t i = 0; i < count; ++i) {
    if (graph.has[i].IsSame(launches[i])) continue;
    const NodeParams params(launches[i]);
    if (const CUresult result = set(graph.exec, graph.nodes[i], params.get()); result != CUDA_SUCCESS) {
      return result;
    }
    graph.has[i] = launches[i];
  }
  graph.used = ++launched;
  const CUresult result = CUPOLA_CALL_REAL(cuGraphLaunch, PFN_cuGraphLaunch_v10000)(graph.exec, stream);
  if (launched % kGraphsAMark == 0) Mark(stream);
  return result;
}

bool HasRoom() noexcept {
  constexpr uint32_t kAskEvery = 64;
  if (!is_far_behind) [[likely]] return true;
  if (++times_asked % kAskEvery == 0) is_far_behind = !IsOver(marks[marked % kMarks]);
  return !is_far_behind;
}

void EndGraphs() noexcept {
  ForEachGraph([](BatchGraph*& graph) {
    CUPOLA_CALL_REAL(cuGraphExecDestroy, PFN_cuGraphExecDestroy_v10000)(graph->exec);
    CUPOLA_CALL_REAL(cuGraphDestroy, PFN_cuGraphDestroy_v10000)(graph->graph);
    delete graph;
    graph = nullptr;
  });
  EndMarks();
  owner = nullptr;
}

void ForgetGraphs() noexcept {
  for (CUevent& mark : marks) mark = nullptr;
  ForEachGraph([](BatchGraph*& graph) { graph = nullptr; });
  owner = nullptr;
}

}  // namespace cupola::intercept::batches
