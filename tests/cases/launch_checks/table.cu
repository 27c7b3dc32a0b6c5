// What each launch call answers to launches that CUDA takes and that it refuses, one line a launch:
//   CALL | LAUNCH | ANSWER        table KERNELS.ptx [BEFORE [CALL]]
// BEFORE right launches of the same kernel (8) come before each, so that a library that makes something
// else of a kernel's launches does so by then. CALL: only that one of kernel, kernel_ptsz, ex, ex_ptsz,
// cooperative, node, runtime and chevrons.
#include <cuda.h>
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

extern "C" CUresult cuLaunchKernel_ptsz(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                        unsigned, CUstream, void**, void**);
extern "C" CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig*, CUfunction, void**, void**);

__global__ void Free(unsigned* out) { atomicAdd(out, 1u); }
__global__ void __launch_bounds__(64) Bounded(unsigned* out) { atomicAdd(out, 1u); }
__global__ void Static(unsigned* out) {
  __shared__ volatile unsigned room[10000];
  room[threadIdx.x] = 1;
  atomicAdd(out, room[threadIdx.x]);
}

// Needs more registers than 1024 threads can have.
__global__ void Hungry(unsigned* out) {
  volatile unsigned* const words = out;
  unsigned values[128];
#pragma unroll
  for (int i = 0; i < 128; ++i) values[i] = words[i];
  __syncthreads();
  unsigned sum = 0;
#pragma unroll
  for (int i = 127; i >= 0; --i) sum = sum * 31 + values[i];
  if (sum == 12345) words[200] = sum;
}

struct Kernel {
  const char* name;
  void* host;  // null: of KERNELS.ptx only
  dim3 block;  // of a right launch
  unsigned grid;
  CUfunction function;
};
Kernel kernels[] = {{"Free", (void*)Free, 32, 1},        {"Bounded", (void*)Bounded, 32, 1},
                    {"Static", (void*)Static, 32, 1},    {"Hungry", (void*)Hungry, 32, 1},
                    {"Required", nullptr, 64, 1},
                    {"RequiredBox", nullptr, dim3(8, 8), 1}, {"BoundedBox", nullptr, dim3(8, 8), 1},
                    {"Wide", nullptr, 32, 1},            {"Pairs", nullptr, 32, 2},
                    {"Small", nullptr, 32, 1},           {"Limited", nullptr, 32, 1},
                    {"Clustered", nullptr, 32, 2},       {"Null", nullptr, 0u, 0}};
enum { kFree, kBounded, kStatic, kHungry, kRequired, kRequiredBox, kBoundedBox, kWide, kPairs, kSmall, kLimited,
       kClustered, kNull };

struct Launch {
  const char* name;
  int kernel;
  dim3 grid, block;
  unsigned shared = 0;
  std::vector<CUlaunchAttribute> attributes = {};
  int arguments = 0;  // 0: kernelParams; others: see Arguments
  unsigned more_attributes = 0;  // said to be there
};

CUlaunchAttribute Attribute(int id, unsigned x, unsigned y = 0, unsigned z = 0) {
  CUlaunchAttribute attribute;
  memset(&attribute, 0, sizeof(attribute));
  attribute.id = (CUlaunchAttributeID)id;
  attribute.value.clusterDim.x = x;
  attribute.value.clusterDim.y = y;
  attribute.value.clusterDim.z = z;
  return attribute;
}
CUlaunchAttribute Cluster(unsigned x, unsigned y, unsigned z) {
  return Attribute(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, x, y, z);
}

