// A program that knows nothing of tasks and, at first, makes no stream: narrow launches on the
// default stream, and synchronous copies and memory that is set between them, as iterative solvers
// have them, each result compared with what CUDA's order says. Plain CUDA.
//
//   narrow_copies [rounds]
//
// Prints "ok" and returns 0, or says what was wrong and returns 1.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/apps/support/check_runtime.h"
#include "tests/apps/support/driver_call.h"

namespace {

constexpr int kThreads = 96, kLarge = 1 << 15;
constexpr size_t kBytes = kThreads * sizeof(uint32_t);

__global__ void Step(uint32_t* values, uint32_t step) {
  values[threadIdx.x] = values[threadIdx.x] * 3 + step;
}

struct Bed {
  uint32_t *device = nullptr, *other = nullptr, *pinned = nullptr;
  std::vector<uint32_t> expected = std::vector<uint32_t>(kThreads);

  Bed() {
    CHECK(cudaMalloc(&device, kLarge * sizeof(uint32_t)));
    CHECK(cudaMalloc(&other, kLarge * sizeof(uint32_t)));
    CHECK(cudaMallocHost(&pinned, kBytes));
    CHECK(cudaMemset(device, 0, kLarge * sizeof(uint32_t)));
  }
  ~Bed() {
    CHECK(cudaFree(device));
    CHECK(cudaFree(other));
    CHECK(cudaFreeHost(pinned));
  }
  void Launch(uint32_t step) {
    Step<<<1, kThreads>>>(device, step);
    for (uint32_t& value : expected) value = value * 3 + step;
  }
  bool Compare(const uint32_t* found, const char* what) const {
    for (int i = 0; i < kThreads; ++i) {
      if (found[i] == expected[i]) continue;
      std::printf("%s: value %d is %u, not %u\n", what, i, found[i], expected[i]);
      return false;
    }
    return true;
  }
};

// What was copied is there when the call returns.
bool ReadAfterEach(Bed& bed, uint32_t round, cudaMemcpyKind kind) {
  std::vector<uint32_t> found(kThreads);
  for (uint32_t i = 0; i < 4; ++i) {
    bed.Launch(round + i);
    CHECK(cudaMemcpy(found.data(), bed.device, kBytes, kind));
    if (!bed.Compare(found.data(), "to pageable memory")) return false;
    bed.Launch(round + 2 * i);
    CHECK(cudaMemcpy(bed.pinned, bed.device, kBytes, kind));
    if (!bed.Compare(bed.pinned, "to pinned memory")) return false;
  }
  return true;
}

// What was copied from may be written again when the call has returned.
bool WriteAfterEach(Bed& bed, uint32_t round, cudaMemcpyKind kind) {
  std::vector<uint32_t> there(kThreads);
  for (uint32_t i = 0; i < 4; ++i) {
    for (uint32_t* const from : {there.data(), bed.pinned}) {
      for (int at = 0; at < kThreads; ++at) bed.expected[at] = from[at] = round * 100 + i * 10 + at;
      CHECK(cudaMemcpy(bed.device, from, kBytes, kind));
      std::memset(from, 0xee, kBytes);
      bed.Launch(i);
    }
  }
  CHECK(cudaMemcpy(there.data(), bed.device, kBytes, cudaMemcpyDeviceToHost));
  return bed.Compare(there.data(), "from host memory");
}

// Device memory to and fro; copies that are too large to be tasks between.
bool BetweenDevices(Bed& bed, uint32_t round) {
  bed.Launch(round);
  CHECK(cudaMemcpy(bed.other, bed.device, kBytes, cudaMemcpyDeviceToDevice));
  for (uint32_t i = 0; i < 3; ++i) Step<<<1, kThreads>>>(bed.device, i);
  CHECK(cudaMemcpy(bed.device, bed.other, kBytes, cudaMemcpyDefault));
  bed.Launch(round + 1);
  std::vector<uint32_t> all(kLarge);
  CHECK(cudaMemcpy(all.data(), bed.device, kLarge * sizeof(uint32_t), cudaMemcpyDeviceToHost));
  if (!bed.Compare(all.data(), "a large copy")) return false;
  CHECK(cudaMemcpy(bed.device, all.data(), kLarge * sizeof(uint32_t), cudaMemcpyHostToDevice));
  bed.Launch(round + 2);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(bed.pinned, bed.device, kBytes, cudaMemcpyDeviceToHost));
  return bed.Compare(bed.pinned, "device memory");
}

