// A program that launches in rows, and does between them whatever may look at what its streams have been given.
// main KIND SEED ROUNDS prints a sum of all that it saw, which must be the same however launches reach the device.
#include <cuda.h>
#include <cuda_runtime.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <thread>

struct Six {
  unsigned a[6];
};
constexpr int kCells = 4096;
__global__ void step(unsigned* d, int n, unsigned k) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) d[i] = d[i] * 1664525u + k;
}
__global__ void turn(unsigned* to, const unsigned* from, int n, unsigned long long by, Six six, char c) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] = from[(i + by) % n] ^ six.a[i % 6] ^ (unsigned)c;
}
__global__ void reverse(unsigned* d, int n) {
  extern __shared__ unsigned s[];
  for (int base = blockIdx.x * blockDim.x; base < n; base += gridDim.x * blockDim.x) {
    s[threadIdx.x] = d[base + threadIdx.x];
    __syncthreads();
    d[base + threadIdx.x] = s[blockDim.x - 1 - threadIdx.x] + 1;
    __syncthreads();
  }
}
__global__ void nothing() {}
__global__ void tell(volatile unsigned* word, unsigned value) { *word = value; }

static unsigned sum = 0;
static void Add(unsigned x) { sum = sum * 31 + x; }
static unsigned seed;
static unsigned Random(unsigned below) { return (seed = seed * 1103515245u + 12345u) / 65536 % below; }
static unsigned *a, *b, host[kCells];
static cudaStream_t streams[4];

