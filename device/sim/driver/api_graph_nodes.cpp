// The calls cuGraphAdd*Node and those for the parameters of nodes, in graphs and executable graphs.
#include "device/sim/driver/api.h"
#include "device/sim/driver/copy.h"

using namespace cupola::sim;  // NOLINT

namespace {

GraphNode* FindNode(Driver& driver, CUgraphNode handle, CUgraphNodeType type) {
  GraphNode* node = driver.FindNode(handle);
  return node != nullptr && node->type == type ? node : nullptr;
}

CUresult Add(CUgraphNode* handle, CUgraph graph_handle, const CUgraphNode* dependencies,
             size_t count, CUgraphNodeType type, Work work,
             std::shared_ptr<Graph> child = nullptr) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  std::shared_ptr<Graph> graph = driver->graphs.Find(graph_handle);
  if (!graph || handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<GraphNode*> before;
  for (size_t i = 0; i < count; ++i) {
    GraphNode* node = dependencies != nullptr ? driver->FindNode(dependencies[i]) : nullptr;
    if (node == nullptr || !graph->Owns(node)) return CUDA_ERROR_INVALID_VALUE;
    before.push_back(node);
  }
  GraphNode* node = graph->Add(type, std::move(work), std::move(before));
  node->child = std::move(child);
  driver->AddNodeHandle(node, graph);
  if (node->child) driver->AddGraph(node->child);
  *handle = reinterpret_cast<CUgraphNode>(node);
  return CUDA_SUCCESS;
}

// The functions Make* check the parameters of one kind of node and make its work.
CUresult MakeKernel(const CUDA_KERNEL_NODE_PARAMS& params, Work* work) {
  Driver* driver;
  Context* context;
  SIM_TRY(Enter(&driver, &context));
  const CUfunction function = params.func != nullptr
                                  ? params.func
                                  : reinterpret_cast<CUfunction>(params.kern);
  const Driver::LaunchShape shape{
      .grid = {params.gridDimX, params.gridDimY, params.gridDimZ},
      .block = {params.blockDimX, params.blockDimY, params.blockDimZ},
      .dynamic_shared_bytes = params.sharedMemBytes,
      .is_node = true};
  KernelWork kernel;
  SIM_TRY(driver->MakeKernelWork(*context, function, shape, params.kernelParams, params.extra,
                                 &kernel));
  *work = std::move(kernel);
  return CUDA_SUCCESS;
}

CUDA_KERNEL_NODE_PARAMS ToV2(const CUDA_KERNEL_NODE_PARAMS_v1& old) {
  return {old.func,      old.gridDimX,  old.gridDimY,       old.gridDimZ,     old.blockDimX,
          old.blockDimY, old.blockDimZ, old.sharedMemBytes, old.kernelParams, old.extra,
          nullptr,       nullptr};
}

CUresult MakeCopy(const CUDA_MEMCPY3D& box, Work* work) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  CopyWork copy;
  SIM_TRY(MakeCopyBox(*driver, box, &copy));
  *work = std::move(copy);
  return CUDA_SUCCESS;
}

CUresult MakeFill(const CUDA_MEMSET_NODE_PARAMS& params, Work* work) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  if (params.elementSize != 1 && params.elementSize != 2 && params.elementSize != 4) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const FillWork fill{params.dst,         params.pitch, params.value,
                      params.elementSize, params.width, params.height};
  SIM_TRY(CheckFill(*driver, fill));
  *work = fill;
  return CUDA_SUCCESS;
}

CUresult MakeHost(const CUDA_HOST_NODE_PARAMS& params, Work* work) {
  if (params.fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  HostWork host;
  host.function = params.fn;
  host.data = params.userData;
  *work = host;
  return CUDA_SUCCESS;
}

template <typename EventWork>
CUresult MakeEvent(CUevent handle, Work* work) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  std::shared_ptr<Event> event = driver->events.Find(handle);
  if (!event) return CUDA_ERROR_INVALID_VALUE;
  *work = EventWork{std::move(event), nullptr};
  return CUDA_SUCCESS;
}

