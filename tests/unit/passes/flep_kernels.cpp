#include "tests/unit/passes/flep_kernels.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>
#include <sstream>

#include "base/prng.h"
#include "tests/paths.h"

namespace cupola::passes {
namespace {

constexpr uint32_t kThreads = 64;  // of a block, where the kernel takes any number
constexpr int64_t kOver = 33;      // elements that the last block lacks

// A launch and its arguments, which are added one by one.
class Launch {
 public:
  Launch(std::string kernel, sim::Dim3 grid, sim::Dim3 block, Prng& random) : random_(random) {
    spec_.kernel = std::move(kernel);
    spec_.grid = grid;
    spec_.block = block;
  }

  template <typename T>
  Launch& Scalar(T value) {
    return Add(&value, sizeof(value), false);
  }
  template <typename T>
  Launch& Buffer(const std::vector<T>& values) {
    return Add(values.data(), values.size() * sizeof(T), true);
  }
  /// What the kernel is to write.
  Launch& Output(int64_t bytes) { return Buffer(std::vector<uint8_t>(static_cast<size_t>(bytes))); }
  Launch& Floats(int64_t count, double low, double high) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = static_cast<float>(random_.Uniform(low, high));
    return Buffer(values);
  }
  /// Of `low` to `high` - 1.
  template <typename T>
  Launch& Integers(int64_t count, int64_t low, int64_t high) {
    std::vector<T> values(static_cast<size_t>(count));
    for (T& value : values) {
      value = static_cast<T>(low + static_cast<int64_t>(random_.Below(high - low)));
    }
    return Buffer(values);
  }
  sim::KernelSpec spec() const { return spec_; }

 private:
  Launch& Add(const void* from, size_t bytes, bool is_buffer) {
    sim::ArgSpec arg;
    arg.is_buffer = is_buffer;
    arg.bytes.resize(bytes);
    std::memcpy(arg.bytes.data(), from, bytes);
    spec_.args.push_back(std::move(arg));
    return *this;
  }

