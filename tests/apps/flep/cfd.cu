// CFD: one time step of a finite volume solver of the Euler equations in two dimensions on an
// unstructured mesh: per cell four faces, each with its normal and the cell behind it. The flux
// through a face is that of the exact Riemann problem between the two cells. One cell a thread.
#include <cmath>

#include "../support/check_runtime.h"
#include "noise.h"
#include "program.h"
#include "riemann.h"

namespace cfd {

constexpr int kFaces = 4;
constexpr long kWidth = 256;  // the mesh is cut from a lattice of so many cells in a row
constexpr int kWall = -1;
constexpr float kStepOverSize = 0.1f;  // time step over the size of a cell

/// The state of a cell: density, velocity x and y, pressure.
__host__ __device__ inline float4 StateAt(long cell) {
  return make_float4(Noise(cell, 25, 0.8f, 1.2f), Noise(cell, 26, -0.3f, 0.3f),
                     Noise(cell, 27, -0.3f, 0.3f), Noise(cell, 28, 0.8f, 1.2f));
}

/// The cell behind a face: right, up, left, down; a wall at the rim.
__host__ __device__ inline int Behind(long cell, int face, long cells) {
  const long column = cell % kWidth;
  if ((face == 0 && column == kWidth - 1) || (face == 2 && column == 0)) return kWall;
  const long other = cell + (face == 0 ? 1 : face == 1 ? kWidth : face == 2 ? -1 : -kWidth);
  return other < 0 || other >= cells ? kWall : static_cast<int>(other);
}

/// The outward normal of a face: a slightly twisted square. Opposite for the cell behind it.
__host__ __device__ inline float2 NormalAt(long cell, int face) {
  const bool positive = face < 2;
  const long owner = positive ? cell : face == 2 ? cell - 1 : cell - kWidth;
  const float twist = Noise(owner * 2 + face % 2, 29, -0.1f, 0.1f);
  const float sign = positive ? 1.0f : -1.0f;
  return face % 2 == 0 ? make_float2(sign, sign * twist) : make_float2(-sign * twist, sign);
}

/// The state turned so that `across` points along the normal (nx, ny), a unit vector.
template <typename Real>
__host__ __device__ Gas<Real> Turned(const float4& state, Real nx, Real ny) {
  const Real vx = state.y, vy = state.z;
  return {state.x, vx * nx + vy * ny, vy * nx - vx * ny, state.w};
}

/// What leaves the cell through one face of normal `normal` (not of unit length: times the area).
template <typename Real>
__host__ __device__ void AddFlux(const float4& mine, const float4& other, bool wall, float2 normal,
                                 Real sum[4]) {
  const Real area =
      sqrt(static_cast<Real>(normal.x) * normal.x + static_cast<Real>(normal.y) * normal.y);
  const Real nx = normal.x / area, ny = normal.y / area;
  const Gas<Real> inner = Turned<Real>(mine, nx, ny);
  const Gas<Real> outer = wall ? Mirrored(inner) : Turned<Real>(other, nx, ny);
  const Flow<Real> flow = FlowThrough(AtFace(inner, outer));
  sum[0] += area * flow.mass;
  sum[1] += area * (flow.across * nx - flow.along * ny);
  sum[2] += area * (flow.across * ny + flow.along * nx);
  sum[3] += area * flow.energy;
}

/// The cell's mass, momentum and energy after the step.
template <typename Real>
__host__ __device__ void Advance(const float4& mine, const Real sum[4], Real result[4]) {
  const Real step = static_cast<Real>(kStepOverSize);
  const Real density = mine.x, vx = mine.y, vy = mine.z;
  const Real energy = mine.w / static_cast<Real>(kGamma - 1) + density * (vx * vx + vy * vy) / 2;
  result[0] = density - step * sum[0];
  result[1] = density * vx - step * sum[1];
  result[2] = density * vy - step * sum[2];
  result[3] = energy - step * sum[3];
}

__global__ void FillMesh(float4* states, int* behind, float2* normals, long n) {
  const long step = static_cast<long>(gridDim.x) * blockDim.x;
  for (long i = blockIdx.x * static_cast<long>(blockDim.x) + threadIdx.x; i < n; i += step) {
    states[i] = StateAt(i);
    for (int face = 0; face < kFaces; ++face) {
      behind[face * n + i] = Behind(i, face, n);
      normals[face * n + i] = NormalAt(i, face);
    }
  }
}

__global__ void Step(const float4* __restrict__ states, const int* __restrict__ behind,
                     const float2* __restrict__ normals, float4* results, long n) {
  const long step = static_cast<long>(gridDim.x) * blockDim.x;
  for (long i = blockIdx.x * static_cast<long>(blockDim.x) + threadIdx.x; i < n; i += step) {
    const float4 mine = states[i];
    float sum[4] = {0, 0, 0, 0};
#pragma unroll 1
    for (int face = 0; face < kFaces; ++face) {
      const int other = behind[face * n + i];
      const bool wall = other == kWall;
      AddFlux<float>(mine, wall ? mine : states[other], wall, normals[face * n + i], sum);
    }
    float result[4];
    Advance<float>(mine, sum, result);
    results[i] = make_float4(result[0], result[1], result[2], result[3]);
  }
}

class FluidDynamics : public Program {
 public:
  const char* name() const override { return "cfd"; }
  long smallest() const override { return 256 * 4 + 31; }

  void Prepare(const Problem& problem) override {
    n_ = problem.size;
    Allocate(&states_, n_);
    Allocate(&results_, n_);
    Allocate(&behind_, kFaces * n_);
    Allocate(&normals_, kFaces * n_);
    FillMesh<<<FillBlocks(n_), 256>>>(states_, behind_, normals_, n_);
    CHECK(cudaGetLastError());
    grid_.x = BlocksFor((n_ + 255) / 256, problem.part, Step);
  }

  void Launch(cudaStream_t stream) override {
    Step<<<grid_, block_, 0, stream>>>(states_, behind_, normals_, results_, n_);
    CHECK(cudaGetLastError());
  }

  Output output() const override { return {results_, n_ * 4, true}; }

  double Expected(long i) const override {
    const long cell = i / 4;
    const float4 mine = StateAt(cell);
    double sum[4] = {0, 0, 0, 0}, result[4];
    for (int face = 0; face < kFaces; ++face) {
      const int other = Behind(cell, face, n_);
      const bool wall = other == kWall;
      AddFlux<double>(mine, wall ? mine : StateAt(other), wall, NormalAt(cell, face), sum);
    }
    Advance<double>(mine, sum, result);
    return result[i % 4];
  }
  double tolerance() const override { return 1e-3; }

 private:
  long n_ = 0;
  float4 *states_ = nullptr, *results_ = nullptr;
  int* behind_ = nullptr;
  float2* normals_ = nullptr;
};

}  // namespace cfd

int main(int argc, char** argv) {
  cfd::FluidDynamics program;
  return RunProgram(argc, argv, program);
}
