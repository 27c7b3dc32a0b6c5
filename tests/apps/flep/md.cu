// MD: molecular dynamics. The Lennard-Jones forces on every atom from the atoms of the cells in its
// neighbour list that are within the cutoff. A bar of cells, eight atoms each, open at its ends;
// one atom a thread, so that eight threads share a list.
#include <cmath>
#include <vector>

#include "../support/check_runtime.h"
#include "noise.h"
#include "program.h"

namespace md {

constexpr int kAtoms = 8;         // of a cell, near the corners of a 2 x 2 x 2 lattice
constexpr float kSpacing = 1.1f;  // of that lattice, in units of sigma
constexpr float kEdge = 2 * kSpacing;
constexpr float kCutoff = kEdge;  // so the 27 cells around hold all neighbours
constexpr int kNeighbours = 27;

/// The bar's cells: x is the fastest index; y and z have `across` cells each.
struct Bar {
  long along;
  int across;
  __host__ __device__ long cells() const { return along * across * across; }
};

__host__ __device__ inline float4 AtomAt(const Bar& bar, long atom) {
  const long cell = atom / kAtoms;
  const int corner = static_cast<int>(atom % kAtoms);
  const long x = cell % bar.along, y = cell / bar.along % bar.across;
  const long z = cell / bar.along / bar.across;
  const auto place = [&](long in_cells, int second, uint32_t seed) {
    return static_cast<float>(2 * in_cells + second) * kSpacing + Noise(atom, seed, -0.1f, 0.1f);
  };
  return make_float4(place(x, corner & 1, 16), place(y, corner >> 1 & 1, 17),
                     place(z, corner >> 2, 18), 0);
}

/// The cells around `cell`, itself among them; -1 where the bar ends.
__host__ __device__ inline long NeighbourCell(const Bar& bar, long cell, int which) {
  const long x = cell % bar.along + which % 3 - 1;
  const long y = cell / bar.along % bar.across + which / 3 % 3 - 1;
  const long z = cell / bar.along / bar.across + which / 9 - 1;
  if (x < 0 || y < 0 || z < 0 || x >= bar.along || y >= bar.across || z >= bar.across) return -1;
  return (z * bar.across + y) * bar.along + x;
}

/// What an atom at distance (dx, dy, dz) adds to the force, divided by the distance; 0 beyond the
/// cutoff. In units of epsilon and sigma.
template <typename Real>
__host__ __device__ Real PairForce(Real dx, Real dy, Real dz) {
  const Real square = dx * dx + dy * dy + dz * dz;
  if (square >= static_cast<Real>(kCutoff * kCutoff) || square == 0) return 0;
  const Real inverse = 1 / square;
  const Real sixth = inverse * inverse * inverse;
  return 24 * inverse * sixth * (2 * sixth - 1);
}

__global__ void FillAtoms(Bar bar, float4* atoms, int* neighbours) {
  const long step = static_cast<long>(gridDim.x) * blockDim.x;
  const long first = blockIdx.x * static_cast<long>(blockDim.x) + threadIdx.x;
  for (long i = first; i < bar.cells() * kAtoms; i += step) atoms[i] = AtomAt(bar, i);
  for (long cell = first; cell < bar.cells(); cell += step) {
    for (int j = 0; j < kNeighbours; ++j) {
      neighbours[cell * kNeighbours + j] = static_cast<int>(NeighbourCell(bar, cell, j));
    }
  }
}

__global__ void Forces(const float4* __restrict__ atoms, const int* __restrict__ neighbours,
                       float4* forces, long n) {
  const long step = static_cast<long>(gridDim.x) * blockDim.x;
  for (long i = blockIdx.x * static_cast<long>(blockDim.x) + threadIdx.x; i < n; i += step) {
    const float4 mine = atoms[i];
    const int* list = neighbours + i / kAtoms * kNeighbours;
    float x = 0, y = 0, z = 0;
    for (int j = 0; j < kNeighbours; ++j) {
      const int cell = list[j];
      if (cell < 0) continue;
      for (int k = 0; k < kAtoms; ++k) {
        const float4 other = atoms[static_cast<long>(cell) * kAtoms + k];
        const float dx = mine.x - other.x, dy = mine.y - other.y, dz = mine.z - other.z;
        const float force = PairForce<float>(dx, dy, dz);
        x += force * dx;
        y += force * dy;
        z += force * dz;
      }
    }
    forces[i] = make_float4(x, y, z, 0);
  }
}

class MolecularDynamics : public Program {
 public:
  const char* name() const override { return "md"; }
  long smallest() const override { return 5; }

  void Prepare(const Problem& problem) override {
    bar_ = {problem.size, problem.size < 12 ? 4 : 32};
    n_ = bar_.cells() * kAtoms;
    Allocate(&atoms_, n_);
    Allocate(&forces_, n_);
    Allocate(&neighbours_, bar_.cells() * kNeighbours);
    FillAtoms<<<FillBlocks(n_), 256>>>(bar_, atoms_, neighbours_);
    CHECK(cudaGetLastError());
    grid_.x = BlocksFor((n_ + 255) / 256, problem.part, Forces);
  }

  void Launch(cudaStream_t stream) override {
    Forces<<<grid_, block_, 0, stream>>>(atoms_, neighbours_, forces_, n_);
    CHECK(cudaGetLastError());
  }

  Output output() const override { return {forces_, n_ * 4, true}; }

  double Expected(long i) const override {
    const long atom = i / 4, axis = i % 4;
    if (axis == 3) return 0;
    const float4 mine = AtomAt(bar_, atom);
    double sum = 0;
    for (int j = 0; j < kNeighbours; ++j) {
      const long cell = NeighbourCell(bar_, atom / kAtoms, j);
      for (int k = 0; cell >= 0 && k < kAtoms; ++k) {
        const float4 other = AtomAt(bar_, cell * kAtoms + k);
        const double d[3] = {static_cast<double>(mine.x) - other.x,
                             static_cast<double>(mine.y) - other.y,
                             static_cast<double>(mine.z) - other.z};
        sum += PairForce<double>(d[0], d[1], d[2]) * d[axis];
      }
    }
    return sum;
  }
  double tolerance() const override { return 2e-2; }  // steep forces of pairs at the cutoff's edge

 private:
  Bar bar_{};
  long n_ = 0;
  float4 *atoms_ = nullptr, *forces_ = nullptr;
  int* neighbours_ = nullptr;
};

}  // namespace md

int main(int argc, char** argv) {
  md::MolecularDynamics program;
  return RunProgram(argc, argv, program);
}
