// A program as CUDA 12 builds it: compiled with the headers of CUDA 12.4 and linked with its libcudart.so.12. nvcc of a
// newer toolkit would use newer headers, so the host's side of a .cu file is written out here, as nvcc generates it: a
// fatbin in .nv_fatbin (FATBIN), its wrapper in .nvFatBinSegment, and the registration of one kernel. It writes checksums
// of launches on streams, of a captured graph and of memory that a stream allocated; wrong results give exit code 1.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime_api.h>

extern "C" {
void** __cudaRegisterFatBinary(void* wrapper);
void __cudaRegisterFatBinaryEnd(void** handle);
void __cudaRegisterFunction(void** handle, const char* host, char* device, const char* name, int thread_limit, uint3* tid,
                            uint3* bid, dim3* block, dim3* grid, int* warp_size);
extern const unsigned char older_runtime_fatbin[];
}

__asm__(".section .nv_fatbin, \"a\"\n.balign 8\n.globl older_runtime_fatbin\nolder_runtime_fatbin:\n.incbin \"" FATBIN
        "\"\n.previous");

namespace {

struct Wrapper {
  int magic, version;
  const void* data;
  void* file;
};
__attribute__((section(".nvFatBinSegment"), used)) Wrapper wrapper = {0x466243b1, 1, older_runtime_fatbin, nullptr};

// The host's address of the kernel `__global__ void Step(unsigned* values, unsigned count, unsigned add)`.
void Step() {}

struct Register {
  Register() {
    void** const handle = __cudaRegisterFatBinary(&wrapper);
    __cudaRegisterFunction(handle, reinterpret_cast<const char*>(&Step), const_cast<char*>("Step"), "Step", -1, nullptr,
                           nullptr, nullptr, nullptr, nullptr);
    __cudaRegisterFatBinaryEnd(handle);
  }
} registers;

void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "older_runtime: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}
#define CHECK(call) Check(call, #call)

constexpr unsigned kStreams = 4, kCount = 1 << 18, kThreads = 128;

void Launch(unsigned* values, unsigned count, unsigned add, cudaStream_t stream) {
  void* arguments[] = {&values, &count, &add};
  CHECK(cudaLaunchKernel(reinterpret_cast<const void*>(&Step), dim3((count + kThreads - 1) / kThreads), dim3(kThreads),
                         arguments, 0, stream));
}

uint64_t Sum(const std::vector<unsigned>& values) {
  uint64_t sum = 14695981039346656037u;
  for (const unsigned value : values) sum = (sum ^ value) * 1099511628211u;
  return sum;
}

// What Step does to each value.
unsigned Stepped(unsigned value, unsigned add) { return value * 1664525u + add; }

}  // namespace

int main() {
  int runtime = 0;
  CHECK(cudaRuntimeGetVersion(&runtime));
  std::printf("runtime %d\n", runtime);
  cudaStream_t streams[kStreams];
  unsigned* memory = nullptr;
  std::vector<unsigned> values(kStreams * kCount), expected;
  for (unsigned i = 0; i < values.size(); ++i) values[i] = i;
  expected = values;
  CHECK(cudaMalloc(reinterpret_cast<void**>(&memory), values.size() * sizeof(unsigned)));
  CHECK(cudaMemcpy(memory, values.data(), values.size() * sizeof(unsigned), cudaMemcpyHostToDevice));
  for (cudaStream_t& stream : streams) CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (unsigned launch = 0; launch < 60; ++launch) {
    for (unsigned i = 0; i < kStreams; ++i) Launch(memory + i * kCount, kCount, launch, streams[i]);
    for (unsigned& value : expected) value = Stepped(value, launch);
  }
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeThreadLocal));
  for (unsigned node = 0; node < 5; ++node) Launch(memory, kStreams * kCount, node, streams[0]);
  CHECK(cudaStreamEndCapture(streams[0], &graph));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  for (unsigned replay = 0; replay < 3; ++replay) {
    CHECK(cudaGraphLaunch(exec, streams[0]));
    for (unsigned node = 0; node < 5; ++node) {
      for (unsigned& value : expected) value = Stepped(value, node);
    }
  }
  unsigned* pooled = nullptr;
  CHECK(cudaMallocAsync(reinterpret_cast<void**>(&pooled), values.size() * sizeof(unsigned), streams[0]));
  CHECK(cudaMemcpyAsync(pooled, memory, values.size() * sizeof(unsigned), cudaMemcpyDeviceToDevice, streams[0]));
  Launch(pooled, kStreams * kCount, 77, streams[0]);
  for (unsigned& value : expected) value = Stepped(value, 77);
  CHECK(cudaMemcpyAsync(values.data(), pooled, values.size() * sizeof(unsigned), cudaMemcpyDeviceToHost, streams[0]));
  CHECK(cudaFreeAsync(pooled, streams[0]));
  CHECK(cudaStreamSynchronize(streams[0]));
  std::printf("sum %016llx\n", static_cast<unsigned long long>(Sum(values)));
  CHECK(cudaDeviceReset());
  return values == expected ? 0 : 1;
}
