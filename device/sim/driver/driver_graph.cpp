#include <algorithm>
#include <functional>
#include <thread>

#include "base/settings/variables.h"
#include "device/sim/driver/driver.h"

namespace cupola::sim {
namespace {

std::atomic<uint64_t> next_capture_id{1}, next_graph_launch{0};
thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

uint64_t ThisThread() { return std::hash<std::thread::id>{}(std::this_thread::get_id()); }

CUgraphNodeType TypeOf(const Work& work) {
  if (std::holds_alternative<KernelWork>(work)) return CU_GRAPH_NODE_TYPE_KERNEL;
  if (std::holds_alternative<CopyWork>(work)) return CU_GRAPH_NODE_TYPE_MEMCPY;
  if (std::holds_alternative<FillWork>(work)) return CU_GRAPH_NODE_TYPE_MEMSET;
  if (std::holds_alternative<HostWork>(work)) return CU_GRAPH_NODE_TYPE_HOST;
  if (std::holds_alternative<EventRecordWork>(work)) return CU_GRAPH_NODE_TYPE_EVENT_RECORD;
  if (std::holds_alternative<EventWaitWork>(work)) return CU_GRAPH_NODE_TYPE_WAIT_EVENT;
  if (std::holds_alternative<MemOpsWork>(work)) return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
  return CU_GRAPH_NODE_TYPE_EMPTY;
}

bool CanBeCaptured(const Work& work) {
  if (const auto* host = std::get_if<HostWork>(&work)) return host->callback == nullptr;
  return !std::holds_alternative<FreeWork>(work) && !std::holds_alternative<GraphWork>(work);
}

}  // namespace

void Driver::Invalidate(Capture& capture) { capture.is_invalidated = true; }

CUresult Driver::CaptureWork(Stream& stream, Work& work, bool* is_captured) {
  std::lock_guard lock(engine_.mutex());
  if (!stream.capture) {
    if (stream.kind != Stream::Kind::kLegacy) return CUDA_SUCCESS;
    // Work in the legacy stream would have to wait for a blocking stream that is being captured,
    // which is an error (CUDA_ERROR_STREAM_CAPTURE_IMPLICIT).
    for (const auto& weak : captures_) {
      const std::shared_ptr<Capture> capture = weak.lock();
      if (!capture || capture->is_over) continue;
      const bool is_ordered =
          std::any_of(capture->members.begin(), capture->members.end(), [&](const auto& member) {
            return member->blocking() && member->context == stream.context;
          });
      if (!is_ordered) continue;
      Invalidate(*capture);
      return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    return CUDA_SUCCESS;
  }
  *is_captured = true;
  if (!CanBeCaptured(work)) {
    Invalidate(*stream.capture);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  if (stream.capture->is_invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  const CUgraphNodeType type = TypeOf(work);
  GraphNode* node =
      stream.capture->graph->Add(type, std::move(work), std::move(stream.capture_tail));
  stream.capture_tail = {node};
  return CUDA_SUCCESS;
}

CUresult Driver::BeginCapture(Stream& stream, CUstreamCaptureMode mode) {
  if (stream.kind == Stream::Kind::kLegacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  std::lock_guard lock(engine_.mutex());
  if (stream.capture) return CUDA_ERROR_ILLEGAL_STATE;
  auto capture = std::make_shared<Capture>();
  capture->id = next_capture_id.fetch_add(1);
  capture->graph = std::make_shared<Graph>();
  capture->mode = mode;
  capture->origin = &stream;
  capture->thread = ThisThread();
  capture->members.push_back(stream.shared_from_this());
  stream.capture = capture;
  stream.capture_tail.clear();
  std::erase_if(captures_, [](const auto& weak) { return weak.expired(); });
  captures_.push_back(capture);
  return CUDA_SUCCESS;
}

CUresult Driver::EndCapture(Stream& stream, std::shared_ptr<Graph>* graph) {
  std::shared_ptr<Capture> capture;
  CUresult result = CUDA_SUCCESS;
  {
    std::lock_guard lock(engine_.mutex());
    capture = stream.capture;
    if (!capture) return CUDA_ERROR_ILLEGAL_STATE;
    if (capture->origin != &stream) {
      Invalidate(*capture);
      return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != ThisThread()) {
      Invalidate(*capture);
      return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    }
    for (const auto& member : capture->members) {
      if (member->capture != capture) continue;
      if (!Reaches(stream.capture_tail, member->capture_tail)) {
        result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
      }
    }
    for (const auto& member : capture->members) {
      if (member->capture != capture) continue;
      member->capture = nullptr;
      if (member.get() != &stream) member->capture_tail.clear();
    }
    stream.capture_tail.clear();
    capture->is_over = true;
    if (capture->is_invalidated) result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  }
  if (result != CUDA_SUCCESS) return result;
  *graph = capture->graph;
  AddGraph(capture->graph);
  return CUDA_SUCCESS;
}

CUstreamCaptureStatus Driver::CaptureOf(Stream& stream, Capture* copy,
                                        std::vector<GraphNode*>* tail) {
  std::lock_guard lock(engine_.mutex());
  if (!stream.capture) return CU_STREAM_CAPTURE_STATUS_NONE;
  if (copy != nullptr) *copy = *stream.capture;
  if (tail != nullptr) *tail = stream.capture_tail;
  return stream.capture->is_invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                        : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

CUstreamCaptureMode Driver::ExchangeCaptureMode(CUstreamCaptureMode mode) {
  return std::exchange(capture_mode, mode);
}

CUresult Driver::CheckMaySynchronize() {
  if (capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  std::lock_guard lock(engine_.mutex());
  for (const auto& weak : captures_) {
    const std::shared_ptr<Capture> capture = weak.lock();
    if (!capture || capture->is_over) continue;
    const bool is_own = capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
                        capture->thread == ThisThread();
    const bool is_global = capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                           capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!is_own && !is_global) continue;
    Invalidate(*capture);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return CUDA_SUCCESS;
}

CUresult Driver::LaunchGraph(GraphExec& exec, Stream& stream) {
  static const uint64_t graph_seed = settings::Number("CUPOLA_SIM_GRAPH_SEED");
  auto plan = std::make_shared<Plan>();
  std::vector<StreamPoint> after;
  {
    std::lock_guard lock(engine_.mutex());
    if (stream.capture) {  // the steps become a child graph, one behind the other
      if (stream.capture->is_invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
      auto child = std::make_shared<Graph>();
      std::vector<GraphNode*> before;
      for (const GraphExec::Step& step : exec.steps) {
        if (!step.enabled) continue;
        before = {child->Add(TypeOf(step.work), step.work, before)};
      }
      GraphNode* node = stream.capture->graph->Add(CU_GRAPH_NODE_TYPE_GRAPH, EmptyWork{},
                                                   std::move(stream.capture_tail));
      node->child = std::move(child);
      stream.capture_tail = {node};
      return CUDA_SUCCESS;
    }
    for (const size_t index : exec.Order(graph_seed == 0 ? 0 : graph_seed + next_graph_launch.fetch_add(1))) {
      const GraphExec::Step& step = exec.steps[index];
      if (!step.enabled) continue;
      Work work = step.work;
      if (auto* record = std::get_if<EventRecordWork>(&work)) {
        record->record = std::make_shared<EventRecord>();
        record->event->record = record->record;
        record->event->capture = nullptr;
      } else if (auto* wait = std::get_if<EventWaitWork>(&work)) {
        wait->record = wait->event->record;
      }
      plan->steps.push_back(std::move(work));
    }
    if (exec.last.stream) after.push_back(exec.last);
  }
  bool is_captured = false;
  Work work = GraphWork{plan};
  if (CUresult result = CaptureWork(stream, work, &is_captured); result != CUDA_SUCCESS) {
    return result;
  }
  StreamPoint point = engine_.Submit(stream, std::move(work), std::move(after));
  std::lock_guard lock(engine_.mutex());
  exec.last = std::move(point);
  return CUDA_SUCCESS;
}

void Driver::AddNodeHandle(GraphNode* node, std::shared_ptr<Graph> graph) {
  std::lock_guard lock(mutex_);
  graph_of_node_[node] = std::move(graph);
}

void Driver::AddGraph(const std::shared_ptr<Graph>& graph) {
  graphs.Add(graph);
  for (const auto& node : graph->nodes()) {
    AddNodeHandle(node.get(), graph);
    if (node->child) AddGraph(node->child);
  }
}

void Driver::DropNodeHandle(const GraphNode* node) {
  std::lock_guard lock(mutex_);
  graph_of_node_.erase(node);
}

void Driver::DropNodeHandles(const Graph& graph) {
  for (const auto& node : graph.nodes()) {
    DropNodeHandle(node.get());
    if (node->child) {
      DropNodeHandles(*node->child);
      graphs.Take(node->child.get());
    }
  }
}

GraphNode* Driver::FindNode(CUgraphNode handle) {
  std::lock_guard lock(mutex_);
  auto it = graph_of_node_.find(handle);
  return it == graph_of_node_.end() ? nullptr : reinterpret_cast<GraphNode*>(handle);
}

}  // namespace cupola::sim
