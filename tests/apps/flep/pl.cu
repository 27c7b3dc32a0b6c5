// PL: Bayesian localisation by a particle filter. Every new particle is drawn from the weighted old
// ones (stratified resampling: a search in their cumulative weights), moved by the robot's motion
// with noise, and weighed by how well its distances to the beacons explain the ranges measured.
#include <algorithm>
#include <cmath>
#include <vector>

#include "../support/check_runtime.h"
#include "noise.h"
#include "program.h"

namespace pl {

constexpr int kBeacons = 64;
constexpr long kMostAncestors = 1 << 16;
constexpr float kArena = 100;     // metres, side of a square
constexpr float kStepLength = 2;  // metres moved since the last measurement
constexpr float kRangeSigma = 3;  // metres

struct Beacon {
  float x, y, range, unused;
};
struct Pose {
  float x, y, heading, unused;
};

template <typename Real>
__host__ __device__ Real LogLikelihood(const Beacon* beacons, Real x, Real y) {
  Real sum = 0;
  for (int b = 0; b < kBeacons; ++b) {
    const Real dx = x - beacons[b].x, dy = y - beacons[b].y;
    const Real miss = sqrt(dx * dx + dy * dy) - beacons[b].range;
    sum -= miss * miss;
  }
  return sum / (2 * static_cast<Real>(kRangeSigma) * static_cast<Real>(kRangeSigma) * kBeacons);
}

/// The first ancestor whose cumulative weight exceeds `drawn`.
__host__ __device__ inline long Ancestor(const float* cumulative, long ancestors, float drawn) {
  long low = 0, high = ancestors - 1;
  while (low < high) {
    const long middle = (low + high) / 2;
    if (cumulative[middle] > drawn) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

__host__ __device__ inline float Drawn(long i, double one_of_n) {
  return static_cast<float>((static_cast<double>(i) + 0.5) * one_of_n);
}

template <typename Real>
__host__ __device__ Real Moved(const Pose& pose, long i, Real* y) {
  const Real heading = static_cast<Real>(pose.heading) + Noise(i, 7, -0.3f, 0.3f);
  const Real length = static_cast<Real>(kStepLength) + Noise(i, 8, -0.5f, 0.5f);
  *y = pose.y + length * sin(heading);
  return pose.x + length * cos(heading);
}

__global__ void Localise(const Pose* old_poses, const float* cumulative, long ancestors,
                         const Beacon* __restrict__ beacons, float2* poses, float* weights, long n,
                         double one_of_n) {
  const long step = static_cast<long>(gridDim.x) * blockDim.x;
  for (long i = blockIdx.x * static_cast<long>(blockDim.x) + threadIdx.x; i < n; i += step) {
    const long from = Ancestor(cumulative, ancestors, Drawn(i, one_of_n));
    float y = 0;
    const float x = Moved<float>(old_poses[from], i, &y);
    poses[i] = make_float2(x, y);
    weights[i] = LogLikelihood<float>(beacons, x, y);
  }
}

class ParticleFilter : public Program {
 public:
  const char* name() const override { return "pl"; }
  long smallest() const override { return 256 * 5 + 9; }

  void Prepare(const Problem& problem) override {
    n_ = problem.size;
    MakeScene(std::min(n_, kMostAncestors));
    Upload(poses_before_, &device_before_);
    Upload(cumulative_, &device_cumulative_);
    Upload(beacons_, &device_beacons_);
    Allocate(&device_poses_, n_);
    Allocate(&device_weights_, n_);
    grid_.x = BlocksFor((n_ + 255) / 256, problem.part, Localise);
  }

  void Launch(cudaStream_t stream) override {
    Localise<<<grid_, block_, 0, stream>>>(device_before_, device_cumulative_,
                                           static_cast<long>(cumulative_.size()), device_beacons_,
                                           device_poses_, device_weights_, n_, 1.0 / n_);
    CHECK(cudaGetLastError());
  }

  Output output() const override { return {device_weights_, n_, true}; }
  double Expected(long i) const override {
    const long from =
        Ancestor(cumulative_.data(), static_cast<long>(cumulative_.size()), Drawn(i, 1.0 / n_));
    double y = 0;
    const double x = Moved<double>(poses_before_[from], i, &y);
    return LogLikelihood<double>(beacons_.data(), x, y);
  }
  double tolerance() const override { return 1e-4; }

 private:
  template <typename T>
  void Upload(const std::vector<T>& from, T** to) {
    Allocate(to, from.size());
    CHECK(cudaMemcpy(*to, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice));
  }

  void MakeScene(long ancestors) {
    poses_before_.clear();
    cumulative_.clear();
    beacons_.clear();
    const float robot_x = 40, robot_y = 60;
    for (int b = 0; b < kBeacons; ++b) {
      const float x = Noise(b, 9, 0, kArena), y = Noise(b, 10, 0, kArena);
      const float range = std::hypot(x - robot_x, y - robot_y) + Noise(b, 11, -2, 2);
      beacons_.push_back({x, y, range, 0});
    }
    std::vector<double> sums;
    double sum = 0;
    for (long i = 0; i < ancestors; ++i) {
      poses_before_.push_back(
          {Noise(i, 12, 0, kArena), Noise(i, 13, 0, kArena), Noise(i, 14, -3.14f, 3.14f), 0});
      sums.push_back(sum += Noise(i, 15, 0.1f, 1));
    }
    for (const double value : sums) cumulative_.push_back(static_cast<float>(value / sum));
  }

  long n_ = 0;
  std::vector<Pose> poses_before_;
  std::vector<float> cumulative_;
  std::vector<Beacon> beacons_;
  Pose* device_before_ = nullptr;
  float* device_cumulative_ = nullptr;
  Beacon* device_beacons_ = nullptr;
  float2* device_poses_ = nullptr;
  float* device_weights_ = nullptr;
};

}  // namespace pl

int main(int argc, char** argv) {
  pl::ParticleFilter program;
  return RunProgram(argc, argv, program);
}
