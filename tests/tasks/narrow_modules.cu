// A program whose narrow launches come from three modules by turns, in rows of different lengths, on
// the same streams: what it computes depends on their order.
//
//   narrow_modules [ROWS [MODULE]]     MODULE: 0, 1 or 2, only that one
#include "narrow_modules.h"

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "../apps/support/check_runtime.h"

namespace {

constexpr uint32_t kStreams = 6;
constexpr decltype(&LaunchFirst) kLaunch[] = {&LaunchFirst, &LaunchSecond, &LaunchThird};

__global__ void Step(uint32_t* values, uint32_t tag) {
  values[threadIdx.x] = values[threadIdx.x] * 3 + tag;
}

}  // namespace

void LaunchFirst(cudaStream_t stream, uint32_t* values, uint32_t tag) {
  Step<<<1, kThreads, 0, stream>>>(values, tag);
}

int main(int argc, char** argv) {
  const uint32_t rows = argc > 1 ? static_cast<uint32_t>(std::atoi(argv[1])) : 8;
  const uint32_t only = argc > 2 ? static_cast<uint32_t>(std::atoi(argv[2])) : 3;
  uint32_t* values = nullptr;
  constexpr size_t kBytes = sizeof(uint32_t) * kStreams * kThreads;
  CHECK(cudaMalloc(&values, kBytes));
  CHECK(cudaMemset(values, 0, kBytes));
  CHECK(cudaDeviceSynchronize());
  std::vector<cudaStream_t> streams(kStreams);
  for (cudaStream_t& stream : streams) {
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  std::vector<uint32_t> expected(kStreams * kThreads), found(expected.size());
  uint32_t tag = 1;
  for (uint32_t row = 0; row < rows; ++row) {
    // Now and then rows too short to turn for, and launches of the other module in their midst.
    const uint32_t length = row % 4 == 3 ? 5 : 90 + 7 * row;
    for (uint32_t i = 0; i < length; ++i, ++tag) {
      const uint32_t which = (i * 5 + row) % kStreams;
      const uint32_t module = only < 3 ? only : (row + (i == 17 && row % 4 == 0)) % 3;
      kLaunch[module](streams[which], values + which * kThreads, tag);
      for (uint32_t t = 0; t < kThreads; ++t) {
        uint32_t& value = expected[which * kThreads + t];
        value = module == 0   ? value * 3 + tag
                : module == 1 ? value * 5 + TurnsOf<kWordsOfSecond>(tag + t, 2)
                              : value * 7 + TurnsOf<kWordsOfThird>(tag + t, 2);
      }
    }
    CHECK(cudaGetLastError());
    if (row % 3 == 2) {
      for (cudaStream_t stream : streams) CHECK(cudaStreamSynchronize(stream));
    }
  }
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(found.data(), values, kBytes, cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] == expected[i]) continue;
    std::printf("value %zu is %u, not %u\n", i, found[i], expected[i]);
    return 1;
  }
  std::printf("%u launches of the modules in order\n", tag - 1);
  return 0;
}
