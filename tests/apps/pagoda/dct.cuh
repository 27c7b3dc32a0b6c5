// Cosine transforms of the 8 x 8 squares of images, as JPEG has them; bytes in, whole coefficients
// out. Eight threads a square: with shared memory each transforms a row and then, behind a barrier,
// a column; without, each makes its column's coefficient of all rows itself.
#pragma once

#include <cmath>

#include "app.h"
#include "block.cuh"

namespace pagoda {

struct DctShape : KindDefaults {
  struct Args {
    Io io;
    const float* cosines;  // [frequency][place], with the factor of the frequency
    unsigned size;
  };
  using Output = int16_t;
  static constexpr double kTolerance = 1;                // a rounding
  static constexpr unsigned kSize = 128, kQuantum = 16;  // pixels of a side
  static constexpr size_t kTableBytes = 64 * sizeof(float);

  static size_t InBytes(unsigned size) { return size_t{size} * size; }
  static size_t OutBytes(unsigned size) { return size_t{size} * size * sizeof(Output); }

  static void FillTable(char* table) {
    auto* cosines = reinterpret_cast<float*>(table);
    const double pi = std::acos(-1.0);
    for (int u = 0; u < 8; ++u) {
      for (int x = 0; x < 8; ++x) {
        const double factor = u == 0 ? std::sqrt(0.125) : 0.5;
        *cosines++ = static_cast<float>(factor * std::cos((2 * x + 1) * u * pi / 16));
      }
    }
  }

  static void FillInput(const Item& item, char* in) {
    for (unsigned i = 0; i < item.size * item.size; i += 4) {
      const uint32_t pixels = item.Random(i);
      std::memcpy(in + i, &pixels, 4);
    }
  }

  static Args Arguments(const Item& item, const Io& io, const char* table) {
    return {io, reinterpret_cast<const float*>(table), item.size};
  }

  static void Reference(const Args& a) {
    auto* const out = reinterpret_cast<Output*>(a.io.out);
    for (unsigned y = 0; y < a.size; y += 8) {
      for (unsigned x = 0; x < a.size; x += 8) {
        TransformSquare(a, a.io.in + y * a.size + x, out + y * a.size + x);
      }
    }
  }

 protected:
  /// Sum over eight values of cosines[place] * values[place].
  static __host__ __device__ float Transform(const float* cosines, const float (&values)[8]) {
    float sum = 0;
    for (unsigned x = 0; x < 8; ++x) sum = Fma(cosines[x], values[x], sum);
    return sum;
  }

  /// Eight pixels at a multiple of eight.
  static __host__ __device__ void Load(const char* pixels, float (&values)[8]) {
    const uint2 bytes = *reinterpret_cast<const uint2*>(pixels);
    for (unsigned x = 0; x < 4; ++x) {
      values[x] = static_cast<float>(bytes.x >> (8 * x) & 255) - 128;
      values[x + 4] = static_cast<float>(bytes.y >> (8 * x) & 255) - 128;
    }
  }

  static __host__ __device__ Output Rounded(float value) {
#ifdef __CUDA_ARCH__
    return static_cast<Output>(__float2int_rn(value));
#else
    return static_cast<Output>(std::lrint(value));
#endif
  }

 private:
  static void TransformSquare(const Args& a, const char* pixels, Output* out) {
    float columns[8][8];
    for (unsigned y = 0; y < 8; ++y) {
      float row[8];
      Load(pixels + y * a.size, row);
      for (unsigned u = 0; u < 8; ++u) columns[u][y] = Transform(a.cosines + 8 * u, row);
    }
    for (unsigned v = 0; v < 8; ++v) {
      for (unsigned u = 0; u < 8; ++u) {
        out[v * a.size + u] = Rounded(Transform(a.cosines + 8 * v, columns[u]));
      }
    }
  }
};

struct SharedDct : DctShape {
  static constexpr bool kBarrier = true;
  static unsigned SharedBytes(unsigned threads, unsigned) { return threads * 8 * sizeof(float); }

  template <class Block>
  static __device__ void Run(const Block& block, const Args& a) {
    const unsigned across = a.size / 8, squares = across * across, own = block.thread % 8;
    const unsigned at_a_time = block.threads / 8;
    // Row y of a square has its coefficient u at place u ^ y, so that a column's are in eight
    // banks.
    float* const rows = reinterpret_cast<float*>(block.shared) + block.thread / 8 * 64;
    for (unsigned first = 0; first < squares; first += at_a_time) {
      const unsigned square = first + block.thread / 8;
      const unsigned at = square / across * 8 * a.size + square % across * 8;
      float values[8];
      if (square < squares) {
        Load(a.io.in + at + own * a.size, values);
        for (unsigned u = 0; u < 8; ++u) {
          rows[own * 8 + (u ^ own)] = Transform(a.cosines + 8 * u, values);
        }
      }
      block.sync();
      if (square < squares) {
        auto* const out = reinterpret_cast<Output*>(a.io.out) + at + own;
        for (unsigned y = 0; y < 8; ++y) values[y] = rows[y * 8 + (own ^ y)];
        for (unsigned v = 0; v < 8; ++v) {
          out[v * a.size] = Rounded(Transform(a.cosines + 8 * v, values));
        }
      }
      block.sync();
    }
  }
};

struct PlainDct : DctShape {
  template <class Block>
  static __device__ void Run(const Block& block, const Args& a) {
    const unsigned across = a.size / 8, columns = across * across * 8;
    for (unsigned i = block.thread; i < columns; i += block.threads) {
      const unsigned square = i / 8, u = i % 8;
      const unsigned at = square / across * 8 * a.size + square % across * 8;
      float column[8];
      for (unsigned y = 0; y < 8; ++y) {
        float row[8];
        Load(a.io.in + at + y * a.size, row);
        column[y] = Transform(a.cosines + 8 * u, row);
      }
      auto* const out = reinterpret_cast<Output*>(a.io.out) + at + u;
      for (unsigned v = 0; v < 8; ++v) {
        out[v * a.size] = Rounded(Transform(a.cosines + 8 * v, column));
      }
    }
  }
};

struct DctApp : Independent<DctApp, SharedDct, PlainDct> {
  static constexpr const char* kName = "dct";
  static unsigned KindOf(const Config& config, unsigned) { return config.shared ? 0 : 1; }
};

}  // namespace pagoda
