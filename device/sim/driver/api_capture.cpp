// Stream capture: cuStreamBeginCapture and its relatives.
#include "base/per_thread.h"
#include "device/sim/driver/api.h"

using namespace cupola::sim;  // NOLINT

namespace {

/// The stream that a handle means. It does not fail because of a capture, as these calls ask about
/// captures.
CUresult Find(CUstream handle, DefaultStream null_means, Driver** driver,
              std::shared_ptr<Stream>* stream) {
  Context* context;
  return Enter(driver, &context, handle, null_means, stream);
}

CUresult InfoOf(DefaultStream null_means, CUstream handle, CUstreamCaptureStatus* status,
                cuuint64_t* id, CUgraph* graph, const CUgraphNode** dependencies, size_t* count) {
  Driver* driver;
  std::shared_ptr<Stream> stream;
  SIM_TRY(Find(handle, null_means, &driver, &stream));
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Capture capture;
  // The program may read the array of nodes until the thread's next call about a capture.
  static auto* const tails = new cupola::PerThread<std::vector<GraphNode*>>;
  std::vector<GraphNode*>& tail = tails->Get();
  tail.clear();
  *status = driver->CaptureOf(*stream, &capture, &tail);
  if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
  if (id != nullptr) *id = capture.id;
  if (graph != nullptr) {
    if (!driver->graphs.Find(capture.graph.get())) driver->graphs.Add(capture.graph);
    *graph = reinterpret_cast<CUgraph>(capture.graph.get());
  }
  for (GraphNode* node : tail) driver->AddNodeHandle(node, capture.graph);
  if (dependencies != nullptr) *dependencies = reinterpret_cast<const CUgraphNode*>(tail.data());
  if (count != nullptr) *count = tail.size();
  return CUDA_SUCCESS;
}

CUresult UpdateDependencies(DefaultStream null_means, CUstream handle, CUgraphNode* nodes,
                            size_t count, unsigned int flags) {
  Driver* driver;
  std::shared_ptr<Stream> stream;
  SIM_TRY(Find(handle, null_means, &driver, &stream));
  std::vector<GraphNode*> named;
  for (size_t i = 0; i < count; ++i) {
    named.push_back(driver->FindNode(nodes[i]));
    if (named.back() == nullptr) return CUDA_ERROR_INVALID_VALUE;
  }
  std::lock_guard lock(driver->engine().mutex());
  if (!stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) stream->capture_tail.clear();
  stream->capture_tail.insert(stream->capture_tail.end(), named.begin(), named.end());
  return CUDA_SUCCESS;
}

}  // namespace

SIM_CALL_BOTH(cuStreamBeginCapture_v2, _ptsz, (CUstream handle, CUstreamCaptureMode mode),
              (handle, mode)) {
  Driver* driver;
  std::shared_ptr<Stream> stream;
  SIM_TRY(Find(handle, null_means, &driver, &stream));
  if (mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  return driver->BeginCapture(*stream, mode);
}

SIM_CALL_BOTH(cuStreamBeginCapture, _ptsz, (CUstream handle), (handle)) {
  return cuStreamBeginCapture_v2_body(null_means, handle, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

SIM_CALL_BOTH(cuStreamEndCapture, _ptsz, (CUstream handle, CUgraph* graph), (handle, graph)) {
  Driver* driver;
  std::shared_ptr<Stream> stream;
  SIM_TRY(Find(handle, null_means, &driver, &stream));
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *graph = nullptr;
  std::shared_ptr<Graph> captured;
  SIM_TRY(driver->EndCapture(*stream, &captured));
  *graph = reinterpret_cast<CUgraph>(captured.get());
  return CUDA_SUCCESS;
}

SIM_CALL_BOTH(cuStreamIsCapturing, _ptsz, (CUstream handle, CUstreamCaptureStatus* status),
              (handle, status)) {
  return InfoOf(null_means, handle, status, nullptr, nullptr, nullptr, nullptr);
}

SIM_CALL_BOTH(cuStreamGetCaptureInfo, _ptsz,
              (CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id),
              (handle, status, id)) {
  return InfoOf(null_means, handle, status, id, nullptr, nullptr, nullptr);
}

SIM_CALL_BOTH(cuStreamGetCaptureInfo_v2, _ptsz,
              (CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
               const CUgraphNode** dependencies, size_t* count),
              (handle, status, id, graph, dependencies, count)) {
  return InfoOf(null_means, handle, status, id, graph, dependencies, count);
}

SIM_CALL_BOTH(cuStreamGetCaptureInfo_v3, _ptsz,
              (CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
               const CUgraphNode** dependencies, const CUgraphEdgeData** edges, size_t* count),
              (handle, status, id, graph, dependencies, edges, count)) {
  if (edges != nullptr) *edges = nullptr;  // no edge has data
  return InfoOf(null_means, handle, status, id, graph, dependencies, count);
}

SIM_CALL_BOTH(cuStreamUpdateCaptureDependencies, _ptsz,
              (CUstream handle, CUgraphNode* nodes, size_t count, unsigned int flags),
              (handle, nodes, count, flags)) {
  return UpdateDependencies(null_means, handle, nodes, count, flags);
}

SIM_CALL_BOTH(cuStreamUpdateCaptureDependencies_v2, _ptsz,
              (CUstream handle, CUgraphNode* nodes, const CUgraphEdgeData* edges, size_t count,
               unsigned int flags),
              (handle, nodes, edges, count, flags)) {
  return UpdateDependencies(null_means, handle, nodes, count, flags);
}

SIM_EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  if (mode == nullptr || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  *mode = driver->ExchangeCaptureMode(*mode);
  return CUDA_SUCCESS;
}
