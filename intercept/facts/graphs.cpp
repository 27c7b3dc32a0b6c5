#include "intercept/facts/graphs.h"

#include <unordered_map>
#include <vector>

#include <cudaTypedefs.h>
#include <pthread.h>

#include "intercept/process/calls.h"
#include "intercept/process/handle_map.h"
#include "intercept/process/mutex_lock.h"

namespace cupola::intercept {
namespace {

constexpr int kDeepest = 64;  // levels of child graphs; a limit in case the driver answers nonsense

// CUgraphExec -> the number of its kernel nodes in the low 32 bits, with the bits kMayHold and
// kRecordsEvents, which stand for GraphNodes::may_hold and record_events. Found out once, at
// instantiation: the topology of an executable graph and the kinds of its nodes never change.
HandleMap nodes_of;
constexpr uint64_t kMayHold = uint64_t{1} << 62,
                   kRecordsEvents = uint64_t{1} << 61;

// Conditional node -> its body graphs. The driver tells them only to the call that makes the node,
// so the hook of that call reports them (AddConditionalNode). Used under `graphs_mutex`.
pthread_mutex_t graphs_mutex = PTHREAD_MUTEX_INITIALIZER;
std::unordered_map<CUgraphNode, std::vector<CUgraph>>* bodies_of = nullptr;

// The bodies of a conditional node; empty for a node that no hook saw being made, whose bodies then
// are not counted.
std::vector<CUgraph> BodiesOf(CUgraphNode node) {
  const MutexLock lock(graphs_mutex);
  if (bodies_of == nullptr) return {};
  const auto found = bodies_of->find(node);
  return found != bodies_of->end() ? found->second : std::vector<CUgraph>();
}

// The bits of nodes_of for a kind of node. A node with a batch of memory operations gets kMayHold
// because one of the operations may be a wait.
uint64_t BitsOf(CUgraphNodeType type) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_HOST:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return kMayHold;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return kRecordsEvents;
    default:
      return 0;
  }
}

// The value of nodes_of for a graph: the number of its kernel nodes, and its bits. Both bits are
// set if the driver does not list the graph's nodes, or does not tell the kind of one of them.
// Calls itself for child graphs and for bodies of conditional nodes.
uint64_t CountNodes(CUgraph graph, int depth) {
  const auto get_type = Real<PFN_cuGraphNodeGetType_v10000>(Call::k_cuGraphNodeGetType);
  const auto get_child = Real<PFN_cuGraphChildGraphNodeGetGraph_v10000>(
      Call::k_cuGraphChildGraphNodeGetGraph);
  constexpr uint64_t kUnknown = kMayHold | kRecordsEvents;
  std::vector<CUgraphNode> nodes;
  if (depth > kDeepest || !ListGraphNodes(graph, &nodes)) return kUnknown;
  uint64_t kernels = 0, bits = 0;
  const auto add = [&](uint64_t of_child) {
    kernels += of_child & UINT32_MAX;
    bits |= of_child & ~uint64_t{UINT32_MAX};
  };
  for (CUgraphNode node : nodes) {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    CUgraph child = nullptr;
    if (get_type(node, &type) != CUDA_SUCCESS) {
      bits |= kUnknown;
      continue;
    }
    bits |= BitsOf(type);
    if (type == CU_GRAPH_NODE_TYPE_KERNEL) {
      ++kernels;
    } else if (type == CU_GRAPH_NODE_TYPE_GRAPH) {
      add(get_child(node, &child) == CUDA_SUCCESS ? CountNodes(child, depth + 1) : kUnknown);
    } else if (type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
      for (CUgraph body : BodiesOf(node)) add(CountNodes(body, depth + 1));
    }
  }
  return (kernels & UINT32_MAX) | bits;
}

}  // namespace

bool ListGraphNodes(CUgraph graph, std::vector<CUgraphNode>* nodes) noexcept {
  const auto get = Real<PFN_cuGraphGetNodes_v10000>(Call::k_cuGraphGetNodes);
  size_t count = 0;
  if (get(graph, nullptr, &count) != CUDA_SUCCESS) return false;
  nodes->resize(count);
  if (count == 0) return true;
  if (get(graph, nodes->data(), &count) != CUDA_SUCCESS) return false;
  if (count < nodes->size()) nodes->resize(count);
  return true;
}

GraphNodes NodesOf(CUgraphExec exec) noexcept {
  const uint64_t known = nodes_of.Find(exec, kMayHold | kRecordsEvents);
  return {.kernels = static_cast<uint32_t>(known),
          .may_hold = (known & kMayHold) != 0,
          .record_events = (known & kRecordsEvents) != 0};
}

void OnGraphInstantiated(CUgraphExec exec, CUgraph graph) noexcept {
  nodes_of.Set(exec, CountNodes(graph, 0));
}

void OnGraphExecDestroyed(CUgraphExec exec) noexcept { nodes_of.Erase(exec); }

void AddConditionalNode(CUgraphNode node, const CUgraph* bodies, uint32_t count) noexcept {
  if (bodies == nullptr || count == 0) return;
  const MutexLock lock(graphs_mutex);
  if (bodies_of == nullptr) bodies_of = new std::unordered_map<CUgraphNode, std::vector<CUgraph>>;
  (*bodies_of)[node].assign(bodies, bodies + count);
}

void OnGraphNodeDestroyed(CUgraphNode node) noexcept {
  const MutexLock lock(graphs_mutex);
  if (bodies_of != nullptr) bodies_of->erase(node);
}

void ResetGraphsAfterFork() noexcept {
  graphs_mutex = PTHREAD_MUTEX_INITIALIZER;
  bodies_of = nullptr;  // not freed: another thread of the parent may have been changing it
  nodes_of.ResetAfterFork();
}

}  // namespace cupola::intercept
