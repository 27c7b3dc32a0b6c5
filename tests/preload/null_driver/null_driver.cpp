#include "tests/preload/null_driver/null_driver.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <cuda.h>
#include <dlfcn.h>

// cuda.h renames these calls to their newest forms; here each name means the form that is written.
#undef cuStreamDestroy
#undef cuStreamBeginCapture
#undef cuGraphInstantiate
#undef cuGetProcAddress
#undef cuCtxDestroy
#undef cuGraphAddNode
#undef cuGraphAddKernelNode
#undef cuEventElapsedTime
#undef cuEventDestroy
#undef cuDevicePrimaryCtxReset

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

struct Object {
  enum Kind {
    kModule, kLibrary, kFunction, kKernel, kStream, kGraph, kNode, kExec, kEvent, kContext,
  };
  Kind kind;
  std::string name;
  CUgraphNodeType node_type = CU_GRAPH_NODE_TYPE_EMPTY;
  // The nodes of a graph; the graph of a child node; the bodies of a conditional.
  std::vector<Object*> children;
  bool capturing = false;
  bool non_blocking = false;  // for a stream, and for an event that was recorded into such a stream
  uint64_t time_ns = 0;
};

std::recursive_mutex mutex;
std::atomic<uint64_t> calls{0};
NullDriverCall log[4096];
std::atomic<uint64_t> faults{0};
std::atomic<int> failure{0};
std::atomic<int> hang{0};
std::map<std::string, uint64_t> counts;
std::set<Object*> open_captures;
thread_local CUcontext current = nullptr;
thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
Object primary{Object::kContext};

void Count(const char* name) {
  const std::lock_guard lock(mutex);
  ++counts[name];
}

template <typename T>
uint64_t Word(T value) {
  if constexpr (std::is_pointer_v<T>) return reinterpret_cast<uint64_t>(value);
  else return static_cast<uint64_t>(value);
}

template <typename... T>
CUresult Log(const char* name, T... arguments) {
  NullDriverCall& entry = log[calls.fetch_add(1) % 4096];
  strncpy(entry.name, name, sizeof(entry.name) - 1);
  const uint64_t words[] = {Word(arguments)...};
  memcpy(entry.arguments, words, sizeof(words));
  return static_cast<CUresult>(failure.load());
}

template <typename Handle>
CUresult Make(Handle* out, Object::Kind kind, const char* name = "") {
  *out = reinterpret_cast<Handle>(new Object{kind, name});
  return CUDA_SUCCESS;
}

template <typename Handle>
Object* As(Handle handle) {
  return reinterpret_cast<Object*>(handle);
}

uint64_t Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

Object* StreamOf(CUstream stream) {
  static Object default_stream{Object::kStream};
  return reinterpret_cast<uintptr_t>(stream) > 2 ? As(stream) : &default_stream;
}

// Called by calls that CUDA forbids to threads in global capture mode while a capture is open.
void Unsafe() {
  const std::lock_guard lock(mutex);
  if (!open_captures.empty() && capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED) ++faults;
}

CUresult BeginCapture(CUstream stream) {
  const std::lock_guard lock(mutex);
  if (As(stream)->capturing) return CUDA_ERROR_ILLEGAL_STATE;
  As(stream)->capturing = true;
  open_captures.insert(As(stream));
  return CUDA_SUCCESS;
}

CUresult Record(CUevent event, CUstream stream) {
  if (StreamOf(stream)->capturing) ++faults;
  As(event)->time_ns = Now();
  As(event)->non_blocking = StreamOf(stream)->non_blocking;
  return CUDA_SUCCESS;
}

}  // namespace

EXPORT uint64_t null_driver_calls() { return calls; }
EXPORT NullDriverCall null_driver_call(uint64_t i) { return log[i % 4096]; }
EXPORT uint64_t null_driver_capture_faults() { return faults; }
EXPORT uint64_t null_driver_count(const char* name) {
  const std::lock_guard lock(mutex);
  return counts[name];
}
EXPORT void null_driver_fail_with(int result) { failure = result; }
EXPORT void null_driver_hang(int value) { hang = value; }
#ifdef NULL_DRIVER_NEWER
EXPORT CUresult cuNewerThanTheHeaders(int* value) { *value = 77; return CUDA_SUCCESS; }
#endif