  Prng& random_;
  sim::KernelSpec spec_;
};

int64_t Elements(uint32_t blocks) { return int64_t{blocks} * kThreads - kOver; }

// Euler equations: states, cells behind faces (-1: a wall), normals.
sim::KernelSpec Cfd(uint32_t blocks, Prng& random) {
  const int64_t n = Elements(blocks);
  return Launch("_ZN3cfd4StepEPK6float4PKiPK6float2PS0_l", {blocks, 1, 1}, {kThreads, 1, 1}, random)
      .Floats(4 * n, 0.8, 1.2)
      .Integers<int32_t>(4 * n, -1, n)
      .Floats(2 * 4 * n, 0.5, 1)
      .Output(16 * n)
      .Scalar(n)
      .spec();
}

sim::KernelSpec Nn(uint32_t blocks, Prng& random) {
  const int64_t n = Elements(blocks);
  return Launch("_ZN2nn9DistancesEPKfS1_Pflff", {blocks, 1, 1}, {kThreads, 1, 1}, random)
      .Floats(n, -1.5, 1.5)
      .Floats(n, -3, 3)
      .Output(4 * n)
      .Scalar(n)
      .Scalar(0.9f)
      .Scalar(0.2f)
      .spec();
}

// Costs of 20 rows; strips of 216 columns.
sim::KernelSpec Pf(uint32_t blocks, Prng& random) {
  const int64_t columns = int64_t{blocks} * 216 - kOver;
  return Launch("_ZN2pf9FindPathsEPKhPKiPill", {blocks, 1, 1}, {256, 1, 1}, random)
      .Integers<uint8_t>(20 * columns, 0, 10)
      .Integers<int32_t>(columns, 0, 100)
      .Output(4 * columns)
      .Scalar(columns)
      .Scalar(int64_t{blocks})
      .spec();
}

// Poses, their cumulative weights, 64 beacons.
sim::KernelSpec Pl(uint32_t blocks, Prng& random) {
  const int64_t n = Elements(blocks);
  std::vector<float> cumulative;
  for (int64_t i = 0; i < n; ++i) {
    cumulative.push_back(static_cast<float>(i + 1) / static_cast<float>(n));
  }
  return Launch("_ZN2pl8LocaliseEPKNS_4PoseEPKflPKNS_6BeaconEP6float2Pfld", {blocks, 1, 1},
                {kThreads, 1, 1}, random)
      .Floats(4 * n, 0, 100)
      .Buffer(cumulative)
      .Scalar(n)
      .Floats(4 * 64, 0, 100)
      .Output(8 * n)
      .Output(4 * n)
      .Scalar(n)
      .Scalar(1.0 / static_cast<double>(n))
      .spec();
}

// Cells of eight atoms; lists of 27 neighbours, most of them none (-1).
sim::KernelSpec Md(uint32_t blocks, Prng& random) {
  const int64_t cells = int64_t{blocks} * kThreads / 8 - 1;
  std::vector<int32_t> neighbours(static_cast<size_t>(27 * cells), -1);
  for (int64_t cell = 0; cell < cells; ++cell) {
    for (const int64_t place : {2, 13, 25}) {
      neighbours[static_cast<size_t>(27 * cell + place)] =
          static_cast<int32_t>(random.Below(cells));
    }
  }
  return Launch("_ZN2md6ForcesEPK6float4PKiPS0_l", {blocks, 1, 1}, {kThreads, 1, 1}, random)
      .Floats(4 * 8 * cells, 0, 4)
      .Buffer(neighbours)
      .Output(16 * 8 * cells)
      .Scalar(8 * cells)
      .spec();
}

// Rows of 0 to 79 entries, one a warp.
sim::KernelSpec Spmv(uint32_t blocks, Prng& random) {
  const int64_t rows = int64_t{blocks} * (kThreads / 32) - 1, columns = 256;
  std::vector<int64_t> starts = {0};
  for (int64_t row = 0; row < rows; ++row) {
    starts.push_back(starts.back() + static_cast<int64_t>(random.Below(80)));
  }
  return Launch("_ZN4spmv8MultiplyEPKlPKiPKfS5_Pfl", {blocks, 1, 1}, {kThreads, 1, 1}, random)
      .Buffer(starts)
      .Integers<int32_t>(starts.back(), 0, columns)
      .Floats(starts.back(), -1, 1)
      .Floats(columns, -1, 1)
      .Output(4 * rows)
      .Scalar(rows)
      .spec();
}

// Products of two by two tiles, 16 by 16 values each.
sim::KernelSpec Mm(uint32_t blocks, Prng& random) {
  const int32_t n = 2 * 16;
  const uint32_t batch = (blocks + 3) / 4;
  const int64_t values = int64_t{batch} * n * n;
  return Launch("_ZN2mm13MultiplyTiledEPKfS1_Pfii", {2, 2, batch}, {16, 16, 1}, random)
      .Floats(values, -1, 1)
      .Floats(values, -1, 1)
      .Output(4 * values)
      .Scalar(n)
      .Scalar(static_cast<int32_t>(batch))
      .spec();
}

// A ring that holds all of the vector.
sim::KernelSpec Va(uint32_t blocks, Prng& random) {
  const int64_t n = Elements(blocks);
  int64_t ring = 128;
  while (ring < n) ring *= 2;
  return Launch("_ZN2va9VectorAddEPKfS1_Pfll", {blocks, 1, 1}, {kThreads, 1, 1}, random)
      .Floats(ring, -100, 100)
      .Floats(ring, -1, 1)
      .Output(4 * ring)
      .Scalar(n)
      .Scalar(ring)
      .spec();
}

struct Entry {
  std::string name;
  sim::KernelSpec (*make)(uint32_t blocks, Prng& random);
};
const Entry kEntries[] = {{"cfd", Cfd}, {"nn", Nn},     {"pf", Pf}, {"pl", Pl},
                          {"md", Md},   {"spmv", Spmv}, {"mm", Mm}, {"va", Va}};

}  // namespace

const std::vector<std::string>& FlepKernels() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Entry& entry : kEntries) all.push_back(entry.name);
    return all;
  }();
  return names;
}

Result<sim::GoldenKernel> MakeFlepKernel(const std::string& name, uint32_t blocks) {
  const auto* entry = std::ranges::find(kEntries, name, &Entry::name);
  std::ifstream file(std::string(CUPOLA_FLEP_PTX_FOLDER) + "/" + name + ".ptx");
  if (entry == std::end(kEntries) || !file) {
    return MakeError(ErrorCode::kNotFound, "no PTX of " + name);
  }
  std::stringstream text;
  text << file.rdbuf();
  sim::GoldenKernel kernel;
  kernel.name = name + ".ptx";
  kernel.input = text.str();
  Prng random(blocks);
  kernel.spec = entry->make(blocks, random);
  return kernel;
}

}  // namespace cupola::passes