static void Launch(cudaStream_t s) {
  const int n = 256 << Random(5);
  switch (Random(5)) {
    case 0: step<<<n / 128, 128, 0, s>>>(a, n, Random(1000)); break;
    case 1: {
      Six six;
      for (unsigned& x : six.a) x = Random(9999);
      turn<<<n / 64, 64, 0, s>>>(b, a, n, Random(n), six, (char)Random(100));
      break;
    }
    case 2: reverse<<<2, 128, 128 * sizeof(unsigned), s>>>(a, n); break;
    case 3: nothing<<<1, 32, 0, s>>>(); break;
    default: turn<<<n / 256, 256, 0, s>>>(a, b, n, Random(n), Six{}, 1);
  }
}
static void Look(cudaStream_t s, const unsigned* at) {
  cudaMemcpyAsync(host, at, sizeof(host), cudaMemcpyDeviceToHost, s);
  Add(cudaStreamSynchronize(s));
  for (unsigned x : host) Add(x);
}
static void Rows(int rounds) {
  cudaEvent_t event;
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  unsigned* pinned;
  cudaMallocHost(&pinned, sizeof(host));
  for (int r = 0; r < rounds; ++r) {
    cudaStream_t s = streams[Random(3)], other = streams[Random(3)];
    for (int i = Random(80); i > 0; --i) Launch(s);
    switch (Random(12)) {
      case 0: Look(s, a); break;
      case 1: cudaMemcpyAsync(b, a, 1024, cudaMemcpyDeviceToDevice, s); break;
      case 2: cudaMemsetAsync(a + 7, 1, 500, s); break;
      case 3: while (cudaStreamQuery(s) == cudaErrorNotReady) {} cudaMemcpy(host, b, 4096, cudaMemcpyDeviceToHost); Add(host[5]); break;
      case 4: cudaMemcpy(host, a, sizeof(host), cudaMemcpyDeviceToHost); Add(host[99]); break;
      case 5: cudaDeviceSynchronize(); break;
      case 6: cudaLaunchHostFunc(s, [](void* p) { ++*(unsigned*)p; }, pinned); break;
      case 7: {
        unsigned* more;
        cudaMallocAsync(&more, 4096, s);
        cudaMemcpyAsync(more, a, 4096, cudaMemcpyDeviceToDevice, s);
        step<<<4, 256, 0, s>>>(more, 1024, 3);
        cudaMemcpyAsync(a, more, 4096, cudaMemcpyDeviceToDevice, s);
        cudaFreeAsync(more, s);
        break;
      }
      case 8: {  // what a launch that cannot be says
        step<<<1, 2048, 0, s>>>(a, 1, 1);
        Add(cudaGetLastError());
        step<<<dim3(1, 70000), 1, 0, s>>>(a, 1, 1);
        Add(cudaGetLastError());
        reverse<<<1, 32, 1 << 20, s>>>(a, 32);
        Add(cudaGetLastError());
        break;
      }
      case 9: cudaFuncSetAttribute(reverse, cudaFuncAttributeMaxDynamicSharedMemorySize, 1024 + Random(1000)); break;
      case 10: {
        cudaStream_t c = streams[3];
        cudaEventRecord(event, s);
        cudaStreamWaitEvent(c, event, 0);
        cudaStreamSynchronize(c);
        cudaGraph_t graph;
        cudaGraphExec_t exec;
        cudaStreamBeginCapture(c, cudaStreamCaptureModeGlobal);
        for (int i = 0; i < 5; ++i) Launch(c);
        cudaStreamEndCapture(c, &graph);
        cudaGraphInstantiate(&exec, graph, 0);
        cudaGraphLaunch(exec, c);
        cudaStreamSynchronize(c);
        cudaGraphExecDestroy(exec);
        cudaGraphDestroy(graph);
        break;
      }
      default: break;
    }
    // Streams take turns in an order that the device keeps too.
    cudaEventRecord(event, s);
    cudaStreamWaitEvent(other, event, 0);
    for (cudaStream_t each : {streams[0], streams[1], streams[2]}) cudaStreamWaitEvent(each, event, 0);
  }
  cudaDeviceSynchronize();
  Add(*pinned);
}
// The host looks at a word that a kernel writes, and makes no call meanwhile.
static void Pauses(int rounds) {
  volatile unsigned* word;
  cudaHostAlloc((void**)&word, 4, cudaHostAllocMapped);
  for (int r = 1; r <= rounds; ++r) {
    for (int i = 0; i < 20; ++i) step<<<4, 128, 0, streams[0]>>>(a, 512, i);
    tell<<<1, 1, 0, streams[0]>>>(word, r);
    const time_t until = time(nullptr) + 20;
    while (*word != (unsigned)r && time(nullptr) < until) {}
    Add(*word);
  }
  Look(streams[0], a);
}
// Threads launch in turns: what one has launched is before what the next one does, in blocking streams by way
// of the legacy stream, else since the first waited or recorded an event.
static void Threads(int rounds) {
  for (int r = 0; r < rounds; ++r) {
    std::thread([&] { for (int i = 0; i < 30; ++i) Launch(streams[0]); }).join();
    std::thread([&] { for (int i = 0; i < 10; ++i) step<<<4, 256>>>(a, 1024, i); }).join();
    std::thread([&] { for (int i = 0; i < 12; ++i) Launch(streams[1]); cudaStreamSynchronize(streams[1]); }).join();
    std::thread([&] { Look(streams[0], a); }).join();
  }
  pthread_t both[2];
  for (pthread_t& each : both) {
    pthread_create(&each, nullptr, [](void* mine) -> void* {
      unsigned* d;
      cudaStream_t s;
      cudaMalloc(&d, 4096);
      cudaMemset(d, 0, 4096);
      cudaDeviceSynchronize();
      cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
      for (int i = 0; i < 400; ++i) step<<<4, 256, 0, s>>>(d, 1024, i);
      unsigned got[1024];
      cudaMemcpyAsync(got, d, 4096, cudaMemcpyDeviceToHost, s);
      cudaStreamSynchronize(s);
      return (void*)(size_t)got[1000];
    }, nullptr);
  }
  for (pthread_t each : both) {
    void* got;
    pthread_join(each, &got);
    Add((unsigned)(size_t)got);
  }
  Look(streams[0], a);
}
// A fault is told as it would be, and everything after it.
static void Faults(int) {
  for (int i = 0; i < 60; ++i) step<<<4, 128, 0, streams[0]>>>(a, 512, i);
  Look(streams[0], a);
  for (int i = 0; i < 40; ++i) step<<<4, 128, 0, streams[0]>>>(i == 20 ? (unsigned*)16 : a, 512, i);
  Add(cudaStreamSynchronize(streams[0]));
  Add(cudaGetLastError());
  step<<<4, 128, 0, streams[0]>>>(a, 512, 1);
  Add(cudaGetLastError());
  Add(cudaDeviceSynchronize());
}
static void AtExit(int) {
  for (int i = 0; i < 60; ++i) step<<<4, 128, 0, streams[0]>>>(a, 512, i);
  Look(streams[0], a);
  for (int i = 0; i < 6; ++i) step<<<4, 128, 0, streams[0]>>>(a, 512, i);
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) _exit(7);
  int status = 0;
  waitpid(child, &status, 0);
  Add(WEXITSTATUS(status));
  for (int i = 0; i < 5; ++i) step<<<4, 128, 0, streams[0]>>>(a, 512, i);
}
// The device starts again with a context of its own.
static void Resets(int rounds) {
  for (int r = 0; r < rounds; ++r) {
    cudaMalloc(&a, sizeof(host));
    cudaMemset(a, 0, sizeof(host));
    cudaDeviceSynchronize();
    cudaStream_t s;
    cudaStreamCreate(&s);
    for (int i = 0; i < 100; ++i) step<<<4, 128, 0, s>>>(a, 512, i + r);
    Look(s, a);
    for (int i = 0; i < 9; ++i) step<<<4, 128, 0, s>>>(a, 512, i);
    if (r % 2 != 0) cudaStreamDestroy(s);
    Add(cudaDeviceReset());
  }
}
// Modules come and go; what has the same name, and often the same handle, has its parameters elsewhere.
static const char* const kModules[] = {
    R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry put(.param .u64 to, .param .u32 value) {
  .reg .u64 %a; .reg .u32 %v, %w;
  ld.param.u64 %a, [to]; ld.param.u32 %v, [value];
  ld.global.u32 %w, [%a]; mad.lo.u32 %w, %w, 31, %v; st.global.u32 [%a], %w; ret;
})",
    R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry put(.param .u32 value, .param .u32 by, .param .u64 to) {
  .reg .u64 %a; .reg .u32 %v, %w, %b;
  ld.param.u64 %a, [to]; ld.param.u32 %v, [value]; ld.param.u32 %b, [by];
  ld.global.u32 %w, [%a]; mad.lo.u32 %w, %w, %b, %v; st.global.u32 [%a], %w; ret;
})"};
static void Put(CUfunction put, bool is_second, CUstream s, CUdeviceptr to, bool extended) {
  unsigned value = Random(1000), by = Random(50);
  void* first[] = {&to, &value};
  void* second[] = {&value, &by, &to};
  void** arguments = is_second ? second : first;
  CUlaunchConfig config = {};
  config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.hStream = s;
  Add(extended ? cuLaunchKernelEx(&config, put, arguments, nullptr)
               : cuLaunchKernel(put, 1, 1, 1, 1, 1, 1, 0, s, arguments, nullptr));
}
static void Modules(int rounds) {
  for (int r = 0; r < rounds; ++r) {
    CUmodule module;
    CUfunction put;
    const bool is_second = Random(2) != 0, extended = r % 4 < 2;
    Add(cuModuleLoadData(&module, kModules[is_second]));
    Add(cuModuleGetFunction(&put, module, "put"));
    for (int i = 10 + Random(300); i > 0; --i) Put(put, is_second, streams[0], (CUdeviceptr)(a + i % 4), extended);
    if (r % 3 == 0) Add(cuStreamSynchronize(streams[0]));
    Add(cuModuleUnload(module));
    if (r % 5 == 0) {  // a stream of the same handle that is another one
      cudaStreamSynchronize(streams[0]);
      cudaStreamDestroy(streams[0]);
      cudaStreamCreateWithPriority(&streams[0], cudaStreamDefault, -(int)Random(2));
    }
  }
  Look(streams[0], a);
}
// Launches into a stream of another context than the current one.
static void Contexts(int rounds) {
  CUdevice device;
  CUcontext contexts[2];
  CUmodule modules[2];
  CUfunction puts[2];
  CUstream its[2];
  CUdeviceptr to[2];
  cuDeviceGet(&device, 0);
  for (int c = 0; c < 2; ++c) {
#if CUDA_VERSION >= 13000
    Add(cuCtxCreate(&contexts[c], nullptr, 0, device));
#else
    Add(cuCtxCreate(&contexts[c], 0, device));
#endif
    Add(cuModuleLoadData(&modules[c], kModules[c]));
    Add(cuModuleGetFunction(&puts[c], modules[c], "put"));
    Add(cuStreamCreate(&its[c], CU_STREAM_DEFAULT));
    Add(cuMemAlloc(&to[c], 4));
    Add(cuMemsetD32(to[c], 0, 1));
  }
  for (int r = 0; r < rounds; ++r) {
    const int of = Random(2);
    cuCtxSetCurrent(contexts[Random(4) == 0 ? !of : of]);
    for (int i = Random(200); i > 0; --i) {
      if (i == 50) cuCtxSetCurrent(contexts[Random(2)]);
      Put(puts[of], of != 0, its[of], to[of], Random(2) != 0);
    }
    // A kernel of the other context.
    if (r % 3 == 0) Put(puts[!of], of == 0, its[of], to[of], false);
    if (r % 2 == 0) Add(cuStreamSynchronize(its[of]));
  }
  for (int c = 0; c < 2; ++c) {
    unsigned got = 0;
    cuCtxSetCurrent(contexts[c]);
    Add(cuMemcpyDtoH(&got, to[c], 4));
    Add(got);
    Add(cuCtxDestroy(contexts[c]));
  }
}
int main(int, char** v) {
  const char* kind = v[1];
  seed = atoi(v[2]);
  const int rounds = atoi(v[3]);
  cudaMalloc(&a, sizeof(host));
  cudaMalloc(&b, sizeof(host));
  cudaMemset(a, 0, sizeof(host));
  cudaMemset(b, 0, sizeof(host));
  cudaDeviceSynchronize();
  cudaStreamCreate(&streams[0]);
  cudaStreamCreate(&streams[1]);
  streams[2] = nullptr;
  cudaStreamCreateWithFlags(&streams[3], cudaStreamNonBlocking);
  if (!strcmp(kind, "rows")) Rows(rounds);
  if (!strcmp(kind, "pauses")) Pauses(rounds);
  if (!strcmp(kind, "threads")) Threads(rounds);
  if (!strcmp(kind, "faults")) Faults(rounds);
  if (!strcmp(kind, "exit")) AtExit(rounds);
  if (!strcmp(kind, "resets")) Resets(rounds);
  if (!strcmp(kind, "modules")) Modules(rounds);
  if (!strcmp(kind, "contexts")) Contexts(rounds);
  printf("%08x\n", sum);
}