EXPORT CUresult cuDriverGetVersion(int* version) {
  const char* asked = getenv("NULL_DRIVER_VERSION");
  *version = asked != nullptr ? atoi(asked) : 13000;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuCtxGetCurrent(CUcontext* context) { *context = current; return CUDA_SUCCESS; }
EXPORT CUresult cuCtxSetCurrent(CUcontext context) { current = context; return CUDA_SUCCESS; }
EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  *context = reinterpret_cast<CUcontext>(&primary);
  return CUDA_SUCCESS;
}

// Modules and libraries: an image that begins with "BAD" is damaged.
EXPORT CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  Count("cuModuleLoadData");
  if (memcmp(image, "BAD", 3) == 0) return CUDA_ERROR_INVALID_IMAGE;
  return Make(module, Object::kModule);
}
EXPORT CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
EXPORT CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
  return Make(function, Object::kFunction, name);
}
EXPORT CUresult cuModuleEnumerateFunctions(CUfunction* functions, unsigned count, CUmodule) {
  for (unsigned i = 0; i < count; ++i) {
    Make(&functions[i], Object::kFunction, ("enumerated" + std::to_string(i)).c_str());
  }
  return CUDA_SUCCESS;
}
EXPORT CUresult cuLibraryLoadData(CUlibrary* library, const void* image, CUjit_option*, void**,
                                  unsigned, CUlibraryOption*, void**, unsigned) {
  if (memcmp(image, "BAD", 3) == 0) return CUDA_ERROR_INVALID_IMAGE;
  return Make(library, Object::kLibrary);
}
EXPORT CUresult cuLibraryUnload(CUlibrary) { return CUDA_SUCCESS; }
EXPORT CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary, const char* name) {
  return Make(kernel, Object::kKernel, name);
}
EXPORT CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  return Make(function, Object::kFunction, As(kernel)->name.c_str());
}
// This driver compiles nothing, so it knows no parameters.
EXPORT CUresult cuFuncGetParamInfo(CUfunction, size_t, size_t*, size_t*) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
EXPORT CUresult cuFuncGetName(const char** name, CUfunction function) {
  Count("cuFuncGetName");
  if (As(function)->kind != Object::kFunction) return CUDA_ERROR_INVALID_HANDLE;
  *name = As(function)->name.c_str();
  return CUDA_SUCCESS;
}
EXPORT CUresult cuKernelGetName(const char** name, CUkernel kernel) {
  Count("cuKernelGetName");
  if (As(kernel)->kind != Object::kKernel) return CUDA_ERROR_INVALID_HANDLE;
  *name = As(kernel)->name.c_str();
  return CUDA_SUCCESS;
}