/// Replaces the work of a graph's node, which must be of that type.
CUresult Replace(CUgraphNode handle, CUgraphNodeType type, Work work) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  GraphNode* node = FindNode(*driver, handle, type);
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  node->work = std::move(work);
  return CUDA_SUCCESS;
}

/// Replaces the work of the step of an executable graph that came from that node.
CUresult Replace(CUgraphExec exec_handle, CUgraphNode handle, CUgraphNodeType type, Work work) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  std::shared_ptr<GraphExec> exec = driver->graph_execs.Find(exec_handle);
  if (!exec) return CUDA_ERROR_INVALID_VALUE;
  GraphExec::Step* step = exec->Find(reinterpret_cast<const GraphNode*>(handle));
  if (step == nullptr || step->type != type) return CUDA_ERROR_INVALID_VALUE;
  step->work = std::move(work);
  return CUDA_SUCCESS;
}

/// Finds a node and its work for the calls that read parameters; an error if it is of another kind.
template <typename Kind>
CUresult Read(CUgraphNode handle, const void* out, GraphNode** node, Kind** work) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  *node = driver->FindNode(handle);
  *work = *node != nullptr ? std::get_if<Kind>(&(*node)->work) : nullptr;
  return *work != nullptr && out != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

SIM_EXPORT CUresult cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType* type) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  GraphNode* node = driver->FindNode(handle);
  if (node == nullptr || type == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *type = node->type;
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuGraphDestroyNode(CUgraphNode handle) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  GraphNode* node = driver->FindNode(handle);
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  driver->DropNodeHandle(node);
  node->graph->Remove(node);
  return CUDA_SUCCESS;
}

#define SIM_ADD_PARAMS \
  CUgraphNode *handle, CUgraph graph, const CUgraphNode *dependencies, size_t count

SIM_EXPORT CUresult cuGraphAddEmptyNode(SIM_ADD_PARAMS) {
  return Add(handle, graph, dependencies, count, CU_GRAPH_NODE_TYPE_EMPTY, EmptyWork{});
}

SIM_EXPORT CUresult cuGraphAddKernelNode_v2(SIM_ADD_PARAMS, const CUDA_KERNEL_NODE_PARAMS* params) {
  Work work;
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY(MakeKernel(*params, &work));
  return Add(handle, graph, dependencies, count, CU_GRAPH_NODE_TYPE_KERNEL, std::move(work));
}
SIM_EXPORT CUresult cuGraphAddKernelNode(SIM_ADD_PARAMS, const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_KERNEL_NODE_PARAMS now = ToV2(*params);
  return cuGraphAddKernelNode_v2(handle, graph, dependencies, count, &now);
}

SIM_EXPORT CUresult cuGraphAddMemcpyNode(SIM_ADD_PARAMS, const CUDA_MEMCPY3D* box, CUcontext) {
  Work work;
  if (box == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY(MakeCopy(*box, &work));
  return Add(handle, graph, dependencies, count, CU_GRAPH_NODE_TYPE_MEMCPY, std::move(work));
}

SIM_EXPORT CUresult cuGraphAddMemsetNode(SIM_ADD_PARAMS, const CUDA_MEMSET_NODE_PARAMS* params,
                                         CUcontext) {
  Work work;
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY(MakeFill(*params, &work));
  return Add(handle, graph, dependencies, count, CU_GRAPH_NODE_TYPE_MEMSET, std::move(work));
}

SIM_EXPORT CUresult cuGraphAddHostNode(SIM_ADD_PARAMS, const CUDA_HOST_NODE_PARAMS* params) {
  Work work;
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY(MakeHost(*params, &work));
  return Add(handle, graph, dependencies, count, CU_GRAPH_NODE_TYPE_HOST, std::move(work));
}

SIM_EXPORT CUresult cuGraphAddChildGraphNode(SIM_ADD_PARAMS, CUgraph child_handle) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  std::shared_ptr<Graph> child = driver->graphs.Find(child_handle);
  if (!child) return CUDA_ERROR_INVALID_VALUE;
  return Add(handle, graph, dependencies, count, CU_GRAPH_NODE_TYPE_GRAPH, EmptyWork{},
             child->Clone());
}

