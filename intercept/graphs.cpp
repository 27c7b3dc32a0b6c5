#include "intercept/graphs.h"

#include <unordered_map>
#include <vector>

#include <cudaTypedefs.h>
#include <pthread.h>

#include "intercept/calls.h"
#include "intercept/handle_map.h"
#include "intercept/mutex_lock.h"

namespace cupola::intercept {
namespace {

constexpr int kDeepest = 64;  // of graphs in graphs; a limit against a driver's nonsense

HandleMap kernel_nodes;

// The bodies of a conditional node are known only from the call that made it.
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
std::unordered_map<CUgraphNode, std::vector<CUgraph>>* bodies_of = nullptr;

std::vector<CUgraph> BodiesOf(CUgraphNode node) {
  const MutexLock lock(mutex);
  if (bodies_of == nullptr) return {};
  const auto found = bodies_of->find(node);
  return found != bodies_of->end() ? found->second : std::vector<CUgraph>();
}

uint32_t CountKernels(CUgraph graph, int depth) {
  const auto get_nodes = Real<PFN_cuGraphGetNodes_v10000>(Call::k_cuGraphGetNodes);
  const auto get_type = Real<PFN_cuGraphNodeGetType_v10000>(Call::k_cuGraphNodeGetType);
  const auto get_child = Real<PFN_cuGraphChildGraphNodeGetGraph_v10000>(
      Call::k_cuGraphChildGraphNodeGetGraph);
  size_t count = 0;
  if (depth > kDeepest || get_nodes(graph, nullptr, &count) != CUDA_SUCCESS || count == 0) return 0;
  std::vector<CUgraphNode> nodes(count);
  if (get_nodes(graph, nodes.data(), &count) != CUDA_SUCCESS) return 0;
  if (count < nodes.size()) nodes.resize(count);
  uint32_t kernels = 0;
  for (CUgraphNode node : nodes) {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    CUgraph child = nullptr;
    if (get_type(node, &type) != CUDA_SUCCESS) continue;
    if (type == CU_GRAPH_NODE_TYPE_KERNEL) {
      ++kernels;
    } else if (type == CU_GRAPH_NODE_TYPE_GRAPH) {
      if (get_child(node, &child) == CUDA_SUCCESS) kernels += CountKernels(child, depth + 1);
    } else if (type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
      for (CUgraph body : BodiesOf(node)) kernels += CountKernels(body, depth + 1);
    }
  }
  return kernels;
}

}  // namespace

uint32_t KernelNodesOf(CUgraphExec exec) noexcept {
  return static_cast<uint32_t>(kernel_nodes.Find(exec, 0));
}

void NoteInstantiated(CUgraphExec exec, CUgraph graph) noexcept {
  kernel_nodes.Set(exec, CountKernels(graph, 0));
}

void NoteExecDestroyed(CUgraphExec exec) noexcept { kernel_nodes.Erase(exec); }

void NoteConditional(CUgraphNode node, const CUgraph* bodies, uint32_t count) noexcept {
  if (bodies == nullptr || count == 0) return;
  const MutexLock lock(mutex);
  if (bodies_of == nullptr) bodies_of = new std::unordered_map<CUgraphNode, std::vector<CUgraph>>;
  (*bodies_of)[node].assign(bodies, bodies + count);
}

void NoteNodeDestroyed(CUgraphNode node) noexcept {
  const MutexLock lock(mutex);
  if (bodies_of != nullptr) bodies_of->erase(node);
}

void ResetGraphsAfterFork() noexcept {
  mutex = PTHREAD_MUTEX_INITIALIZER;
  bodies_of = nullptr;
  kernel_nodes.ResetAfterFork();
}

}  // namespace cupola::intercept
