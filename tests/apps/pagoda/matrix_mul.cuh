// Products of small square matrices. With shared memory by tiles: eight results a thread, of rows
// that are threads / 32 apart; without, one result at a time.
#pragma once

#include "app.h"
#include "block.cuh"

namespace pagoda {

struct MatrixMulShape : KindDefaults {
  struct Args {
    Io io;  // one matrix behind the other comes in, rows first
    unsigned size;
  };
  using Output = float;
  static constexpr double kTolerance = 1e-4;
  static constexpr unsigned kSize = 64, kQuantum = 8;

  static size_t InBytes(unsigned size) { return 2 * size_t{size} * size * sizeof(float); }
  static size_t OutBytes(unsigned size) { return size_t{size} * size * sizeof(float); }

  static void FillInput(const Item& item, char* in) {
    auto* const values = reinterpret_cast<float*>(in);
    for (unsigned i = 0; i < 2 * item.size * item.size; ++i) values[i] = item.Share(i) - 0.5f;
  }

  static Args Arguments(const Item& item, const Io& io, const char*) { return {io, item.size}; }

  static void Reference(const Args& a) {
    const auto* const left = reinterpret_cast<const float*>(a.io.in);
    const float* const right = left + a.size * a.size;
    auto* const out = reinterpret_cast<float*>(a.io.out);
    for (unsigned row = 0; row < a.size; ++row) {
      float* const sums = out + row * a.size;
      std::memset(sums, 0, a.size * sizeof(float));
      for (unsigned k = 0; k < a.size; ++k) {
        const float factor = left[row * a.size + k];
        for (unsigned column = 0; column < a.size; ++column) {
          sums[column] += factor * right[k * a.size + column];
        }
      }
    }
  }
};

struct SharedMatrixMul : MatrixMulShape {
  static constexpr bool kBarrier = true;
  static constexpr unsigned kDepth = 16, kWidth = 32, kRows = 8;  // of a tile; results of a thread

  static unsigned SharedBytes(unsigned threads, unsigned) {
    return (threads / 32 * kRows + kWidth) * kDepth * sizeof(float);
  }

  template <class Block>
  static __device__ void Run(const Block& block, const Args& a) {
    const unsigned height = block.threads / 32 * kRows;
    for (unsigned row = 0; row < a.size; row += height) {
      for (unsigned column = 0; column < a.size; column += kWidth) {
        RunTile(block, a, row, column, height);
      }
    }
  }

 private:
  template <class Block>
  static __device__ void RunTile(const Block& block, const Args& a, unsigned row, unsigned column,
                                 unsigned height) {
    const unsigned n = a.size, lane = block.thread % 32, warp = block.thread / 32;
    const unsigned warps = block.threads / 32;
    const auto* const left = reinterpret_cast<const float*>(a.io.in);
    const float* const right = left + n * n;
    auto* const left_tile = reinterpret_cast<float*>(block.shared);  // [height][kDepth]
    float* const right_tile = left_tile + height * kDepth;           // [kDepth][kWidth]
    float sums[kRows] = {};
    for (unsigned k = 0; k < n; k += kDepth) {
      for (unsigned i = block.thread; i < height * kDepth; i += block.threads) {
        const unsigned y = row + i / kDepth, x = k + i % kDepth;
        left_tile[i] = y < n && x < n ? left[y * n + x] : 0;
      }
      for (unsigned i = block.thread; i < kDepth * kWidth; i += block.threads) {
        const unsigned y = k + i / kWidth, x = column + i % kWidth;
        right_tile[i] = y < n && x < n ? right[y * n + x] : 0;
      }
      block.sync();
#pragma unroll 4
      for (unsigned j = 0; j < kDepth; ++j) {
        const float factor = right_tile[j * kWidth + lane];
#pragma unroll
        for (unsigned i = 0; i < kRows; ++i) {
          sums[i] = Fma(left_tile[(warp + warps * i) * kDepth + j], factor, sums[i]);
        }
      }
      block.sync();
    }
    auto* const out = reinterpret_cast<float*>(a.io.out);
#pragma unroll
    for (unsigned i = 0; i < kRows; ++i) {
      const unsigned y = row + warp + warps * i, x = column + lane;
      if (y < n && x < n) out[y * n + x] = sums[i];
    }
  }
};

struct PlainMatrixMul : MatrixMulShape {
  template <class Block>
  static __device__ void Run(const Block& block, const Args& a) {
    const auto* const left = reinterpret_cast<const float*>(a.io.in);
    const float* const right = left + a.size * a.size;
    auto* const out = reinterpret_cast<float*>(a.io.out);
    for (unsigned i = block.thread; i < a.size * a.size; i += block.threads) {
      const float* const row = left + i / a.size * a.size;
      const float* const column = right + i % a.size;
      float sum = 0;
      for (unsigned k = 0; k < a.size; ++k) sum = Fma(row[k], column[k * a.size], sum);
      out[i] = sum;
    }
  }
};

struct MatrixMulApp : Independent<MatrixMulApp, SharedMatrixMul, PlainMatrixMul> {
  static constexpr const char* kName = "mm";
  static unsigned KindOf(const Config& config, unsigned) { return config.shared ? 0 : 1; }
};

}  // namespace pagoda
