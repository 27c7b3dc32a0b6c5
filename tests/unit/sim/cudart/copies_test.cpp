// Copies, fills, symbols, and what is known of pointers.
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "tests/unit/sim/cudart/fixture.h"

namespace cupola::cudart_test {
namespace {

using CopiesTest = CudartTest;

std::vector<int> Numbers(int count) {
  std::vector<int> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 1);
  return numbers;
}

TEST_F(CopiesTest, EveryKindCopies) {
  const std::vector<int> from = Numbers(64);
  const size_t bytes = from.size() * sizeof(int);
  void *a = nullptr, *b = nullptr;
  ASSERT_EQ(cudaMalloc(&a, bytes), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&b, bytes), cudaSuccess);
  std::vector<int> to(64), last(64);
  for (const bool is_default : {false, true}) {
    const auto kind = [&](cudaMemcpyKind own) { return is_default ? cudaMemcpyDefault : own; };
    ASSERT_EQ(cudaMemset(a, 0, bytes), cudaSuccess);
    ASSERT_EQ(cudaMemset(b, 0, bytes), cudaSuccess);
    std::fill(to.begin(), to.end(), 0);
    std::fill(last.begin(), last.end(), 0);
    EXPECT_EQ(cudaMemcpy(a, from.data(), bytes, kind(cudaMemcpyHostToDevice)), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(b, a, bytes, kind(cudaMemcpyDeviceToDevice)), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(to.data(), b, bytes, kind(cudaMemcpyDeviceToHost)), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(last.data(), to.data(), bytes, kind(cudaMemcpyHostToHost)), cudaSuccess);
    EXPECT_EQ(last, from) << is_default;
  }
  EXPECT_EQ(cudaMemcpy(a, b, 4, static_cast<cudaMemcpyKind>(9)), cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(cudaFree(a), cudaSuccess);
  EXPECT_EQ(cudaFree(b), cudaSuccess);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
  EXPECT_EQ(cudaFree(b), cudaErrorInvalidValue);
}

TEST_F(CopiesTest, BlocksLongerThanAPieceOfWork) {
  constexpr int kCount = (9 << 20) / 4 + 3, kShift = 1 << 18;
  const size_t bytes = kCount * sizeof(int);
  const std::vector<int> from = Numbers(kCount);
  std::vector<int> to(kCount), expected = from;
  int* device = nullptr;
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&device), bytes + kShift * sizeof(int)),
            cudaSuccess);
  ASSERT_EQ(cudaMemcpy(device, from.data(), bytes, cudaMemcpyDefault), cudaSuccess);
  // The simulated device copies between overlapping blocks as if through a third.
  ASSERT_EQ(cudaMemcpy(device + kShift, device, bytes, cudaMemcpyDefault), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(to.data(), device + kShift, bytes, cudaMemcpyDefault), cudaSuccess);
  EXPECT_TRUE(to == expected);
  ASSERT_EQ(cudaMemcpy(device, device + kShift, bytes, cudaMemcpyDefault), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(to.data(), device, bytes, cudaMemcpyDefault), cudaSuccess);
  EXPECT_TRUE(to == expected);
  ASSERT_EQ(cudaMemset(device, 0x5a, bytes - 4), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(to.data(), device, bytes, cudaMemcpyDefault), cudaSuccess);
  std::fill(expected.begin(), expected.end() - 1, 0x5a5a5a5a);
  EXPECT_TRUE(to == expected);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
}