SIM_EXPORT CUresult cuGraphAddEventRecordNode(SIM_ADD_PARAMS, CUevent event) {
  Work work;
  SIM_TRY(MakeEvent<EventRecordWork>(event, &work));
  return Add(handle, graph, dependencies, count, CU_GRAPH_NODE_TYPE_EVENT_RECORD, std::move(work));
}

SIM_EXPORT CUresult cuGraphAddEventWaitNode(SIM_ADD_PARAMS, CUevent event) {
  Work work;
  SIM_TRY(MakeEvent<EventWaitWork>(event, &work));
  return Add(handle, graph, dependencies, count, CU_GRAPH_NODE_TYPE_WAIT_EVENT, std::move(work));
}

SIM_EXPORT CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode handle, CUgraph* child) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  GraphNode* node = driver->FindNode(handle);
  if (node == nullptr || !node->child || child == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *child = reinterpret_cast<CUgraph>(node->child.get());
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode handle,
                                                  CUDA_KERNEL_NODE_PARAMS* params) {
  GraphNode* node;
  KernelWork* kernel;
  SIM_TRY(Read(handle, params, &node, &kernel));
  const GridLaunch& launch = kernel->launch;
  const KernelInfo& info = launch.module->kernels()[launch.kernel_index];
  node->param_pointers.clear();
  for (const ParamInfo& param : info.params) {
    node->param_pointers.push_back(kernel->launch.params.data() + param.offset);
  }
  *params = {kernel->function,
             launch.grid.x, launch.grid.y, launch.grid.z,
             launch.block.x, launch.block.y, launch.block.z,
             launch.dynamic_shared_bytes,
             node->param_pointers.empty() ? nullptr : node->param_pointers.data(),
             nullptr, kernel->kernel, nullptr};
  return CUDA_SUCCESS;
}
/// Kernel nodes of the simulated device have no attributes but whether the launch is cooperative.
SIM_EXPORT CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from) {
  GraphNode *target, *source;
  KernelWork *into = nullptr, *work = nullptr;
  SIM_TRY(Read(from, &work, &source, &work));
  SIM_TRY(Read(to, &into, &target, &into));
  into->launch.cooperative = work->launch.cooperative;
  return CUDA_SUCCESS;
}
SIM_EXPORT CUresult cuGraphKernelNodeGetAttribute(CUgraphNode handle, CUlaunchAttributeID id,
                                                  CUlaunchAttributeValue* value) {
  GraphNode* node;
  KernelWork *into = nullptr, *work = nullptr;
  SIM_TRY(Read(handle, &into, &node, &work));
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *value = {};
  if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) value->cooperative = work->launch.cooperative ? 1 : 0;
  return CUDA_SUCCESS;
}
SIM_EXPORT CUresult cuGraphKernelNodeGetParams(CUgraphNode handle,
                                               CUDA_KERNEL_NODE_PARAMS_v1* params) {
  CUDA_KERNEL_NODE_PARAMS now;
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY(cuGraphKernelNodeGetParams_v2(handle, &now));
  *params = {now.func,      now.gridDimX,  now.gridDimY,       now.gridDimZ,     now.blockDimX,
             now.blockDimY, now.blockDimZ, now.sharedMemBytes, now.kernelParams, now.extra};
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuGraphMemcpyNodeGetParams(CUgraphNode handle, CUDA_MEMCPY3D* box) {
  GraphNode* node;
  CopyWork* copy;
  SIM_TRY(Read(handle, box, &node, &copy));
  *box = {};
  box->srcMemoryType = copy->source_type;
  box->srcHost = reinterpret_cast<const void*>(copy->source);
  box->srcDevice = copy->source;
  box->srcPitch = copy->source_pitch;
  box->srcHeight = copy->source_pitch == 0 ? 0 : copy->source_slice / copy->source_pitch;
  box->dstMemoryType = copy->destination_type;
  box->dstHost = reinterpret_cast<void*>(copy->destination);
  box->dstDevice = copy->destination;
  box->dstPitch = copy->destination_pitch;
  box->dstHeight =
      copy->destination_pitch == 0 ? 0 : copy->destination_slice / copy->destination_pitch;
  box->WidthInBytes = copy->width_bytes;
  box->Height = copy->height;
  box->Depth = copy->depth;
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuGraphMemsetNodeGetParams(CUgraphNode handle,
                                               CUDA_MEMSET_NODE_PARAMS* params) {
  GraphNode* node;
  FillWork* fill;
  SIM_TRY(Read(handle, params, &node, &fill));
  *params = {fill->address, fill->pitch, fill->value, fill->element_bytes,
             fill->width,   fill->height};
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuGraphHostNodeGetParams(CUgraphNode handle, CUDA_HOST_NODE_PARAMS* params) {
  GraphNode* node;
  HostWork* host;
  SIM_TRY(Read(handle, params, &node, &host));
  params->fn = host->function;
  params->userData = host->data;
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode handle, CUevent* event) {
  GraphNode* node;
  EventRecordWork* record;
  SIM_TRY(Read(handle, event, &node, &record));
  *event = reinterpret_cast<CUevent>(record->event.get());
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode handle, CUevent* event) {
  GraphNode* node;
  EventWaitWork* wait;
  SIM_TRY(Read(handle, event, &node, &wait));
  *event = reinterpret_cast<CUevent>(wait->event.get());
  return CUDA_SUCCESS;
}

// Each call that sets the parameters of a node has a twin that does so in an executable graph. The
// two differ only in whose work they replace.
#define SIM_SETTERS(name, exec_name, type, param_type, maker, ...)                                \
  SIM_EXPORT CUresult name(CUgraphNode handle, param_type params) {                               \
    Work work;                                                                                    \
    if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;                                       \
    SIM_TRY(maker);                                                                               \
    return Replace(handle, type, std::move(work));                                                \
  }                                                                                               \
  SIM_EXPORT CUresult exec_name(CUgraphExec exec, CUgraphNode handle, param_type params           \
                                __VA_OPT__(, ) __VA_ARGS__) {                                     \
    Work work;                                                                                    \
    if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;                                       \
    SIM_TRY(maker);                                                                               \
    return Replace(exec, handle, type, std::move(work));                                          \
  }

SIM_SETTERS(cuGraphKernelNodeSetParams_v2, cuGraphExecKernelNodeSetParams_v2,
            CU_GRAPH_NODE_TYPE_KERNEL, const CUDA_KERNEL_NODE_PARAMS*, MakeKernel(*params, &work))
SIM_SETTERS(cuGraphKernelNodeSetParams, cuGraphExecKernelNodeSetParams, CU_GRAPH_NODE_TYPE_KERNEL,
            const CUDA_KERNEL_NODE_PARAMS_v1*, MakeKernel(ToV2(*params), &work))
SIM_SETTERS(cuGraphMemcpyNodeSetParams, cuGraphExecMemcpyNodeSetParams, CU_GRAPH_NODE_TYPE_MEMCPY,
            const CUDA_MEMCPY3D*, MakeCopy(*params, &work), CUcontext)
SIM_SETTERS(cuGraphMemsetNodeSetParams, cuGraphExecMemsetNodeSetParams, CU_GRAPH_NODE_TYPE_MEMSET,
            const CUDA_MEMSET_NODE_PARAMS*, MakeFill(*params, &work), CUcontext)
SIM_SETTERS(cuGraphHostNodeSetParams, cuGraphExecHostNodeSetParams, CU_GRAPH_NODE_TYPE_HOST,
            const CUDA_HOST_NODE_PARAMS*, MakeHost(*params, &work))
SIM_SETTERS(cuGraphEventRecordNodeSetEvent, cuGraphExecEventRecordNodeSetEvent,
            CU_GRAPH_NODE_TYPE_EVENT_RECORD, CUevent, MakeEvent<EventRecordWork>(params, &work))
SIM_SETTERS(cuGraphEventWaitNodeSetEvent, cuGraphExecEventWaitNodeSetEvent,
            CU_GRAPH_NODE_TYPE_WAIT_EVENT, CUevent, MakeEvent<EventWaitWork>(params, &work))
