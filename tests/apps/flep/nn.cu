// NN: nearest neighbour. The great-circle distance of every record (latitude, longitude) to a query
// point, one record a thread; whoever asks picks the nearest ones from the distances.
#include <cmath>

#include "../support/check_runtime.h"
#include "noise.h"
#include "program.h"

namespace nn {

constexpr double kEarthKm = 6371;
constexpr float kHalfTurn = 3.14159265f;

/// Haversine formula; all angles in radians.
template <typename Real>
__host__ __device__ Real Distance(Real latitude, Real longitude, Real at_latitude,
                                  Real at_longitude) {
  const Real up = sin((latitude - at_latitude) / 2);
  const Real along = sin((longitude - at_longitude) / 2);
  const Real h = up * up + cos(latitude) * cos(at_latitude) * along * along;
  return 2 * static_cast<Real>(kEarthKm) * asin(sqrt(h < 1 ? h : Real{1}));
}

__global__ void Distances(const float* latitude, const float* longitude, float* distance, long n,
                          float at_latitude, float at_longitude) {
  const long step = static_cast<long>(gridDim.x) * blockDim.x;
  for (long i = blockIdx.x * static_cast<long>(blockDim.x) + threadIdx.x; i < n; i += step) {
    distance[i] = Distance<float>(latitude[i], longitude[i], at_latitude, at_longitude);
  }
}

class NearestNeighbour : public Program {
 public:
  const char* name() const override { return "nn"; }
  long smallest() const override { return 256 * 16 + 5; }

  void Prepare(const Problem& problem) override {
    n_ = problem.size;
    for (float** array : {&latitude_, &longitude_, &distance_}) {
      Allocate(array, n_);
    }
    FillNoise<<<FillBlocks(n_), 256>>>(latitude_, n_, 3, -kHalfTurn / 2, kHalfTurn / 2);
    FillNoise<<<FillBlocks(n_), 256>>>(longitude_, n_, 4, -kHalfTurn, kHalfTurn);
    CHECK(cudaGetLastError());
    grid_.x = BlocksFor((n_ + 255) / 256, problem.part, Distances);
  }

  void Launch(cudaStream_t stream) override {
    Distances<<<grid_, block_, 0, stream>>>(latitude_, longitude_, distance_, n_, kAtLatitude,
                                            kAtLongitude);
    CHECK(cudaGetLastError());
  }

  Output output() const override { return {distance_, n_, true}; }
  double Expected(long i) const override {
    return Distance<double>(Noise(i, 3, -kHalfTurn / 2, kHalfTurn / 2),
                            Noise(i, 4, -kHalfTurn, kHalfTurn), kAtLatitude, kAtLongitude);
  }
  double tolerance() const override { return 1e-3; }  // the formula loses digits near the antipode

 private:
  static constexpr float kAtLatitude = 0.9f;
  static constexpr float kAtLongitude = 0.2f;
  long n_ = 0;
  float *latitude_ = nullptr, *longitude_ = nullptr, *distance_ = nullptr;
};

}  // namespace nn

int main(int argc, char** argv) {
  nn::NearestNeighbour program;
  return RunProgram(argc, argv, program);
}
