// Images of bytes filtered by 5 x 5 whole numbers; pixels beyond the edge are those of the edge.
#pragma once

#include "app.h"
#include "block.cuh"

namespace pagoda {

struct Convolution : KindDefaults {
  struct Args {
    Io io;
    const int* taps;  // [row][column]; their sum is 256
    unsigned size;
  };
  using Output = uint8_t;
  static constexpr double kTolerance = 0;
  static constexpr unsigned kSize = 128, kQuantum = 16;  // pixels of a side
  static constexpr int kRadius = 2;
  static constexpr size_t kTableBytes = (2 * kRadius + 1) * (2 * kRadius + 1) * sizeof(int);

  static size_t InBytes(unsigned size) { return size_t{size} * size; }
  static size_t OutBytes(unsigned size) { return size_t{size} * size; }

  /// A binomial blur.
  static void FillTable(char* table) {
    constexpr int kRow[] = {1, 4, 6, 4, 1};
    auto* taps = reinterpret_cast<int*>(table);
    for (const int y : kRow) {
      for (const int x : kRow) *taps++ = x * y;
    }
  }

  static void FillInput(const Item& item, char* in) {
    for (unsigned i = 0; i < item.size * item.size; i += 4) {
      const uint32_t pixels = item.Random(i);
      std::memcpy(in + i, &pixels, 4);
    }
  }

  static Args Arguments(const Item& item, const Io& io, const char* table) {
    return {io, reinterpret_cast<const int*>(table), item.size};
  }

  template <class Block>
  static __device__ void Run(const Block& block, const Args& a) {
    for (unsigned p = block.thread; p < a.size * a.size; p += block.threads) {
      a.io.out[p] = static_cast<char>(PixelAt(a, p % a.size, p / a.size));
    }
  }

  static void Reference(const Args& a) {
    for (unsigned y = 0; y < a.size; ++y) {
      for (unsigned x = 0; x < a.size; ++x) {
        a.io.out[y * a.size + x] = static_cast<char>(PixelAt(a, x, y));
      }
    }
  }

 private:
  static __host__ __device__ int Inside(int at, int size) {
    return at < 0 ? 0 : at < size ? at : size - 1;
  }

  static __host__ __device__ int PixelAt(const Args& a, unsigned x, unsigned y) {
    const auto* const pixels = reinterpret_cast<const unsigned char*>(a.io.in);
    const int size = static_cast<int>(a.size);
    const int* taps = a.taps;
    int sum = 0;
    for (int dy = -kRadius; dy <= kRadius; ++dy) {
      const unsigned char* const row = pixels + Inside(static_cast<int>(y) + dy, size) * size;
      for (int dx = -kRadius; dx <= kRadius; ++dx) {
        sum += *taps++ * row[Inside(static_cast<int>(x) + dx, size)];
      }
    }
    return sum >> 8;
  }
};

struct ConvolutionApp : Independent<ConvolutionApp, Convolution> {
  static constexpr const char* kName = "conv";
};

}  // namespace pagoda