TEST_F(CopiesTest, RowsOfAPitchedBlock) {
  void* device = nullptr;
  size_t pitch = 0;
  ASSERT_EQ(cudaMallocPitch(&device, &pitch, 12, 4), cudaSuccess);
  ASSERT_GE(pitch, 12u);
  const std::vector<int> from = Numbers(12);
  std::vector<int> to(12);
  ASSERT_EQ(cudaMemcpy2D(device, pitch, from.data(), 12, 12, 4, cudaMemcpyHostToDevice),
            cudaSuccess);
  ASSERT_EQ(cudaMemset2D(device, pitch, 0xFF, 4, 2), cudaSuccess);
  ASSERT_EQ(cudaMemcpy2D(to.data(), 12, device, pitch, 12, 4, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(to, (std::vector<int>{-1, 2, 3, -1, 5, 6, 7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(cudaMemcpy2D(to.data(), 8, device, pitch, 12, 4, cudaMemcpyDeviceToHost),
            cudaErrorInvalidPitchValue);
}

TEST_F(CopiesTest, SymbolsHaveBoundsAndErrors) {
  uint32_t value = 0;
  EXPECT_EQ(cudaMemcpyFromSymbol(&value, &word_symbol, 4, 0, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(value, 3u);
  value = 8;
  EXPECT_EQ(cudaMemcpyToSymbol(&word_symbol, &value, 4, 0, cudaMemcpyHostToDevice), cudaSuccess);
  void* address = nullptr;
  size_t bytes = 0;
  ASSERT_EQ(cudaGetSymbolAddress(&address, &word_symbol), cudaSuccess);
  EXPECT_EQ(cudaGetSymbolSize(&bytes, &word_symbol), cudaSuccess);
  EXPECT_EQ(bytes, 4u);
  value = 0;
  EXPECT_EQ(cudaMemcpy(&value, address, 4, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(value, 8u);
  EXPECT_EQ(cudaMemcpyToSymbol(&word_symbol, &value, 4, 1, cudaMemcpyHostToDevice),
            cudaErrorInvalidValue);
  int unknown = 0;
  EXPECT_EQ(cudaGetSymbolAddress(&address, &unknown), cudaErrorInvalidSymbol);
}

TEST_F(CopiesTest, PointersAreKnownByTheirMemory) {
  void *device = nullptr, *pinned = nullptr, *managed = nullptr;
  ASSERT_EQ(cudaMalloc(&device, 64), cudaSuccess);
  ASSERT_EQ(cudaMallocHost(&pinned, 64), cudaSuccess);
  ASSERT_EQ(cudaMallocManaged(&managed, 64, cudaMemAttachGlobal), cudaSuccess);
  int on_stack = 0;
  cudaPointerAttributes known;
  ASSERT_EQ(cudaPointerGetAttributes(&known, device), cudaSuccess);
  EXPECT_EQ(known.type, cudaMemoryTypeDevice);
  EXPECT_EQ(known.devicePointer, device);
  EXPECT_EQ(known.hostPointer, nullptr);
  ASSERT_EQ(cudaPointerGetAttributes(&known, pinned), cudaSuccess);
  EXPECT_EQ(known.type, cudaMemoryTypeHost);
  EXPECT_EQ(known.hostPointer, pinned);
  ASSERT_EQ(cudaPointerGetAttributes(&known, managed), cudaSuccess);
  EXPECT_EQ(known.type, cudaMemoryTypeManaged);
  ASSERT_EQ(cudaPointerGetAttributes(&known, &on_stack), cudaSuccess);
  EXPECT_EQ(known.type, cudaMemoryTypeUnregistered);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaPointerGetAttributes(nullptr, device), cudaErrorInvalidValue);
}

TEST_F(CopiesTest, ManagedMemoryIsOneForBoth) {
  uint32_t* managed = nullptr;
  ASSERT_EQ(cudaMallocManaged(reinterpret_cast<void**>(&managed), 64, cudaMemAttachGlobal),
            cudaSuccess);
  managed[1] = 5;
  ASSERT_EQ(Store(managed, 77), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(managed[0], 77u);
  EXPECT_EQ(managed[1], 5u);
  const cudaMemLocation here{cudaMemLocationTypeDevice, 0};
  EXPECT_EQ(cudaMemPrefetchAsync(managed, 64, here, 0, nullptr), cudaSuccess);
  EXPECT_EQ(cudaMemAdvise(managed, 64, cudaMemAdviseSetReadMostly, here), cudaSuccess);
  EXPECT_EQ(cudaFree(managed), cudaSuccess);
}

}  // namespace
}  // namespace cupola::cudart_test
