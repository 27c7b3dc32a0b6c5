// The simulated device's driver as a C++ object: everything behind the C calls of libcuda.so.1. The
// shared library creates one per process, at cuInit, and never destroys it; tests create their own,
// over any Device. Methods return the CUresult that the CUDA call of the same purpose returns. All
// methods may be called from any thread.
#pragma once

#include <cuda.h>

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "device/sim/driver/context.h"
#include "device/sim/driver/graph.h"
#include "device/sim/driver/handles.h"
#include "device/sim/driver/memory.h"
#include "device/sim/driver/module.h"
#include "device/sim/driver/stream.h"
#include "device/sim/exec/device.h"

namespace cupola::sim {

/// Which default stream a null stream handle means: kLegacy in the plain calls, kPerThread in those
/// whose names end in _ptsz or _ptds.
enum class DefaultStream : uint8_t { kLegacy, kPerThread };

class Driver {
 public:
  explicit Driver(std::unique_ptr<Device> device);

  Device& device() { return *device_; }
  Engine& engine() { return engine_; }
  MemoryTable& memory() { return memory_; }

  // --- contexts (driver_context.cpp) ---
  // Current, SetCurrent, Push and Pop act on the calling thread's stack of contexts.
  Context* Current() const;                 ///< null when the stack is empty
  void SetCurrent(Context* context);        ///< replaces the top; a null context pops it
  bool Push(Context* context);              ///< false: the stack is full
  CUcontext Pop();                          ///< null when the stack was empty
  Context* CreateContext(uint32_t flags, int device = 0);
  Context* RetainPrimary();
  CUresult ReleasePrimary();
  /// Replaces the primary context by a fresh one under the same count of retains.
  void ResetPrimary();
  /// Blocks until all work of the context has ended.
  CUresult DestroyContext(Context* context);
  struct PrimaryState {
    uint32_t flags = 0;   ///< CU_CTX_*
    bool active = false;  ///< whether the primary context exists
  };
  PrimaryState primary_state() const;
  void SetPrimaryFlags(uint32_t flags);
  /// Blocks until all work of the context has ended; returns its sticky error.
  CUresult Synchronize(Context& context);

  // --- streams and events (driver_stream.cpp) ---
  std::shared_ptr<Stream> CreateStream(Context& context, uint32_t flags, int priority);
  CUresult DestroyStream(CUstream handle);
  /// The stream that a handle means in a context. The handles 0 (null), 1 (CU_STREAM_LEGACY) and 2
  /// (CU_STREAM_PER_THREAD) mean default streams. Null when the handle is invalid.
  std::shared_ptr<Stream> Resolve(Context& context, CUstream handle, DefaultStream null_means);
  /// Submits the work to the stream, or records it where the stream is being captured. Returns at
  /// once. `point` becomes the place of the work in the stream, for callers that wait; it stays
  /// empty where the work was recorded.
  CUresult Enqueue(Stream& stream, Work work, StreamPoint* point = nullptr);
  /// Enqueues the work and blocks until it has ended: for the calls that CUDA calls synchronous. In a
  /// captured stream it invalidates the capture and returns an error.
  CUresult EnqueueAndWait(Stream& stream, Work work);
  /// Blocks until everything submitted so far to the context's streams has ended, and launches of other threads until
  /// then (Context::launches).
  void WaitAndHoldLaunches(Context& context);
  CUresult Synchronize(Stream& stream);
  CUresult Query(Stream& stream);
  CUresult Record(Stream& stream, Event& event, uint32_t flags);
  /// Records the event behind all work that has been given to the context so far. Captures that are
  /// open in the context are invalidated.
  CUresult Record(Context& context, Event& event);
  CUresult WaitFor(Stream& stream, Event& event, uint32_t flags);
  CUresult Synchronize(Event& event);
  CUresult Query(Event& event);
  CUresult Elapsed(Event& start, Event& end, float* milliseconds);

