// Hooks that learn of streams made and destroyed and of captures begun and ended.
// CUDA Driver API, "Stream Management", "Green Contexts".
#include <cuda.h>

#include "intercept/batches/batches.h"
#include "intercept/facts/green_contexts.h"
#include "intercept/facts/stream_levels.h"
#include "intercept/facts/streams.h"
#include "intercept/launch/demand.h"
#include "intercept/launch/launch_context.h"
#include "intercept/process/calls.h"
#include "intercept/process/participation.h"
#include "intercept/process/thread_state.h"
#include "intercept/record/recorder.h"
#include "intercept/tasks/task_streams.h"

namespace cupola::intercept {
namespace {

template <typename CallReal>
CUresult MakeStream(CUstream* stream, CallReal&& call) noexcept {
  if (!Watching()) return call();
  const HookScope scope;
  if (TasksOn()) tasks::CountProgramStream();
  const CUresult result = call();
  if (result == CUDA_SUCCESS && stream != nullptr) OnStreamCreated(*stream);
  return result;
}

// Makes a stream with a priority. `call(level)` has the driver make it with the priority `level`, which Cupola may
// choose other than the program's (stream_levels.h).
template <typename CallReal>
CUresult MakeStreamOnLevel(CUstream* stream, int priority, CallReal&& call) noexcept {
  if (!Watching()) return call(priority);
  int level = priority;
  {
    const HookScope scope;
    level = LevelFor(priority);
  }
  const CUresult result = MakeStream(stream, [&] { return call(level); });
  if (result == CUDA_SUCCESS && stream != nullptr) {
    SetStreamLevel(*stream, priority, level);
  }
  return result;
}

template <typename CallReal>
CUresult EndStream(CUstream stream, CallReal&& call) noexcept {
  if (!Watching()) return call();
  const HookScope scope;
  if (PreemptionOn()) ForgetStreamOfDemand(stream);
  OnStreamDestroyed(stream);  // before the call: after it another thread may get the same handle
  ForgetGreenStream(stream);
  ForgetStreamLevel(stream);
  return call();
}

template <typename CallReal>
CUresult BeginCapture(CUstream stream, bool per_thread, CallReal&& call) noexcept {
  if (!Watching()) return call();
  const HookScope scope;
  OnCaptureBegins(stream, per_thread);
  const CUresult result = call();
  OnCaptureBegun(stream, result);
  return result;
}

template <typename CallReal>
CUresult EndCapture(CUstream stream, bool per_thread, CallReal&& call) noexcept {
  if (!Watching()) return call();
  const HookScope scope;
  const CUresult result = call();
  OnCaptureEnded(stream, per_thread, result);
  return result;
}

bool HasTasks(CUstream stream, bool per_thread) noexcept {
  if (!TasksOn() || InsideHook()) return false;
  const HookScope scope;
  batches::EndRow();
  return tasks::HasTasks(stream, per_thread);
}

}  // namespace

extern "C" {

CUresult hook_cuStreamCreate(CUstream* stream, unsigned flags) noexcept {
  return MakeStream(stream, [&] { return CUPOLA_REAL(cuStreamCreate)(stream, flags); });
}

CUresult hook_cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) noexcept {
  return MakeStreamOnLevel(stream, priority, [&](int level) {
    return CUPOLA_REAL(cuStreamCreateWithPriority)(stream, flags, level);
  });
}

CUresult hook_cuGreenCtxStreamCreate(CUstream* stream, CUgreenCtx green, unsigned flags,
                                     int priority) noexcept {
  const CUresult result = MakeStreamOnLevel(stream, priority, [&](int level) {
    return CUPOLA_REAL(cuGreenCtxStreamCreate)(stream, green, flags, level);
  });
  if (result == CUDA_SUCCESS && stream != nullptr) MarkGreenStream(*stream);
  return result;
}

CUresult hook_cuCtxFromGreenCtx(CUcontext* context, CUgreenCtx green) noexcept {
  const CUresult result = CUPOLA_REAL(cuCtxFromGreenCtx)(context, green);
  if (result == CUDA_SUCCESS && context != nullptr) MarkGreenContext(*context);
  return result;
}

CUresult hook_cuStreamGetPriority(CUstream stream, int* priority) noexcept {
  const CUresult result = CUPOLA_REAL(cuStreamGetPriority)(stream, priority);
  if (result == CUDA_SUCCESS) CorrectPriority(stream, priority);
  return result;
}

CUresult hook_cuStreamGetPriority_ptsz(CUstream stream, int* priority) noexcept {
  const CUresult result = CUPOLA_REAL(cuStreamGetPriority_ptsz)(stream, priority);
  if (result == CUDA_SUCCESS) CorrectPriority(stream, priority);
  return result;
}

CUresult hook_cuStreamQuery(CUstream stream) noexcept {
  if (HasTasks(stream, false)) return CUDA_ERROR_NOT_READY;
  return CUPOLA_REAL(cuStreamQuery)(stream);
}

CUresult hook_cuStreamQuery_ptsz(CUstream stream) noexcept {
  if (HasTasks(stream, true)) return CUDA_ERROR_NOT_READY;
  return CUPOLA_REAL(cuStreamQuery_ptsz)(stream);
}

CUresult hook_cuStreamDestroy(CUstream stream) noexcept {
  return EndStream(stream, [&] { return CUPOLA_REAL(cuStreamDestroy)(stream); });
}

CUresult hook_cuStreamDestroy_v2(CUstream stream) noexcept {
  return EndStream(stream, [&] { return CUPOLA_REAL(cuStreamDestroy_v2)(stream); });
}

CUresult hook_cuStreamBeginCapture(CUstream stream) noexcept {
  return BeginCapture(stream, false, [&] { return CUPOLA_REAL(cuStreamBeginCapture)(stream); });
}

CUresult hook_cuStreamBeginCapture_ptsz(CUstream stream) noexcept {
  return BeginCapture(stream, true, [&] { return CUPOLA_REAL(cuStreamBeginCapture_ptsz)(stream); });
}

CUresult hook_cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) noexcept {
  return BeginCapture(stream, false, [&] { return CUPOLA_REAL(cuStreamBeginCapture_v2)(stream, mode); });
}

