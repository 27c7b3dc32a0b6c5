// The table of the driver's calls for a test that compiles parts of intercept/ into itself: the test sets the calls that
// these parts make. A call that is not set is a null pointer, so that a test which makes it ends there. Included by one
// source of a test.
#pragma once

#include "intercept/process/driver_calls.h"

namespace cupola::intercept {

extern "C" {
void* cupola_real[kCallCount] = {};
}

/// From now on the driver's call `call` is `function`.
template <typename Function>
void SetCall(Call call, Function* function) {
  cupola_real[static_cast<size_t>(call)] = reinterpret_cast<void*>(function);
}

}  // namespace cupola::intercept
