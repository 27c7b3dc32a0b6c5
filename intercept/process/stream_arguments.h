// Which argument of each driver call is its stream: a table that the build makes from cudaTypedefs.h
// (entry/generate/stubs.py); and how to read an argument of a call. Read-only; any thread.
#pragma once

#include <array>
#include <cstdint>

#include "intercept/process/calls.h"

namespace cupola::intercept {

struct StreamArgument {
  int8_t at = -1;           ///< index of the argument, from 0; -1: the call has no stream
  bool per_thread = false;  ///< the _ptsz form, whose stream 0 is the per-thread default stream
};

/// Indexed by Call.
extern const std::array<StreamArgument, kCallCount> kStreamArguments;

/// Argument `at`, from 0, of a call that entry.S passes to a hook. The first six arguments were passed in
/// registers, which lie at `arguments[0]` and below. The others are on the stack, behind the saved frame
/// pointer, the call's index, its function and its return address.
inline uint64_t ArgumentAt(const uint64_t* arguments, int at) noexcept {
  constexpr int kRegisters = 6, kWordsBetween = 5;  // the word at arguments[1] is the first of them
  return at < kRegisters ? arguments[-at] : arguments[kWordsBetween + at - kRegisters];
}

}  // namespace cupola::intercept