CUresult hook_cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode) noexcept {
  return BeginCapture(stream, true,
                      [&] { return CUPOLA_REAL(cuStreamBeginCapture_v2_ptsz)(stream, mode); });
}

CUresult hook_cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph,
                                          const CUgraphNode* dependencies,
                                          const CUgraphEdgeData* edges, size_t count,
                                          CUstreamCaptureMode mode) noexcept {
  return BeginCapture(stream, false, [&] {
    return CUPOLA_REAL(cuStreamBeginCaptureToGraph)(stream, graph, dependencies, edges, count,
                                                    mode);
  });
}

CUresult hook_cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph,
                                               const CUgraphNode* dependencies,
                                               const CUgraphEdgeData* edges, size_t count,
                                               CUstreamCaptureMode mode) noexcept {
  return BeginCapture(stream, true, [&] {
    return CUPOLA_REAL(cuStreamBeginCaptureToGraph_ptsz)(stream, graph, dependencies, edges, count,
                                                         mode);
  });
}

CUresult hook_cuStreamEndCapture(CUstream stream, CUgraph* graph) noexcept {
  return EndCapture(stream, false, [&] { return CUPOLA_REAL(cuStreamEndCapture)(stream, graph); });
}

CUresult hook_cuStreamEndCapture_ptsz(CUstream stream, CUgraph* graph) noexcept {
  return EndCapture(stream, true,
                    [&] { return CUPOLA_REAL(cuStreamEndCapture_ptsz)(stream, graph); });
}

}  // extern "C"
}  // namespace cupola::intercept