// Launches with more than kernelParams or with attributes only some calls can make.
const Launch kLaunches[] = {
    {"right", kFree, 1, 32},
    {"block x 1024", kFree, 1, 1024},
    {"block x 1025", kFree, 1, 1025},
    {"block y 1024", kFree, 1, dim3(1, 1024)},
    {"block y 1025", kFree, 1, dim3(1, 1025)},
    {"block z 64", kFree, 1, dim3(1, 1, 64)},
    {"block z 65", kFree, 1, dim3(1, 1, 65)},
    {"block z 992", kFree, 1, dim3(1, 1, 992)},
    {"block 33 x 32", kFree, 1, dim3(33, 32)},
    {"block 65536 x 65536", kFree, 1, dim3(65536, 65536)},
    {"block x 0", kFree, 1, dim3(0, 1, 1)},
    {"block y 0", kFree, 1, dim3(32, 0, 1)},
    {"block z 0", kFree, 1, dim3(32, 1, 0)},
    {"grid x 0", kFree, dim3(0, 1, 1), 32},
    {"grid y 0", kFree, dim3(1, 0, 1), 32},
    {"grid z 0", kFree, dim3(1, 1, 0), 32},
    {"grid x 2147483648", kFree, dim3(2147483648u, 1, 1), 32},
    {"grid y 65536", kFree, dim3(1, 65536, 1), 32},
    {"grid z 65536", kFree, dim3(1, 1, 65536), 32},
    {"64 of at most 64", kBounded, 1, 64},
    {"65 of at most 64", kBounded, 1, 65},
    {"96 of at most 64", kBounded, 1, 96},
    {"block z 65 of at most 64", kBounded, 1, dim3(1, 1, 65)},
    {"64 x 1 of at most 8 x 8", kBoundedBox, 1, 64},
    {"1 x 64 of at most 8 x 8", kBoundedBox, 1, dim3(1, 64)},
    {"65 x 1 of at most 8 x 8", kBoundedBox, 1, 65},
    {"64 required, 64", kRequired, 1, 64},
    {"64 required, 32", kRequired, 1, 32},
    {"64 required, 128", kRequired, 1, 128},
    {"64 required, 8 x 8", kRequired, 1, dim3(8, 8)},
    {"64 required, 1 x 64", kRequired, 1, dim3(1, 64)},
    {"64 required, 1 x 1 x 65", kRequired, 1, dim3(1, 1, 65)},
    {"64 required, 2048", kRequired, 1, 2048},
    {"8 x 8 required, 8 x 8", kRequiredBox, 1, dim3(8, 8)},
    {"8 x 8 required, 64", kRequiredBox, 1, 64},
    {"8 x 8 required, 4 x 16", kRequiredBox, 1, dim3(4, 16)},
    {"shared 49152", kFree, 1, 32, 49152},
    {"shared 49153", kFree, 1, 32, 49153},
    {"shared 60000", kFree, 1, 32, 60000},
    {"shared 232449", kFree, 1, 32, 232449},
    {"shared 4294967295", kFree, 1, 32, 4294967295u},
    {"static 40000, shared 9152", kStatic, 1, 32, 9152},
    {"static 40000, shared 9153", kStatic, 1, 32, 9153},
    {"256 threads of many registers", kHungry, 1, 256},
    {"1024 threads of too many registers", kHungry, 1, 1024},
    {"limit raised to 100000, shared 60000", kWide, 1, 32, 60000},
    {"limit raised to 100000, shared 100000", kWide, 1, 32, 100000},
    {"limit raised to 100000, shared 100001", kWide, 1, 32, 100001},
    {"limit lowered to 1000, shared 1000", kSmall, 1, 32, 1000},
    {"limit lowered to 1000, shared 1001", kSmall, 1, 32, 1001},
    {"limit lowered to 1000, shared 2000", kSmall, 1, 32, 2000},
    {"limit lowered after a launch, shared 8000", kLimited, 1, 32, 8000},
    {"limit raised again, shared 8000", kLimited, 1, 32, 8000},
    {"null function", kNull, 1, 32},
    {"null function, block x 0", kNull, 1, dim3(0, 1, 1)},
    {"clusters of 2 by the kernel, grid 2", kPairs, 2, 32},
    {"clusters of 2 by the kernel, grid 3", kPairs, 3, 32},
    {"clusters of 2 by the kernel, block z 65", kPairs, 2, dim3(1, 1, 65)},
    {"clusters of 2 by an attribute of the kernel, grid 2", kClustered, 2, 32},
    {"clusters of 2 by an attribute of the kernel, grid 3", kClustered, 3, 32},
    {"no arguments", kFree, 1, 32, 0, {}, 1},
    {"both kinds of arguments", kFree, 1, 32, 0, {}, 2},
    {"packed arguments", kFree, 1, 32, 0, {}, 3},
    {"packed arguments, 8 bytes too many", kFree, 1, 32, 0, {}, 5},
    {"packed arguments, no size", kFree, 1, 32, 0, {}, 6},
    {"packed arguments, an unknown key", kFree, 1, 32, 0, {}, 7},
    {"packed arguments, block z 65", kFree, 1, dim3(1, 1, 65), 0, {}, 3},
    {"cooperative, grid 1000000", kFree, 1000000, 32, 0, {Attribute(CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 1)}},
    {"cooperative", kFree, 1, 32, 0, {Attribute(CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 1)}},
    {"cooperative, block z 65", kFree, 1, dim3(1, 1, 65), 0, {Attribute(CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 1)}},
    {"clusters of 1", kFree, 3, 32, 0, {Cluster(1, 1, 1)}},
    {"clusters of 2, grid 2", kFree, 2, 32, 0, {Cluster(2, 1, 1)}},
    {"clusters of 2, grid 3", kFree, 3, 32, 0, {Cluster(2, 1, 1)}},
    {"clusters of 1 x 2, grid 3", kFree, 3, 32, 0, {Cluster(1, 2, 1)}},
    {"clusters of 0", kFree, 2, 32, 0, {Cluster(0, 0, 0)}},
    {"clusters of 0 x 1", kFree, 2, 32, 0, {Cluster(0, 1, 1)}},
    {"clusters of 8", kFree, 8, 32, 0, {Cluster(8, 1, 1)}},
    {"clusters of 16", kFree, 16, 32, 0, {Cluster(16, 1, 1)}},
    {"clusters of 32", kFree, 32, 32, 0, {Cluster(32, 1, 1)}},
    {"clusters of 2, block z 65", kFree, 2, dim3(1, 1, 65), 0, {Cluster(2, 1, 1)}},
    {"clusters of 2, cooperative", kFree, 2, 32, 0, {Cluster(2, 1, 1), Attribute(CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 1)}},
    {"clusters of 2 by the kernel, 2 said", kPairs, 2, 32, 0, {Cluster(2, 1, 1)}},
    {"clusters of 2 by the kernel, 1 said", kPairs, 2, 32, 0, {Cluster(1, 1, 1)}},
    {"clusters of 2 by the kernel, 4 said", kPairs, 4, 32, 0, {Cluster(4, 1, 1)}},
    {"an attribute to be ignored", kFree, 1, 32, 0, {Attribute(0, 1)}},
    {"attribute 9999", kFree, 1, 32, 0, {Attribute(9999, 1)}},
    {"attribute 9999 and block z 65", kFree, 1, dim3(1, 1, 65), 0, {Attribute(9999, 1)}},
    {"attribute -1", kFree, 1, 32, 0, {Attribute(-1, 1)}},
    {"attribute 3: of streams only", kFree, 1, 32, 0, {Attribute(3, 1)}},
    {"attributes that are not there", kFree, 1, 32, 0, {}, 0, 1},
    {"priority -5", kFree, 1, 32, 0, {Attribute(CU_LAUNCH_ATTRIBUTE_PRIORITY, -5)}},
    {"priority -100", kFree, 1, 32, 0, {Attribute(CU_LAUNCH_ATTRIBUTE_PRIORITY, -100)}},
    {"priority 100", kFree, 1, 32, 0, {Attribute(CU_LAUNCH_ATTRIBUTE_PRIORITY, 100)}},
    {"priority 100 and block z 65", kFree, 1, dim3(1, 1, 65), 0, {Attribute(CU_LAUNCH_ATTRIBUTE_PRIORITY, 100)}},
    {"memory domain 1", kFree, 1, 32, 0, {Attribute(CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, 1)}},
    {"memory domain 7", kFree, 1, 32, 0, {Attribute(CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, 7)}},
    {"carve-out 50", kFree, 1, 32, 0, {Attribute(14, 50)}},
    {"carve-out 200", kFree, 1, 32, 0, {Attribute(14, 200)}},
    {"programmatic serialisation", kFree, 1, 32, 0,
     {Attribute(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, 1)}},
};

