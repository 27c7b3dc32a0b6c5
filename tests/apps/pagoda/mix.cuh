// Several applications at once, as the paper's multi-programmed benchmark has them: packets,
// images, signals and matrices by turns.
#pragma once

#include "filter_bank.cuh"
#include "mandelbrot.cuh"
#include "matrix_mul.cuh"
#include "triple_des.cuh"

namespace pagoda {

struct MixApp : Independent<MixApp, TripleDes, Mandelbrot, FilterBank, SharedMatrixMul> {
  static constexpr const char* kName = "mpe";
};

}  // namespace pagoda