// Launches; those of null_board.cpp where variants are to be completed.
#if !defined(NULL_DRIVER_BOARD)
#define LAUNCH_KERNEL(form)                                                                        \
  EXPORT CUresult form(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,           \
                       unsigned by, unsigned bz, unsigned shared, CUstream stream, void** params,  \
                       void** extra) {                                                             \
    return Log(#form, f, gx, gy, gz, bx, by, bz, shared, stream, params, extra);                   \
  }
LAUNCH_KERNEL(cuLaunchKernel)
LAUNCH_KERNEL(cuLaunchKernel_ptsz)
#endif
#define LAUNCH_EX(form)                                                                          \
  EXPORT CUresult form(const CUlaunchConfig* config, CUfunction f, void** params, void** extra) { \
    return Log(#form, config, f, params, extra);                                                 \
  }
#if !defined(NULL_DRIVER_OLDER)
LAUNCH_EX(cuLaunchKernelEx)
LAUNCH_EX(cuLaunchKernelEx_ptsz)
#endif
#define LAUNCH_COOPERATIVE(form)                                                         \
  EXPORT CUresult form(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, \
                       unsigned by, unsigned bz, unsigned shared, CUstream stream,       \
                       void** params) {                                                  \
    return Log(#form, f, gx, gy, gz, bx, by, bz, shared, stream, params);                \
  }
LAUNCH_COOPERATIVE(cuLaunchCooperativeKernel)
LAUNCH_COOPERATIVE(cuLaunchCooperativeKernel_ptsz)
EXPORT CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS* list, unsigned count,
                                                     unsigned flags) {
  return Log("cuLaunchCooperativeKernelMultiDevice", list, count, flags);
}
EXPORT CUresult cuLaunch(CUfunction f) { return Log("cuLaunch", f); }
EXPORT CUresult cuLaunchGrid(CUfunction f, int width, int height) {
  return Log("cuLaunchGrid", f, width, height);
}
EXPORT CUresult cuLaunchGridAsync(CUfunction f, int width, int height, CUstream stream) {
  return Log("cuLaunchGridAsync", f, width, height, stream);
}

// Streams and captures.
// The next stream that is made gets the handle of one that was destroyed, since drivers use handles again.
static std::atomic<Object*> destroyed_stream{nullptr};
EXPORT CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  *stream = reinterpret_cast<CUstream>(destroyed_stream.exchange(nullptr));
  if (*stream == nullptr) (void)Make(stream, Object::kStream);
  As(*stream)->non_blocking = flags == CU_STREAM_NON_BLOCKING;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamDestroy_v2(CUstream stream) {
  destroyed_stream = As(stream);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned, int) {
  return Make(stream, Object::kStream);
}
EXPORT CUresult cuStreamGetCtx(CUstream, CUcontext* context) {
  *context = current;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamBeginCapture(CUstream stream) { return BeginCapture(stream); }
EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode) {
  return BeginCapture(stream);
}
EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  const std::lock_guard lock(mutex);
  if (!As(stream)->capturing) return CUDA_ERROR_ILLEGAL_STATE;
  As(stream)->capturing = false;
  open_captures.erase(As(stream));
  return Make(graph, Object::kGraph);
}
EXPORT CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  *status = StreamOf(stream)->capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                        : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  std::swap(*mode, capture_mode);
  return CUDA_SUCCESS;
}

// Graphs.
EXPORT CUresult cuGraphCreate(CUgraph* graph, unsigned) { return Make(graph, Object::kGraph); }
static CUresult AddNode(CUgraphNode* node, CUgraph graph, CUgraphNodeType type, Object* child) {
  Make(node, Object::kNode);
  As(*node)->node_type = type;
  if (child != nullptr) As(*node)->children.push_back(child);
  As(graph)->children.push_back(As(*node));
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode*,
                                        size_t, const CUDA_KERNEL_NODE_PARAMS*) {
  return AddNode(node, graph, CU_GRAPH_NODE_TYPE_KERNEL, nullptr);
}
EXPORT CUresult cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode*, size_t) {
  return AddNode(node, graph, CU_GRAPH_NODE_TYPE_EMPTY, nullptr);
}
EXPORT CUresult cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph, const CUgraphNode*,
                                         size_t, CUgraph child) {
  return AddNode(node, graph, CU_GRAPH_NODE_TYPE_GRAPH, As(child));
}
EXPORT CUresult cuGraphAddNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode*,
                                  const CUgraphEdgeData*, size_t, CUgraphNodeParams* params) {
  AddNode(node, graph, params->type, nullptr);
  if (params->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
    auto* bodies = new CUgraph[params->conditional.size];
    for (unsigned i = 0; i < params->conditional.size; ++i) Make(&bodies[i], Object::kGraph);
    params->conditional.phGraph_out = bodies;
  }
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  const auto& all = As(graph)->children;
  if (nodes != nullptr) {
    for (size_t i = 0; i < *count && i < all.size(); ++i)
      nodes[i] = reinterpret_cast<CUgraphNode>(all[i]);
  }
  *count = all.size();
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  *type = As(node)->node_type;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* graph) {
  *graph = reinterpret_cast<CUgraph>(As(node)->children.at(0));
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphInstantiate(CUgraphExec* exec, CUgraph, CUgraphNode*, char*, size_t) {
  return Make(exec, Object::kExec);
}
EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec* exec, CUgraph, CUgraphNode*, char*, size_t) {
  return Make(exec, Object::kExec);
}
EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph, unsigned long long) {
  return Make(exec, Object::kExec);
}
EXPORT CUresult cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph,
                                             CUDA_GRAPH_INSTANTIATE_PARAMS*) {
  return Make(exec, Object::kExec);
}
EXPORT CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec* exec, CUgraph,
                                                  CUDA_GRAPH_INSTANTIATE_PARAMS*) {
  return Make(exec, Object::kExec);
}
EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  return Log("cuGraphLaunch", exec, stream);
}
EXPORT CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream) {
  return Log("cuGraphLaunch_ptsz", exec, stream);
}

