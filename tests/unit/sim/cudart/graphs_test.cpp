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
