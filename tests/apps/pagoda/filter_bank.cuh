// A filter bank: each signal is split into eight bands by filters, of which every eighth sample is
// kept, and put together again. A barrier a band; a band's samples lie in shared memory.
#pragma once

#include <cmath>

#include "app.h"
#include "block.cuh"

namespace pagoda {

struct FilterBank : KindDefaults {
  struct Args {
    Io io;
    const float* taps;  // of band b: kTaps to split at 2 b kTaps, kTaps to join behind them
    unsigned size;
  };
  using Output = float;
  static constexpr double kTolerance = 1e-4;
  static constexpr bool kBarrier = true;
  static constexpr unsigned kSize = 2048, kQuantum = 256;  // samples
  static constexpr unsigned kBands = 8, kTaps = 32;
  static constexpr size_t kTableBytes = kBands * 2 * kTaps * sizeof(float);

  static size_t InBytes(unsigned size) { return size * sizeof(float); }
  static size_t OutBytes(unsigned size) { return size * sizeof(float); }
  static unsigned SharedBytes(unsigned, unsigned size) {
    return static_cast<unsigned>(2 * size / kBands * sizeof(float));
  }

  /// A cosine-modulated window.
  static void FillTable(char* table) {
    auto* taps = reinterpret_cast<float*>(table);
    const double pi = std::acos(-1.0), middle = (kTaps - 1) / 2.0;
    for (unsigned band = 0; band < kBands; ++band) {
      for (const double sign : {1.0, -1.0}) {
        for (unsigned k = 0; k < kTaps; ++k) {
          const double window = std::sin(pi * (k + 0.5) / kTaps);
          const double angle = pi / kBands * (band + 0.5) * (k - middle) + sign * pi / 4;
          *taps++ = static_cast<float>(window * std::cos(angle) * 0.5);
        }
      }
    }
  }

  static void FillInput(const Item& item, char* in) {
    auto* const signal = reinterpret_cast<float*>(in);
    for (unsigned i = 0; i < item.size; ++i) signal[i] = item.Share(i) - 0.5f;
  }

  static Args Arguments(const Item& item, const Io& io, const char* table) {
    return {io, reinterpret_cast<const float*>(table), item.size};
  }

  template <class Block>
  static __device__ void Run(const Block& block, const Args& a) {
    const auto* const signal = reinterpret_cast<const float*>(a.io.in);
    auto* const out = reinterpret_cast<float*>(a.io.out);
    const unsigned kept = a.size / kBands;
    for (unsigned band = 0; band < kBands; ++band) {
      const float* const split = a.taps + 2 * band * kTaps;
      const float* const join = split + kTaps;
      // Two halves by turns: who is still joining band b reads the one that b + 1 does not write.
      float* const samples = reinterpret_cast<float*>(block.shared) + (band % 2) * kept;
      for (unsigned m = block.thread; m < kept; m += block.threads) {
        samples[m] = SplitAt(signal, split, m);
      }
      block.sync();
      for (unsigned t = block.thread; t < a.size; t += block.threads) {
        out[t] = JoinAt(samples, join, t, band == 0 ? 0.0f : out[t]);
      }
    }
  }

  static void Reference(const Args& a) {
    const auto* const signal = reinterpret_cast<const float*>(a.io.in);
    auto* const out = reinterpret_cast<float*>(a.io.out);
    std::vector<float> samples(a.size / kBands);
    for (unsigned band = 0; band < kBands; ++band) {
      const float* const split = a.taps + 2 * band * kTaps;
      for (unsigned m = 0; m < samples.size(); ++m) samples[m] = SplitAt(signal, split, m);
      for (unsigned t = 0; t < a.size; ++t) {
        out[t] = JoinAt(samples.data(), split + kTaps, t, band == 0 ? 0.0f : out[t]);
      }
    }
  }

 private:
  static __host__ __device__ float SplitAt(const float* signal, const float* taps, unsigned m) {
    float sum = 0;
    const unsigned at = m * kBands, most = at < kTaps ? at + 1 : kTaps;
    for (unsigned k = 0; k < most; ++k) sum = Fma(taps[k], signal[at - k], sum);
    return sum;
  }

  /// Between kept samples there are zeros, so only every eighth tap counts.
  static __host__ __device__ float JoinAt(const float* samples, const float* taps, unsigned t,
                                          float sum) {
    for (unsigned k = t % kBands; k < kTaps && k <= t; k += kBands) {
      sum = Fma(taps[k], samples[(t - k) / kBands], sum);
    }
    return sum;
  }
};

struct FilterBankApp : Independent<FilterBankApp, FilterBank> {
  static constexpr const char* kName = "fb";
};

}  // namespace pagoda