unsigned* out;
CUstream stream;
int before = 8;

// The ways in which arguments may be given, right and wrong.
struct Arguments {
  void* pointers[1] = {&out};
  size_t bytes = sizeof(out);
  struct { unsigned* first; unsigned* room; } buffer = {out, out};
  void* extra[7] = {};
  void** params = pointers;
  void** packed = nullptr;
  explicit Arguments(int kind) {
    if (kind == 0) return;
    if (kind != 2) params = nullptr;
    if (kind == 1) return;
    if (kind == 5) bytes = 16;
    packed = extra;
    int at = 0;
    const auto add = [&](void* key, void* value) { extra[at++] = key, extra[at++] = value; };
    if (kind == 7) add((void*)77, &bytes);
    add(CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer);
    if (kind != 6) add(CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes);
    extra[at] = CU_LAUNCH_PARAM_END;
  }
};

const char* NameOf(CUresult result) {
  const char* name = nullptr;
  return cuGetErrorName(result, &name) == CUDA_SUCCESS ? name : "an error without a name";
}

void Tell(const char* call, const Launch& launch, const char* stage, const char* answer) {
  printf("%s | %s | %s%s\n", call, launch.name, stage, answer);
  fflush(stdout);
}

CUresult ByEx(const Launch& l, bool per_thread) {
  Arguments arguments(l.arguments);
  CUlaunchConfig config;
  memset(&config, 0, sizeof(config));
  config.gridDimX = l.grid.x, config.gridDimY = l.grid.y, config.gridDimZ = l.grid.z;
  config.blockDimX = l.block.x, config.blockDimY = l.block.y, config.blockDimZ = l.block.z;
  config.sharedMemBytes = l.shared;
  config.hStream = stream;
  config.attrs = l.attributes.empty() ? nullptr : const_cast<CUlaunchAttribute*>(l.attributes.data());
  config.numAttrs = (unsigned)l.attributes.size() + l.more_attributes;
  const auto launch = per_thread ? cuLaunchKernelEx_ptsz : cuLaunchKernelEx;
  return launch(&config, kernels[l.kernel].function, arguments.params, arguments.packed);
}

