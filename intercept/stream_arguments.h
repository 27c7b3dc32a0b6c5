// Where a driver call's stream is among its register arguments: a table that the build makes from
// cudaTypedefs.h (generate/stubs.py). Pure data.
#pragma once

#include <array>
#include <cstdint>

#include "intercept/calls.h"

namespace cupola::intercept {

struct StreamArgument {
  int8_t at = -1;           ///< -1: nowhere
  bool per_thread = false;  ///< the _ptsz form, whose stream 0 is the thread's own
};

/// By call (kCallNames).
extern const std::array<StreamArgument, kCallCount> kStreamArguments;

}  // namespace cupola::intercept
