// A narrow launch that takes long, which may be a task, and then one call that waits for nothing of that:
// it returns soon, and what comes behind is in order.   main CALL
#include <cuda_runtime.h>
#include <cstdio>
#include <cstring>
#include <string>

#define CHECK(x) do { int e = (int)(x); if (e) { printf("%s: %d\n", #x, e); return 3; } } while (0)

__device__ unsigned long long Now() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}
__global__ void Long(unsigned* out, unsigned long long ns, volatile unsigned* ended) {
  const unsigned long long end = Now() + ns;
  while (Now() < end) {
  }
  if (threadIdx.x != 0) return;
  *out = *out * 3 + 1;
  if (ns != 0) *ended = 1;
}
__global__ void Step(unsigned* out, unsigned add) {
  if (threadIdx.x == 0) *out = *out * 3 + add;
}
__global__ void Other(unsigned* out) { atomicAdd(out, 1u); }

int main(int argc, char** argv) {
  const std::string call = argv[1];
  constexpr unsigned long long kLong = 2'000'000'000;
  cudaStream_t stream, other, made;
  unsigned *out, *device, *ended, found = 0, expected = 0;
  static char pageable[4096];
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  CHECK(cudaMalloc(&out, 4096));
  CHECK(cudaHostAlloc(&ended, 64, cudaHostAllocMapped));
  *ended = 0;
  CHECK(cudaMalloc(&device, 1 << 20));
  CHECK(cudaMemset(out, 0, 4096));
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < 4; ++i) {
    Long<<<1, 32, 0, stream>>>(out, 0, ended);
    Step<<<1, 32, 0, stream>>>(out, 2);
    Other<<<1, 32, 0, other>>>(device);
    expected = (expected * 3 + 1) * 3 + 2;
  }
  CHECK(cudaDeviceSynchronize());
  Long<<<1, 32, 0, stream>>>(out, kLong, ended);
  expected = expected * 3 + 1;
  CHECK(cudaGetLastError());
  if (call == "attributes") {
    cudaFuncAttributes a;
    CHECK(cudaFuncGetAttributes(&a, Other));
  } else if (call == "new_stream") {
    CHECK(cudaStreamCreate(&made));
  } else if (call == "copy") {  // of the legacy stream, for which this one does not wait
    CHECK(cudaMemcpy(device, pageable, sizeof pageable, cudaMemcpyHostToDevice));
  } else if (call == "large_copy") {
    static char large[1 << 18];
    CHECK(cudaMemcpy(device, large, sizeof large, cudaMemcpyHostToDevice));
  } else if (call == "full") {  // more than a column of tasks holds
    for (unsigned i = 0; i < 200; ++i) {
      Step<<<1, 32, 0, stream>>>(out, i);
      expected = expected * 3 + i;
    }
    CHECK(cudaGetLastError());
  } else if (call == "destroy") {
    Step<<<1, 32, 0, stream>>>(out, 5);
    expected = expected * 3 + 5;
    CHECK(cudaStreamDestroy(stream));
  } else if (call == "event") {
    cudaEvent_t event;
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CHECK(cudaEventRecord(event, stream));
    CHECK(cudaStreamWaitEvent(other, event));
    Step<<<1, 32, 0, other>>>(out, 7);
    expected = expected * 3 + 7;
    CHECK(cudaEventDestroy(event));
  } else {
    return 2;
  }
  const bool is_late = *static_cast<volatile unsigned*>(ended) != 0;
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(&found, out, 4, cudaMemcpyDeviceToHost));
  if (found != expected) return printf("%u, not %u\n", found, expected), 1;
  if (is_late) return printf("the call has waited for the launch\n"), 1;
  printf("done\n");
}