CUresult ByKernel(const Launch& l, bool per_thread) {
  Arguments arguments(l.arguments);
  const auto launch = per_thread ? cuLaunchKernel_ptsz : cuLaunchKernel;
  return launch(kernels[l.kernel].function, l.grid.x, l.grid.y, l.grid.z, l.block.x, l.block.y, l.block.z, l.shared,
                stream, arguments.params, arguments.packed);
}

CUresult ByCooperative(const Launch& l) {
  Arguments arguments(l.arguments);
  return cuLaunchCooperativeKernel(kernels[l.kernel].function, l.grid.x, l.grid.y, l.grid.z, l.block.x, l.block.y,
                                   l.block.z, l.shared, stream, arguments.params);
}

// The stage that a refusal comes at, and the refusal.
CUresult ByNode(const Launch& l, const char** stage) {
  Arguments arguments(l.arguments);
  CUDA_KERNEL_NODE_PARAMS params;
  memset(&params, 0, sizeof(params));
  params.func = kernels[l.kernel].function;
  params.gridDimX = l.grid.x, params.gridDimY = l.grid.y, params.gridDimZ = l.grid.z;
  params.blockDimX = l.block.x, params.blockDimY = l.block.y, params.blockDimZ = l.block.z;
  params.sharedMemBytes = l.shared;
  params.kernelParams = arguments.params;
  params.extra = arguments.packed;
  CUgraph graph;
  CUgraphNode node;
  CUgraphExec exec = nullptr;
  cuGraphCreate(&graph, 0);
  *stage = "added: ";
  CUresult result = cuGraphAddKernelNode(&node, graph, nullptr, 0, &params);
  if (!result) *stage = "instantiated: ", result = cuGraphInstantiate(&exec, graph, 0);
  if (!result) *stage = "launched: ", result = cuGraphLaunch(exec, stream);
  if (!result) *stage = "", result = cuStreamSynchronize(stream);
  if (exec) cuGraphExecDestroy(exec);
  cuGraphDestroy(graph);
  return result;
}

// Whether a call can be made with this launch at all.
bool CanMake(const char* call, const Launch& l) {
  const bool is_ex = !strcmp(call, "ex") || !strcmp(call, "ex_ptsz");
  const bool is_cooperative = !strcmp(call, "cooperative"), is_node = !strcmp(call, "node");
  const bool is_runtime = !strcmp(call, "runtime") || !strcmp(call, "chevrons");
  if (l.more_attributes || !l.attributes.empty()) return is_ex;
  if (is_runtime) return kernels[l.kernel].host != nullptr && !l.arguments;
  if (is_cooperative) return l.arguments < 2;
  if (is_node && l.kernel == kNull) return false;
  return true;
}

