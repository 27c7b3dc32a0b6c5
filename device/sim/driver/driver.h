// The simulated device's driver as a C++ object: everything behind the C calls of libcuda.so.1. One
// per process in the shared library; tests make their own, over any Device. Methods return the
// CUresult of the call of the same name. Thread-safe.
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

/// Which default stream a null stream handle means: the plain calls or those ending in _ptsz/_ptds.
enum class DefaultStream : uint8_t { kLegacy, kPerThread };

class Driver {
 public:
  explicit Driver(std::unique_ptr<Device> device);

  Device& device() { return *device_; }
  Engine& engine() { return engine_; }
  MemoryTable& memory() { return memory_; }

  // --- contexts (driver_context.cpp) ---
  Context* Current() const;                 ///< of the calling thread; null when none
  void SetCurrent(Context* context);
  bool Push(Context* context);              ///< false: the stack is full
  CUcontext Pop();                          ///< null when the stack was empty
  Context* CreateContext(uint32_t flags, int device = 0);
  Context* RetainPrimary();
  CUresult ReleasePrimary();
  void ResetPrimary();
  CUresult DestroyContext(Context* context);
  struct PrimaryState { uint32_t flags = 0; bool active = false; };
  PrimaryState primary_state() const;
  void SetPrimaryFlags(uint32_t flags);
  /// Blocks until all work of the context has ended; its sticky error.
  CUresult Synchronize(Context& context);

  // --- streams and events (driver_stream.cpp) ---
  std::shared_ptr<Stream> CreateStream(Context& context, uint32_t flags, int priority);
  CUresult DestroyStream(CUstream handle);
  /// The stream that a handle means in a context, with 0, 1 and 2 resolved; null when invalid.
  std::shared_ptr<Stream> Resolve(Context& context, CUstream handle, DefaultStream null_means);
  /// Runs or, in a capture, records the work. `point` is where it stands, for callers that wait.
  CUresult Enqueue(Stream& stream, Work work, StreamPoint* point = nullptr);
  /// Enqueue and wait for the end: the copies that CUDA calls synchronous.
  CUresult EnqueueAndWait(Stream& stream, Work work);
  CUresult Synchronize(Stream& stream);
  CUresult Query(Stream& stream);
  CUresult Record(Stream& stream, Event& event, uint32_t flags);
  /// Of all that has been given to the context. Captures that are open in it end.
  CUresult Record(Context& context, Event& event);
  CUresult WaitFor(Stream& stream, Event& event, uint32_t flags);
  CUresult Synchronize(Event& event);
  CUresult Query(Event& event);
  CUresult Elapsed(Event& start, Event& end, float* milliseconds);

  // --- capture and graphs (driver_graph.cpp) ---
  CUresult BeginCapture(Stream& stream, CUstreamCaptureMode mode);
  CUresult EndCapture(Stream& stream, std::shared_ptr<Graph>* graph);
  /// Status, and where a capture is active its id, graph and what its next node depends on.
  CUstreamCaptureStatus CaptureOf(Stream& stream, Capture* copy, std::vector<GraphNode*>* tail);
  CUstreamCaptureMode ExchangeCaptureMode(CUstreamCaptureMode mode);  ///< of the calling thread
  /// CUDA_SUCCESS, or CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED where a capture in progress forbids a
  /// call that may synchronise (allocation and the like) to this thread.
  CUresult CheckMaySynchronize();
  CUresult LaunchGraph(GraphExec& exec, Stream& stream);
  void AddNodeHandle(GraphNode* node, std::shared_ptr<Graph> graph);
  void DropNodeHandle(const GraphNode* node);
  void DropNodeHandles(const Graph& graph);
  GraphNode* FindNode(CUgraphNode handle);
  /// Makes every node of a captured or cloned graph a handle.
  void AddGraph(const std::shared_ptr<Graph>& graph);

  // --- modules and launches (driver_module.cpp, driver_launch.cpp) ---
  LoadFailure LoadModuleImage(Context& context, const void* image, std::shared_ptr<Module>* module);
  LoadFailure LoadLibrary(const void* image, std::shared_ptr<Library>* library);
  CUresult UnloadModule(CUmodule handle);
  CUresult UnloadLibrary(CUlibrary handle);
  /// The library's module in a context, loaded when that is its first use.
  CUresult ModuleOf(Library& library, Context& context, std::shared_ptr<Module>* module);
  /// The function that a CUfunction or a CUkernel passed as one means in a context.
  CUresult ResolveFunction(Context& context, CUfunction handle,
                           std::shared_ptr<Function>* function);

  struct LaunchShape {
    Dim3 grid, block;
    uint32_t dynamic_shared_bytes = 0;
    bool cooperative = false;
    Dim3 cluster{0, 0, 0};  ///< that the launch asks for; 0s: it does not
    bool is_node = false;   ///< of a graph, whose errors differ
  };
  /// Checks a launch as the driver does (tests/cases/launch_checks has its answers) and makes it work.
  /// Parameters as cuLaunchKernel takes them.
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

  mutable std::mutex mutex_;  ///< guards what follows; never held while waiting
  std::shared_ptr<Context> primary_;
  uint32_t primary_uses_ = 0;
  uint32_t primary_flags_ = 0;
  std::unordered_map<const void*, std::shared_ptr<Graph>> graph_of_node_;
  std::vector<std::weak_ptr<Capture>> captures_;  ///< guarded by the engine's mutex
};

}  // namespace cupola::sim
