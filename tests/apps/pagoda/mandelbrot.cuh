// Mandelbrot images: a window of the plane each, somewhere, some of them slow and most of them
// fast. No input; a byte a pixel comes out.
#pragma once

#include <cmath>

#include "app.h"
#include "block.cuh"

namespace pagoda {

struct Mandelbrot : KindDefaults {
  struct Args {
    Io io;
    float left, top, step;
    unsigned size;
  };
  using Output = uint8_t;
  static constexpr double kTolerance = 0;
  static constexpr unsigned kSize = 64, kQuantum = 8;  // pixels of a side
  static constexpr unsigned kLimit = 64;               // iterations

  static size_t OutBytes(unsigned size) { return size_t{size} * size; }

  static Args Arguments(const Item& item, const Io& io, const char*) {
    const float width = 2.6f * std::exp2(-6 * item.Share(1));
    const float x = -2.0f + 2.6f * item.Share(2), y = -1.2f + 2.4f * item.Share(3);
    const float step = width / static_cast<float>(item.size);
    return {io, x - width / 2, y - width / 2, step, item.size};
  }

  static __host__ __device__ unsigned Iterations(const Args& a, unsigned pixel) {
    const float x = Add(a.left, Mul(a.step, static_cast<float>(pixel % a.size)));
    const float y = Add(a.top, Mul(a.step, static_cast<float>(pixel / a.size)));
    float u = 0, v = 0;
    unsigned i = 0;
    for (; i < kLimit; ++i) {
      const float u2 = Mul(u, u), v2 = Mul(v, v);
      if (Add(u2, v2) > 4) break;
      v = Add(Mul(Add(u, u), v), y);
      u = Add(Add(u2, -v2), x);
    }
    return i;
  }

  template <class Block>
  static __device__ void Run(const Block& block, const Args& a) {
    for (unsigned p = block.thread; p < a.size * a.size; p += block.threads) {
      a.io.out[p] = static_cast<char>(Iterations(a, p));
    }
  }

  static void Reference(const Args& a) {
    for (unsigned p = 0; p < a.size * a.size; ++p) {
      a.io.out[p] = static_cast<char>(Iterations(a, p));
    }
  }
};

struct MandelbrotApp : Independent<MandelbrotApp, Mandelbrot> {
  static constexpr const char* kName = "mb";
};

}  // namespace pagoda
