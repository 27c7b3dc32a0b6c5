// Where a driver call's stream is among its arguments: a table that the build makes from
// cudaTypedefs.h (generate/stubs.py); and how the arguments of a call are found. Pure data.
#pragma once

#include <array>
#include <cstdint>

#include "intercept/process/calls.h"

namespace cupola::intercept {

struct StreamArgument {
  int8_t at = -1;           ///< -1: nowhere
  bool per_thread = false;  ///< the _ptsz form, whose stream 0 is the thread's own
};

/// By call (kCallNames).
extern const std::array<StreamArgument, kCallCount> kStreamArguments;

/// Argument `at`, from 0, of a call that is looked at (entry.S): the first six were passed in registers,
/// which lie at `arguments[0]` and below; the others on the stack, behind the saved frame pointer, the
/// call's index, its function and its return address.
inline uint64_t ArgumentAt(const uint64_t* arguments, int at) noexcept {
  constexpr int kRegisters = 6, kWordsBetween = 5;  // the word at arguments[1] is the first of them
  return at < kRegisters ? arguments[-at] : arguments[kWordsBetween + at - kRegisters];
}

}  // namespace cupola::intercept
