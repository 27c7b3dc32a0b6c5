#include "intercept/graphs/node_kernel.h"

#include <algorithm>
#include <cstring>

#include "intercept/graphs/graph_copy.h"
#include "intercept/images/images.h"
#include "intercept/images/variant.h"
#include "intercept/process/driver_calls.h"

namespace cupola::intercept::graphs {
namespace {

bool ReadParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* params) {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  *params = {};
  return CUPOLA_CALL_REAL(cuGraphNodeGetType, PFN_cuGraphNodeGetType_v10000)(node, &type) == CUDA_SUCCESS &&
         type == CU_GRAPH_NODE_TYPE_KERNEL &&
         CUPOLA_CALL_REAL(cuGraphKernelNodeGetParams_v2, PFN_cuGraphKernelNodeGetParams_v12000)(node, params) ==
             CUDA_SUCCESS;
}

// The handle by which Cupola knows the kernel.
const void* HandleOf(const CUDA_KERNEL_NODE_PARAMS& params) {
  if (params.func != nullptr && FindVariant(params.func) != nullptr) return params.func;
  if (params.kern != nullptr && FindVariant(params.kern) != nullptr) return params.kern;
  return nullptr;
}

bool GetAttribute(CUgraphNode node, CUlaunchAttributeID id, CUlaunchAttributeValue* value) {
  *value = {};
  return CUPOLA_CALL_REAL(cuGraphKernelNodeGetAttribute, PFN_cuGraphKernelNodeGetAttribute_v11000)(node, id, value) ==
         CUDA_SUCCESS;
}

// Blocks of the kernel may rely on one another or on the place where they run, or the device may change the node.
bool IsSpecial(CUgraphNode node) {
  CUlaunchAttributeValue value;
  if (GetAttribute(node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value) && value.cooperative != 0) return true;
  if (GetAttribute(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &value) && value.clusterDim.x > 1) return true;
  if (value.clusterDim.y > 1 || value.clusterDim.z > 1) return true;
  if (GetAttribute(node, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, &value) && value.accessPolicyWindow.num_bytes != 0) {
    return true;
  }
  return GetAttribute(node, CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE, &value) &&
         value.deviceUpdatableKernelNode.deviceUpdatable != 0;
}

}  // namespace

bool HasVariant(CUgraphNode node) noexcept {
  CUDA_KERNEL_NODE_PARAMS params;
  return ReadParams(node, &params) && HandleOf(params) != nullptr;
}

std::unique_ptr<NodeKernel> ReadNodeKernel(CUgraphNode node) {
  CUDA_KERNEL_NODE_PARAMS params;
  if (!ReadParams(node, &params) || params.kernelParams == nullptr) return nullptr;
  const void* const function = HandleOf(params);
  const Variant* const variant = function != nullptr ? FindVariant(function) : nullptr;
  if (variant == nullptr || (variant->entry->flags & store::kPreemptible) == 0 || IsSpecial(node)) return nullptr;
  auto kernel = std::make_unique<NodeKernel>();
  kernel->function = function;
  const uint32_t shape[6] = {params.gridDimX,  params.gridDimY,  params.gridDimZ,
                             params.blockDimX, params.blockDimY, params.blockDimZ};
  std::copy_n(shape, 3, kernel->grid);
  std::copy_n(shape + 3, 3, kernel->block);
  kernel->shared_bytes = params.sharedMemBytes;
  kernel->priority.id = CU_LAUNCH_ATTRIBUTE_IGNORE;
  CUlaunchAttributeValue value;
  if (GetAttribute(node, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value) && value.priority != 0) {
    kernel->priority.id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
    kernel->priority.value.priority = value.priority;
  }
  const uint32_t count = variant->entry->parameters;
  kernel->arguments.resize(variant->entry->parameter_bytes);
  for (uint32_t i = 0; i < count; ++i) {
    std::byte* const at = kernel->arguments.data() + variant->parameters[i].offset;
    memcpy(at, params.kernelParams[i], variant->parameters[i].bytes);  // plant: node_arguments
    kernel->params.push_back(at);
  }
  return kernel;
}

std::vector<std::unique_ptr<NodeKernel>> FindNodeKernels(const GraphCopy& copy, const std::vector<PieceRange>& ranges,
                                                         uint64_t above_ns) {
  std::vector<std::unique_ptr<NodeKernel>> kernels(ranges.size());
  bool has_any = false;
  for (size_t i = 0; i < ranges.size(); ++i) {
    const CUgraphNode node = copy.EnabledNode(ranges[i].first);
    if (ranges[i].count != 1 || ranges[i].ns <= above_ns || node == nullptr) continue;
    kernels[i] = ReadNodeKernel(node);
    has_any |= kernels[i] != nullptr;
  }
  if (!has_any) kernels.clear();
  return kernels;
}

}  // namespace cupola::intercept::graphs