// Events of a device whose clock is CLOCK_MONOTONIC.
EXPORT CUresult cuEventCreate(CUevent* event, unsigned) {
  Unsafe();
  return Make(event, Object::kEvent);
}
EXPORT CUresult cuEventDestroy_v2(CUevent) { return CUDA_SUCCESS; }
EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) { return Record(event, stream); }
EXPORT CUresult cuEventRecord_ptsz(CUevent event, CUstream stream) { return Record(event, stream); }
EXPORT CUresult cuEventQuery(CUevent event) {
  Count("cuEventQuery");
  Unsafe();
  const bool hangs = hang == 1 || (hang == 2 && As(event)->non_blocking);
  return hangs ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}
static CUresult Elapsed(float* ms, CUevent start, CUevent end) {
  *ms = static_cast<float>(
      static_cast<double>(static_cast<int64_t>(As(end)->time_ns - As(start)->time_ns)) / 1e6);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuEventElapsedTime(float* ms, CUevent start, CUevent end) {
  return Elapsed(ms, start, end);
}
EXPORT CUresult cuEventElapsedTime_v2(float* ms, CUevent start, CUevent end) {
  return Elapsed(ms, start, end);
}

// Entry points: the forms whose names differ from their exports, copied by hand from cudaTypedefs.h.
static std::string ExportOf(const std::string& symbol, int version, bool per_thread) {
  const auto pick = [&](int since, const char* newer, const char* older) {
    return std::string(version >= since ? newer : older);
  };
  if (symbol == "cuGetProcAddress") return pick(12000, "cuGetProcAddress_v2", "cuGetProcAddress");
  if (symbol == "cuStreamDestroy") return pick(4000, "cuStreamDestroy_v2", "cuStreamDestroy");
  if (symbol == "cuGraphInstantiate" && version >= 12000) return "cuGraphInstantiateWithFlags";
  if (symbol == "cuGraphInstantiate")
    return pick(11000, "cuGraphInstantiate_v2", "cuGraphInstantiate");
  std::string name = symbol;
  if (symbol == "cuStreamBeginCapture")
    name = pick(10010, "cuStreamBeginCapture_v2", "cuStreamBeginCapture");
  if (per_thread && dlsym(RTLD_DEFAULT, (name + "_ptsz").c_str()) != nullptr) name += "_ptsz";
  return name;
}

static void* OwnSymbol(const std::string& name) {
  Dl_info own;
  dladdr(reinterpret_cast<void*>(&OwnSymbol), &own);
  static void* self = dlopen(own.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  return dlsym(self, name.c_str());
}

static CUresult Address(const char* symbol, void** function, int version, cuuint64_t flags) {
  int driver_version = 0;
  cuDriverGetVersion(&driver_version);
  if (*symbol == '\0') return CUDA_ERROR_INVALID_VALUE;
  *function =
      OwnSymbol(ExportOf(symbol, version < driver_version ? version : driver_version, flags & 2));
  return *function != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
EXPORT CUresult cuGetProcAddress(const char* symbol, void** function, int version,
                                 cuuint64_t flags) {
  return Address(symbol, function, version, flags);
}
EXPORT CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version,
                                    cuuint64_t flags, CUdriverProcAddressQueryResult* status) {
  const CUresult result = Address(symbol, function, version, flags);
  if (status != nullptr) {
    *status =
        result == CUDA_SUCCESS ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return result;
}
EXPORT CUresult cuGetExportTable(const void** table, const CUuuid*) {
  *table = reinterpret_cast<const void*>(0x1234);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGetErrorString(CUresult, const char** text) {
  *text = "null driver";
  return CUDA_SUCCESS;
}
#if !defined(NULL_DRIVER_BOARD)
EXPORT CUresult cuMemAlloc_v2(CUdeviceptr* pointer, size_t bytes) {
  *pointer = 0x1000 + bytes;
  return CUDA_SUCCESS;
}
#endif
EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
  return Log("cuMemcpyHtoD_v2", to, from, bytes);
}
EXPORT CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
EXPORT CUresult cuCtxDestroy_v2(CUcontext) { return CUDA_SUCCESS; }
EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice) { return CUDA_SUCCESS; }