  // --- capture and graphs (driver_graph.cpp) ---
  CUresult BeginCapture(Stream& stream, CUstreamCaptureMode mode);
  CUresult EndCapture(Stream& stream, std::shared_ptr<Graph>* graph);
  /// The capture status of a stream. Where a capture is active, `copy` gets its values and `tail` the
  /// nodes on which the next captured node will depend.
  CUstreamCaptureStatus CaptureOf(Stream& stream, Capture* copy, std::vector<GraphNode*>* tail);
  /// Sets the calling thread's capture mode and returns the one before.
  CUstreamCaptureMode ExchangeCaptureMode(CUstreamCaptureMode mode);
  /// CUDA_SUCCESS, or CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED where a capture in progress forbids the
  /// calling thread to make a call that may synchronise, such as an allocation.
  CUresult CheckMaySynchronize();
  CUresult LaunchGraph(GraphExec& exec, Stream& stream);
  /// Makes a node's address a valid CUgraphNode and keeps its graph alive.
  void AddNodeHandle(GraphNode* node, std::shared_ptr<Graph> graph);
  void DropNodeHandle(const GraphNode* node);
  /// Drops the handles of all nodes of a graph and of its child graphs, and those of the child graphs.
  void DropNodeHandles(const Graph& graph);
  GraphNode* FindNode(CUgraphNode handle);  ///< null for what is no node
  /// Makes a captured or cloned graph, its child graphs and all their nodes valid handles.
  void AddGraph(const std::shared_ptr<Graph>& graph);

  // --- modules and launches (driver_module.cpp, driver_launch.cpp) ---
  LoadFailure LoadModuleImage(Context& context, const void* image, std::shared_ptr<Module>* module);
  LoadFailure LoadLibrary(const void* image, std::shared_ptr<Library>* library);
  CUresult UnloadModule(CUmodule handle);
  CUresult UnloadLibrary(CUlibrary handle);
  /// The library's module in a context; loads it at the library's first use in that context.
  CUresult ModuleOf(Library& library, Context& context, std::shared_ptr<Module>* module);
  /// The function that the handle means in a context: a CUfunction, or a CUkernel cast to one.
  CUresult ResolveFunction(Context& context, CUfunction handle,
                           std::shared_ptr<Function>* function);

  struct LaunchShape {
    Dim3 grid;   ///< blocks
    Dim3 block;  ///< threads
    uint32_t dynamic_shared_bytes = 0;
    bool cooperative = false;
    Dim3 cluster{0, 0, 0};  ///< blocks, as the launch's attribute asks for; zeros: no such attribute
    bool is_node = false;   ///< whether it is for a graph's node, for which some errors differ
  };
  /// Checks a launch as a GPU's driver does (tests/cases/launch_checks has that driver's answers) and
  /// makes the work of it. `params` and `extra` are as cuLaunchKernel takes them.
  CUresult MakeKernelWork(Context& context, CUfunction handle, const LaunchShape& shape,
                          void** params, void** extra, KernelWork* work);

  HandleTable<Context> contexts;
  HandleTable<Stream> streams;
  HandleTable<Event> events;
  HandleTable<Module> modules;
  HandleTable<Function> functions;
  HandleTable<Library> libraries;
  HandleTable<Kernel> kernels;
  HandleTable<Graph> graphs;
  HandleTable<GraphExec> graph_execs;

 private:
  CUresult CaptureWork(Stream& stream, Work& work, bool* is_captured);
  void Invalidate(Capture& capture);
  void CloseContext(Context& context);
  void RegisterModule(const std::shared_ptr<Module>& module);
  void DropModule(const std::shared_ptr<Module>& module);

  std::unique_ptr<Device> device_;
  Engine engine_;
  MemoryTable memory_;

  /// Guards the members that follow, but for captures_. Never held while waiting.
  mutable std::mutex mutex_;
  std::shared_ptr<Context> primary_;  ///< null while the primary context does not exist
  uint32_t primary_uses_ = 0;         ///< retains without their release
  uint32_t primary_flags_ = 0;        ///< CU_CTX_*, also for the next primary context
  std::unordered_map<const void*, std::shared_ptr<Graph>> graph_of_node_;  ///< valid CUgraphNodes
  std::vector<std::weak_ptr<Capture>> captures_;  ///< guarded by the Engine's mutex
};

}  // namespace cupola::sim
