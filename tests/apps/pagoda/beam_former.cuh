// A beam former: signals of eight sensors, each filtered and added up for eight directions, of
// which the power comes out. No barriers.
#pragma once

#include "app.h"
#include "block.cuh"

namespace pagoda {

struct BeamFormer : KindDefaults {
  struct Args {
    Io io;
    const float* weights;  // [direction][sensor][tap]
    unsigned size;
  };
  using Output = float;
  static constexpr double kTolerance = 1e-4;
  static constexpr unsigned kSize = 256, kQuantum = 32;  // samples of a sensor
  static constexpr unsigned kSensors = 8, kDirections = 8, kTaps = 16;
  static constexpr size_t kTableBytes = kDirections * kSensors * kTaps * sizeof(float);

  static size_t InBytes(unsigned size) { return size * kSensors * sizeof(float); }
  static size_t OutBytes(unsigned size) { return size * kDirections * sizeof(float); }

  /// A fractional delay for each sensor and direction, as a windowed sinc.
  static void FillTable(char* table) {
    auto* weights = reinterpret_cast<float*>(table);
    const double pi = std::acos(-1.0);
    for (unsigned direction = 0; direction < kDirections; ++direction) {
      const double sine = (direction + 0.5) / kDirections * 2 - 1;
      for (unsigned sensor = 0; sensor < kSensors; ++sensor) {
        const double delay = kTaps / 2.0 + sine * (sensor - (kSensors - 1) / 2.0) * 0.9;
        for (unsigned k = 0; k < kTaps; ++k) {
          const double x = k - delay, sinc = x == 0 ? 1 : std::sin(pi * x) / (pi * x);
          const double window = 0.54 + 0.46 * std::cos(2 * pi * (k + 0.5 - kTaps / 2.0) / kTaps);
          *weights++ = static_cast<float>(sinc * window / kSensors);
        }
      }
    }
  }

  static void FillInput(const Item& item, char* in) {
    auto* const signal = reinterpret_cast<float*>(in);
    for (unsigned i = 0; i < item.size * kSensors; ++i) signal[i] = item.Share(i) - 0.5f;
  }

  static Args Arguments(const Item& item, const Io& io, const char* table) {
    return {io, reinterpret_cast<const float*>(table), item.size};
  }

  template <class Block>
  static __device__ void Run(const Block& block, const Args& a) {
    auto* const out = reinterpret_cast<float*>(a.io.out);
    for (unsigned i = block.thread; i < a.size * kDirections; i += block.threads) {
      out[i] = PowerAt(a, i / a.size, i % a.size);
    }
  }

  static void Reference(const Args& a) {
    auto* const out = reinterpret_cast<float*>(a.io.out);
    for (unsigned direction = 0; direction < kDirections; ++direction) {
      for (unsigned t = 0; t < a.size; ++t) {
        out[direction * a.size + t] = PowerAt(a, direction, t);
      }
    }
  }

 private:
  static __host__ __device__ float PowerAt(const Args& a, unsigned direction, unsigned t) {
    const auto* const signals = reinterpret_cast<const float*>(a.io.in);
    const unsigned most = t < kTaps ? t + 1 : kTaps;
    float sum = 0;
    for (unsigned sensor = 0; sensor < kSensors; ++sensor) {
      const float* const weights = a.weights + (direction * kSensors + sensor) * kTaps;
      const float* const signal = signals + sensor * a.size + t;
      for (unsigned k = 0; k < most; ++k) sum = Fma(weights[k], *(signal - k), sum);
    }
    return Mul(sum, sum);
  }
};

struct BeamFormerApp : Independent<BeamFormerApp, BeamFormer> {
  static constexpr const char* kName = "bf";
};

}  // namespace pagoda