// Memory is set, in items of one, two and four bytes, from any address on.
bool SetBetween(Bed& bed, uint32_t round, cudaStream_t stream) {
  static const auto set16 = DriverCall<decltype(&cuMemsetD16Async)>("cuMemsetD16Async", 12000);
  static const auto set32 = DriverCall<decltype(&cuMemsetD32)>("cuMemsetD32", 12000);
  auto* const bytes = reinterpret_cast<char*>(bed.device);
  auto* const expected = reinterpret_cast<char*>(bed.expected.data());
  bed.Launch(round);
  const size_t first = round % 17, count = 1 + round * 7 % 300;
  CHECK(cudaMemset(bytes + first, static_cast<int>(round), count));
  std::memset(expected + first, static_cast<int>(round), count);
  bed.Launch(round + 1);
  CHECK(cudaMemsetAsync(bytes, 0x5a, kBytes / 2, stream));
  std::memset(expected, 0x5a, kBytes / 2);
  bed.Launch(round + 2);
  const auto half = static_cast<uint16_t>(0x1234 + round);
  const size_t halves = 2 + round % 39, skipped = round % 2;
  CheckDriver(set16(reinterpret_cast<CUdeviceptr>(bytes) + 2 * skipped, half, halves, stream),
              "cuMemsetD16Async");
  for (size_t i = 0; i < halves; ++i) std::memcpy(expected + 2 * (skipped + i), &half, sizeof half);
  bed.Launch(round + 3);
  CheckDriver(set32(reinterpret_cast<CUdeviceptr>(bytes) + 8, 0x89abcdef + round, 50),
              "cuMemsetD32");
  for (size_t i = 0; i < 50; ++i) bed.expected[2 + i] = 0x89abcdef + round;
  bed.Launch(round + 4);
  CHECK(cudaMemcpy(bed.pinned, bed.device, kBytes, cudaMemcpyDeviceToHost));
  return bed.Compare(bed.pinned, "memory that was set");
}

// Pinned memory is set when the call returns (CUDA Runtime API, "API synchronization behavior").
bool SetPinned(Bed& bed, uint32_t round) {
  for (uint32_t i = 0; i < 10; ++i) bed.Launch(round + i);
  CHECK(cudaMemset(bed.pinned, static_cast<int>(round), kBytes));
  const uint32_t wanted = (round & 0xff) * 0x01010101u;
  for (int i = 0; i < kThreads; ++i) {
    const uint32_t found = static_cast<volatile uint32_t*>(bed.pinned)[i];
    if (found == wanted) continue;
    std::printf("pinned memory that was set: value %d is %u, not %u\n", i, found, wanted);
    return false;
  }
  return true;
}

// A stream is made: the default stream's copies come behind its tasks nevertheless.
bool BesideAStream(Bed& bed, uint32_t rounds) {
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreate(&stream));
  bool right = true;
  for (uint32_t round = 0; round < rounds && right; ++round) {
    for (uint32_t i = 0; i < 8; ++i) {
      Step<<<1, kThreads, 0, stream>>>(bed.device, i);
      for (uint32_t& value : bed.expected) value = value * 3 + i;
    }
    right = ReadAfterEach(bed, round, cudaMemcpyDeviceToHost) &&
            WriteAfterEach(bed, round, cudaMemcpyHostToDevice) && SetBetween(bed, round, stream);
  }
  CHECK(cudaStreamDestroy(stream));
  return right;
}

bool NoBytes() {
  if (cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyHostToDevice) == cudaSuccess) return true;
  std::printf("a copy of nothing failed\n");
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  const auto rounds = static_cast<uint32_t>(argc > 1 ? std::atoi(argv[1]) : 200);
  Bed bed;
  bool right = NoBytes();
  for (uint32_t round = 0; round < rounds && right; ++round) {
    const bool is_default = round % 3 == 2;
    right = ReadAfterEach(bed, round, is_default ? cudaMemcpyDefault : cudaMemcpyDeviceToHost) &&
            WriteAfterEach(bed, round, is_default ? cudaMemcpyDefault : cudaMemcpyHostToDevice) &&
            BetweenDevices(bed, round) && SetBetween(bed, round, nullptr) && SetPinned(bed, round);
  }
  right = right && BesideAStream(bed, rounds / 4);
  if (!right) return 1;
  std::printf("ok\n");
  return 0;
}
