// Graphs built node by node, captured streams, blocks of three dimensions, pools.
#include <cstdint>
#include <numeric>
#include <vector>

#include "tests/unit/sim/cudart/fixture.h"

namespace cupola::cudart_test {
namespace {

using GraphsTest = CudartTest;

constexpr cudaExtent kBlock{8, 3, 2};  // bytes, rows, slices

cudaMemcpy3DParms Whole(cudaPitchedPtr from, cudaPitchedPtr to) {
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = from;
  copy.dstPtr = to;
  copy.extent = kBlock;
  copy.kind = cudaMemcpyDefault;
  return copy;
}

TEST_F(GraphsTest, BlocksOfThreeDimensions) {
  std::vector<uint8_t> from(48), to(48);
  std::iota(from.begin(), from.end(), 1);
  cudaPitchedPtr device = {};
  ASSERT_EQ(cudaMalloc3D(&device, kBlock), cudaSuccess);
  const cudaPitchedPtr source{from.data(), 8, 8, 3}, target{to.data(), 8, 8, 3};
  cudaMemcpy3DParms in = Whole(source, device), out = Whole(device, target);
  ASSERT_EQ(cudaMemcpy3D(&in), cudaSuccess);
  ASSERT_EQ(cudaMemset3D(device, 0, cudaExtent{1, 3, 2}), cudaSuccess);
  ASSERT_EQ(cudaMemcpy3DAsync(&out, nullptr), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  for (size_t row = 0; row < 6; ++row) from[row * 8] = 0;
  EXPECT_EQ(to, from);
  out.dstPtr.pitch = 4;
  EXPECT_EQ(cudaMemcpy3D(&out), cudaErrorInvalidPitchValue);
}

TEST_F(GraphsTest, NodesAndEdges) {
  std::vector<uint8_t> from(48), to(48);
  std::iota(from.begin(), from.end(), 1);
  cudaPitchedPtr device = {};
  ASSERT_EQ(cudaMalloc3D(&device, kBlock), cudaSuccess);
  cudaMemcpy3DParms in = Whole({from.data(), 8, 8, 3}, device);
  cudaMemcpy3DParms out = Whole(device, {to.data(), 8, 8, 3});
  cudaGraph_t graph = nullptr;
  cudaGraphNode_t first = nullptr, second = nullptr, root = nullptr, a = nullptr, b = nullptr;
  ASSERT_EQ(cudaGraphCreate(&graph, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphAddMemcpyNode(&first, graph, nullptr, 0, &in), cudaSuccess);
  ASSERT_EQ(cudaGraphAddMemcpyNode(&second, graph, &first, 1, &out), cudaSuccess);
  size_t count = 1;
  ASSERT_EQ(cudaGraphGetRootNodes(graph, &root, &count), cudaSuccess);
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(root, first);
  count = 1;
  ASSERT_EQ(cudaGraphGetEdges(graph, &a, &b, nullptr, &count), cudaSuccess);
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(a, first);
  EXPECT_EQ(b, second);
  cudaGraphExec_t exec = nullptr;
  cudaGraphInstantiateParams params = {};
  ASSERT_EQ(cudaGraphInstantiateWithParams(&exec, graph, &params), cudaSuccess);
  EXPECT_EQ(params.result_out, cudaGraphInstantiateSuccess);
  ASSERT_EQ(cudaGraphLaunch(exec, nullptr), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(to, from);
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_F(GraphsTest, EdgesComeAndGo) {
  cudaGraph_t graph = nullptr;
  cudaGraphNode_t nodes[3] = {};
  uint32_t* word = nullptr;
  ASSERT_EQ(cudaMallocManaged(reinterpret_cast<void**>(&word), 4, cudaMemAttachGlobal),
            cudaSuccess);
  ASSERT_EQ(cudaGraphCreate(&graph, 0), cudaSuccess);
  // Three stores without an order; edges make it 2, 0, 1.
  for (uint32_t i = 0; i < 3; ++i) {
    void* to = word;
    void* args[] = {&to, &i};
    cudaKernelNodeParams params = {};
    params.func = &store_stub;
    params.gridDim = params.blockDim = dim3(1);
    params.kernelParams = args;
    ASSERT_EQ(cudaGraphAddKernelNode(&nodes[i], graph, nullptr, 0, &params), cudaSuccess);
  }
  const cudaGraphNode_t from[] = {nodes[2], nodes[0]}, to[] = {nodes[0], nodes[1]};
  ASSERT_EQ(cudaGraphAddDependencies(graph, from, to, nullptr, 2), cudaSuccess);
  EXPECT_EQ(cudaGraphAddDependencies(graph, from, to, nullptr, 1), cudaErrorInvalidValue);
  const auto run = [&] {
    cudaGraphExec_t exec = nullptr;
    EXPECT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    EXPECT_EQ(cudaGraphLaunch(exec, nullptr), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
    return *word;
  };
  EXPECT_EQ(run(), 1u);
  cudaGraphNode_t found = nullptr;
  size_t count = 1;
  ASSERT_EQ(cudaGraphNodeGetDependencies(nodes[1], &found, nullptr, &count), cudaSuccess);
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(found, nodes[0]);
  ASSERT_EQ(cudaGraphNodeGetDependentNodes(nodes[2], &found, nullptr, &count), cudaSuccess);
  EXPECT_EQ(found, nodes[0]);
  ASSERT_EQ(cudaGraphRemoveDependencies(graph, from, to, nullptr, 2), cudaSuccess);
  EXPECT_EQ(cudaGraphRemoveDependencies(graph, from, to, nullptr, 2), cudaErrorInvalidValue);
  ASSERT_EQ(cudaGraphAddDependencies(graph, to, from, nullptr, 2), cudaSuccess);  // 1, 0, 2
  EXPECT_EQ(run(), 2u);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_F(GraphsTest, NodesRecordAndAwaitEvents) {
  cudaGraph_t graph = nullptr;
  cudaGraphNode_t start_node = nullptr, record_node = nullptr, wait_node = nullptr;
  cudaEvent_t start = nullptr, end = nullptr, found = nullptr;
  ASSERT_EQ(cudaEventCreate(&start), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&end), cudaSuccess);
  ASSERT_EQ(cudaGraphCreate(&graph, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphAddEventWaitNode(&wait_node, graph, nullptr, 0, start), cudaSuccess);
  ASSERT_EQ(cudaGraphAddEventRecordNode(&start_node, graph, &wait_node, 1, end), cudaSuccess);
  ASSERT_EQ(cudaGraphAddEventRecordNode(&record_node, graph, &start_node, 1, end), cudaSuccess);
  EXPECT_EQ(cudaGraphEventWaitNodeGetEvent(wait_node, &found), cudaSuccess);
  EXPECT_EQ(found, start);
  EXPECT_EQ(cudaGraphEventRecordNodeSetEvent(start_node, start), cudaSuccess);
  EXPECT_EQ(cudaGraphEventRecordNodeGetEvent(start_node, &found), cudaSuccess);
  EXPECT_EQ(found, start);
  EXPECT_EQ(cudaGraphEventRecordNodeGetEvent(wait_node, &found), cudaErrorInvalidValue);
  cudaGraphNodeType type = {};
  EXPECT_EQ(cudaGraphNodeGetType(record_node, &type), cudaSuccess);
  EXPECT_EQ(type, cudaGraphNodeTypeEventRecord);
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaErrorInvalidResourceHandle);
  ASSERT_EQ(cudaGraphLaunch(exec, nullptr), cudaSuccess);
  ASSERT_EQ(cudaEventSynchronize(end), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaSuccess);
  EXPECT_GE(milliseconds, 0);
  // Another event for the executable graph alone.
  cudaEvent_t third = nullptr;
  ASSERT_EQ(cudaEventCreate(&third), cudaSuccess);
  ASSERT_EQ(cudaGraphExecEventRecordNodeSetEvent(exec, record_node, third), cudaSuccess);
  ASSERT_EQ(cudaGraphExecEventWaitNodeSetEvent(exec, wait_node, end), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(exec, nullptr), cudaSuccess);
  ASSERT_EQ(cudaEventSynchronize(third), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, end, third), cudaSuccess);
  EXPECT_EQ(cudaGraphEventRecordNodeGetEvent(record_node, &found), cudaSuccess);
  EXPECT_EQ(found, end);
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_F(GraphsTest, ACaptureTellsWhereItStands) {
  cudaStream_t stream = nullptr;
  uint32_t* word = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaMallocManaged(reinterpret_cast<void**>(&word), 4, cudaMemAttachGlobal),
            cudaSuccess);
  *word = 0;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusInvalidated;
  unsigned long long id = 0;
  ASSERT_EQ(cudaStreamGetCaptureInfo(stream, &status, &id, nullptr, nullptr, nullptr, nullptr),
            cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusNone);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), cudaSuccess);
  ASSERT_EQ(Store(word, 4, stream), cudaSuccess);
  cudaGraph_t building = nullptr, graph = nullptr;
  const cudaGraphNode_t* last = nullptr;
  size_t count = 0;
  ASSERT_EQ(cudaStreamGetCaptureInfo(stream, &status, &id, &building, &last, nullptr, &count),
            cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  EXPECT_NE(id, 0u);
  EXPECT_EQ(count, 1u);
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  EXPECT_EQ(building, graph);
  EXPECT_EQ(*word, 0u);
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(*word, 4u);
}

TEST_F(GraphsTest, PoolsGiveMemory) {
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, 0};
  cudaMemPool_t pool = nullptr;
  ASSERT_EQ(cudaMemPoolCreate(&pool, &properties), cudaSuccess);
  uint64_t threshold = 4096;
  EXPECT_EQ(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold),
            cudaSuccess);
  threshold = 0;
  EXPECT_EQ(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold),
            cudaSuccess);
  EXPECT_EQ(threshold, 4096u);
  cudaMemAccessDesc access = {{cudaMemLocationTypeDevice, 0}, cudaMemAccessFlagsProtReadWrite};
  EXPECT_EQ(cudaMemPoolSetAccess(pool, &access, 1), cudaSuccess);
  cudaMemAccessFlags flags = cudaMemAccessFlagsProtNone;
  EXPECT_EQ(cudaMemPoolGetAccess(&flags, pool, &access.location), cudaSuccess);
  EXPECT_EQ(flags, cudaMemAccessFlagsProtReadWrite);
  access.location.id = 3;
  EXPECT_EQ(cudaMemPoolGetAccess(&flags, pool, &access.location), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaMemPoolSetAccess(pool, &access, 1), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaMemPoolGetAccess(nullptr, pool, &access.location), cudaErrorInvalidValue);
  void* memory = nullptr;
  ASSERT_EQ(cudaMallocFromPoolAsync(&memory, 64, pool, nullptr), cudaSuccess);
  uint32_t back = 0;
  ASSERT_EQ(Store(memory, 11), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(&back, memory, 4, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(back, 11u);
  EXPECT_EQ(cudaFreeAsync(memory, nullptr), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(cudaMemPoolDestroy(pool), cudaSuccess);
}

}  // namespace
}  // namespace cupola::cudart_test