CUresult Make(const char* call, const Launch& l, const char** stage, const char** name) {
  CUresult result = CUDA_SUCCESS;
  *stage = "";
  *name = nullptr;
  if (!strcmp(call, "kernel")) result = ByKernel(l, false);
  if (!strcmp(call, "kernel_ptsz")) result = ByKernel(l, true);
  if (!strcmp(call, "ex")) result = ByEx(l, false);
  if (!strcmp(call, "ex_ptsz")) result = ByEx(l, true);
  if (!strcmp(call, "cooperative")) result = ByCooperative(l);
  if (!strcmp(call, "node")) result = ByNode(l, stage);
  void* arguments[] = {&out};
  if (!strcmp(call, "runtime")) {
    *name = cudaGetErrorName(cudaLaunchKernel(kernels[l.kernel].host, l.grid, l.block, arguments, l.shared, stream));
    cudaGetLastError();
  }
  if (!strcmp(call, "chevrons")) {
    if (l.kernel == kFree) Free<<<l.grid, l.block, l.shared, stream>>>(out);
    if (l.kernel == kBounded) Bounded<<<l.grid, l.block, l.shared, stream>>>(out);
    if (l.kernel == kHungry) Hungry<<<l.grid, l.block, l.shared, stream>>>(out);
    if (l.kernel == kStatic) Static<<<l.grid, l.block, l.shared, stream>>>(out);
    *name = cudaGetErrorName(cudaGetLastError());
  }
  if (*name == nullptr) *name = NameOf(result);
  return result;
}

void SetLimit(int kernel, int bytes) {
  const CUresult result = cuFuncSetAttribute(kernels[kernel].function,
                                             CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes);
  if (result) printf("limit %d of %s: %s\n", bytes, kernels[kernel].name, NameOf(result));
}

void Try(const char* call, const Launch& launch) {
  const char *stage, *name;
  cuCtxSynchronize();
  if (launch.kernel == kLimited) SetLimit(kLimited, 16000);
  if (launch.kernel != kNull) {
    const Kernel& kernel = kernels[launch.kernel];
    const bool is_shared = launch.kernel == kLimited;
    for (int i = 0; i < before; ++i) {
      const Launch right{"", launch.kernel, kernel.grid, kernel.block, is_shared ? launch.shared : 0u};
      Make(call, right, &stage, &name);
      const bool fine = !strcmp(name, "CUDA_SUCCESS") || !strcmp(name, "cudaSuccess");
      if (!fine) printf("%s | before: %s | %s%s\n", call, launch.name, stage, name);
      if (!fine) break;
    }
  }
  const bool is_lowered = strstr(launch.name, "limit lowered after") != nullptr;
  if (launch.kernel == kLimited && is_lowered) SetLimit(kLimited, 4000);
  Make(call, launch, &stage, &name);
  Tell(call, launch, stage, name);
  if (const CUresult later = cuStreamSynchronize(stream)) Tell(call, launch, "later: ", NameOf(later));
}

int main(int, char** argv) {
  cudaStreamCreateWithFlags((cudaStream_t*)&stream, cudaStreamNonBlocking);
  if (cudaMalloc(&out, 4096) || cudaMemset(out, 0, 4096)) return 77;
  CUmodule module;
  if (const CUresult result = cuModuleLoad(&module, argv[1])) return printf("no module: %s\n", NameOf(result)), 77;
  for (Kernel& kernel : kernels) {
    if (kernel.host) {
      cudaGetFuncBySymbol((cudaFunction_t*)&kernel.function, kernel.host);
    } else if (const CUresult result = cuModuleGetFunction(&kernel.function, module, kernel.name)) {
      if (&kernel != &kernels[kNull]) printf("no %s: %s\n", kernel.name, NameOf(result));
      kernel.function = nullptr;
    }
  }
  if (argv[2]) before = atoi(argv[2]);
  SetLimit(kWide, 100000);
  SetLimit(kSmall, 1000);
  for (const int attribute : {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT,
                              CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH}) {
    const bool is_width = attribute == CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH;
    cuFuncSetAttribute(kernels[kClustered].function, (CUfunction_attribute)attribute, is_width ? 2 : 1);
  }
  const char* const calls[] = {"kernel", "kernel_ptsz", "ex", "ex_ptsz", "cooperative", "node", "runtime", "chevrons"};
  for (const char* call : calls) {
    if (argv[2] && argv[3] && strcmp(argv[3], call)) continue;
    for (const Launch& launch : kLaunches) {
      if (CanMake(call, launch)) Try(call, launch);
    }
  }
}
