#include "bed.h"

#include "../support/check_runtime.h"

namespace pagoda {
namespace {

constexpr size_t kPiece = 1 << 20;

void Fill(char* memory, size_t bytes, int value) {
  ParallelFor((bytes + kPiece - 1) / kPiece, [&](size_t i) {
    std::memset(memory + i * kPiece, value, std::min(kPiece, bytes - i * kPiece));
  });
}

/// FNV-1a, eight bytes at a time.
uint64_t Hash(const char* data, size_t bytes) {
  uint64_t value = 0xcbf29ce484222325ull;
  for (size_t i = 0; i + 8 <= bytes; i += 8) {
    uint64_t word;
    std::memcpy(&word, data + i, 8);
    value = (value ^ word) * 0x100000001b3ull;
    value ^= value >> 29;
  }
  return value;
}

char* Pinned(size_t bytes) {
  void* memory = nullptr;
  CHECK(cudaHostAlloc(&memory, std::max<size_t>(bytes, 256), cudaHostAllocDefault));
  return static_cast<char*>(memory);
}

char* OnDevice(size_t bytes) {
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, std::max<size_t>(bytes, 256)));
  return static_cast<char*>(memory);
}

}  // namespace

Bed::Bed(const Config& config, Workload load, size_t table_bytes)
    : config_(config),
      load_(std::move(load)),
      table_bytes_(table_bytes),
      records_(load_.tasks.size()) {
  table_ = OnDevice(table_bytes);
  host_ = {Pinned(load_.in_bytes), Pinned(load_.out_bytes), nullptr};
  device_ = {OnDevice(load_.in_bytes), OnDevice(load_.out_bytes), table_};
}

Bed::~Bed() {
  for (char* memory : {device_.in, device_.out, table_}) cudaFree(memory);
  for (char* memory : {host_.in, host_.out}) cudaFreeHost(memory);
}

void Bed::Start(const char* table) {
  host_.table = table;
  if (table_bytes_ > 0) CHECK(cudaMemcpy(table_, table, table_bytes_, cudaMemcpyHostToDevice));
  if (load_.in_bytes > 0) {
    CHECK(cudaMemcpy(device_.in, host_.in, load_.in_bytes, cudaMemcpyHostToDevice));
  }
  CHECK(cudaDeviceSynchronize());
}

void Bed::Forget(bool copies) {
  Fill(host_.out, load_.out_bytes, 0xa5);
  CHECK(cudaMemset(device_.out, 0x5a, load_.out_bytes));
  if (copies && load_.in_bytes > 0) CHECK(cudaMemset(device_.in, 0x3c, load_.in_bytes));
  CHECK(cudaDeviceSynchronize());
}

void Bed::Reset(bool copies) {
  if (copies || !load_.in_place) return;
  PlaceWhole(nullptr);
  CHECK(cudaDeviceSynchronize());
}

void Bed::Fetch() {
  CHECK(cudaMemcpy(host_.out, device_.out, load_.out_bytes, cudaMemcpyDeviceToHost));
}

uint64_t Bed::Checksum() const {
  if (load_.in_place) return Hash(host_.out, load_.out_bytes);
  std::vector<uint64_t> sums(load_.tasks.size());
  ParallelFor(sums.size(), [&](size_t i) {
    sums[i] = Hash(host_.out + load_.tasks[i].out, load_.tasks[i].out_bytes);
  });
  return Hash(reinterpret_cast<const char*>(sums.data()), sums.size() * sizeof sums[0]);
}

void Bed::CopyIn(size_t first, size_t last, cudaStream_t stream) const {
  if (first == last) return;
  const Task &front = load_.tasks[first], &back = load_.tasks[last - 1];
  const size_t bytes = back.in + back.in_bytes - front.in;
  if (bytes == 0) return;
  CHECK(cudaMemcpyAsync(device_.in + front.in, host_.in + front.in, bytes, cudaMemcpyHostToDevice,
                        stream));
}

void Bed::CopyOut(size_t first, size_t last, cudaStream_t stream) const {
  if (first == last) return;
  const Task &front = load_.tasks[first], &back = load_.tasks[last - 1];
  const size_t bytes = back.out + back.out_bytes - front.out;
  if (bytes == 0) return;
  CHECK(cudaMemcpyAsync(host_.out + front.out, device_.out + front.out, bytes,
                        cudaMemcpyDeviceToHost, stream));
}

void Bed::PlaceWhole(cudaStream_t stream) const {
  if (!load_.in_place) return;
  CHECK(cudaMemcpyAsync(device_.out, host_.in, load_.out_bytes, cudaMemcpyHostToDevice, stream));
}

void Bed::FetchWhole(cudaStream_t stream) const {
  if (!load_.in_place) return;
  CHECK(cudaMemcpyAsync(host_.out, device_.out, load_.out_bytes, cudaMemcpyDeviceToHost, stream));
}

}  // namespace pagoda
