// CUDA graphs both ways: one captured from two streams that fork and join, and one built node by
// node; both launched several times, one with changed kernel arguments, one updated as a whole.
#include <vector>

#include "support/check_runtime.h"
#include "support/checksum.h"

__global__ void Add(unsigned* data, unsigned amount, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] += amount;
}

__global__ void Multiply(unsigned* data, unsigned factor, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] *= factor;
}

__global__ void Join(unsigned* out, const unsigned* a, const unsigned* b, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = out[i] * 31 + (a[i] ^ b[i]);
}

struct Buffers {
  unsigned *host, *a, *b, *out;
  int n, blocks;
  size_t bytes;
};

// host -> a; a copy of it in b goes through another stream; both join in out.
cudaGraph_t Capture(const Buffers& buffers, cudaStream_t stream, cudaStream_t other,
                    unsigned amount) {
  cudaEvent_t forked, joined;
  CHECK(cudaEventCreateWithFlags(&forked, cudaEventDisableTiming));
  CHECK(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK(cudaMemcpyAsync(buffers.a, buffers.host, buffers.bytes, cudaMemcpyHostToDevice, stream));
  CHECK(cudaEventRecord(forked, stream));
  CHECK(cudaStreamWaitEvent(other, forked, 0));
  CHECK(cudaMemcpyAsync(buffers.b, buffers.a, buffers.bytes, cudaMemcpyDeviceToDevice, other));
  Multiply<<<buffers.blocks, 128, 0, other>>>(buffers.b, 5, buffers.n);
  CHECK(cudaEventRecord(joined, other));
  CHECK(cudaStreamWaitEvent(stream, joined, 0));
  Add<<<buffers.blocks, 128, 0, stream>>>(buffers.a, amount, buffers.n);
  Join<<<buffers.blocks, 128, 0, stream>>>(buffers.out, buffers.a, buffers.b, buffers.n);
  cudaGraph_t graph;
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaEventDestroy(forked));
  CHECK(cudaEventDestroy(joined));
  return graph;
}

// Launches the captured graph twice, then the same executable updated to another capture.
void RunCaptured(const Buffers& buffers, std::vector<unsigned>* expected) {
  cudaStream_t stream, other;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  cudaGraph_t graph = Capture(buffers, stream, other, 17);
  cudaGraph_t changed = Capture(buffers, stream, other, 99);
  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  for (int launch = 0; launch < 3; ++launch) {
    const unsigned amount = launch < 2 ? 17 : 99;
    if (launch == 2) {
      cudaGraphExecUpdateResultInfo info;
      CHECK(cudaGraphExecUpdate(exec, changed, &info));
    }
    for (int i = 0; i < buffers.n; ++i) {
      buffers.host[i] = Mix(i + launch);
      const unsigned a = buffers.host[i] + amount, b = buffers.host[i] * 5;
      (*expected)[i] = (*expected)[i] * 31 + (a ^ b);
    }
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
  }
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(changed));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaStreamDestroy(other));
  CHECK(cudaStreamDestroy(stream));
}

// memset a; add to a; out = out * 31 + (a ^ b). Then the same with another amount.
void RunExplicit(const Buffers& buffers, std::vector<unsigned>* expected) {
  cudaGraph_t graph;
  CHECK(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t clear, copy, add, join;
  cudaMemsetParams memset_params = {};
  memset_params.dst = buffers.a;
  memset_params.elementSize = 1;
  memset_params.value = 0x01;
  memset_params.width = buffers.bytes;
  memset_params.height = 1;
  CHECK(cudaGraphAddMemsetNode(&clear, graph, nullptr, 0, &memset_params));
  CHECK(cudaGraphAddMemcpyNode1D(&copy, graph, nullptr, 0, buffers.b, buffers.host, buffers.bytes,
                                 cudaMemcpyHostToDevice));
  unsigned amount = 1000;
  unsigned *a = buffers.a, *b = buffers.b, *out = buffers.out;
  int n = buffers.n;
  void* add_arguments[] = {&a, &amount, &n};
  cudaKernelNodeParams params = {};
  params.func = reinterpret_cast<void*>(Add);
  params.gridDim = dim3(buffers.blocks);
  params.blockDim = dim3(128);
  params.kernelParams = add_arguments;
  CHECK(cudaGraphAddKernelNode(&add, graph, &clear, 1, &params));
  void* join_arguments[] = {&out, &a, &b, &n};
  cudaKernelNodeParams join_params = params;
  join_params.func = reinterpret_cast<void*>(Join);
  join_params.kernelParams = join_arguments;
  const cudaGraphNode_t before_join[] = {add, copy};
  CHECK(cudaGraphAddKernelNode(&join, graph, before_join, 2, &join_params));

  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  for (int launch = 0; launch < 3; ++launch) {
    if (launch == 2) {
      amount = 2000;
      CHECK(cudaGraphExecKernelNodeSetParams(exec, add, &params));
    }
    for (int i = 0; i < n; ++i) {
      buffers.host[i] = Mix(i * 3 + launch);
      (*expected)[i] = (*expected)[i] * 31 + ((0x01010101u + amount) ^ buffers.host[i]);
    }
    CHECK(cudaGraphLaunch(exec, nullptr));
    CHECK(cudaStreamSynchronize(nullptr));
  }
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
}

int main(int argc, char** argv) {
  Buffers buffers;
  buffers.n = SizeArgument(argc, argv, 4096);
  buffers.blocks = (buffers.n + 127) / 128;
  buffers.bytes = buffers.n * sizeof(unsigned);
  CHECK(cudaMallocHost(&buffers.host, buffers.bytes));
  CHECK(cudaMalloc(&buffers.a, buffers.bytes));
  CHECK(cudaMalloc(&buffers.b, buffers.bytes));
  CHECK(cudaMalloc(&buffers.out, buffers.bytes));
  CHECK(cudaMemset(buffers.out, 0, buffers.bytes));
  CHECK(cudaDeviceSynchronize());

  std::vector<unsigned> out(buffers.n), expected(buffers.n, 0);
  RunCaptured(buffers, &expected);
  RunExplicit(buffers, &expected);
  CHECK(cudaMemcpy(out.data(), buffers.out, buffers.bytes, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(buffers.a));
  CHECK(cudaFree(buffers.b));
  CHECK(cudaFree(buffers.out));
  CHECK(cudaFreeHost(buffers.host));

  Checksum sum;
  sum.Add(out);
  std::printf("6 graph launches, last word %08x\n", out.back());
  return Report("cuda_graph", out == expected, sum);
}
