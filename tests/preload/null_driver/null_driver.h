// The null driver: a libcuda.so.1 without a device. Every call succeeds at once; launches and graph
// launches are logged as they arrived. Test programs reach the functions below by dlsym on the
// driver's handle. Thread-safe.
#pragma once

#include <cstdint>

extern "C" {

/// One call that put work on a stream: name of the export, and its arguments as integers.
struct NullDriverCall {
  char name[56];
  uint64_t arguments[11];
};

/// How many calls were logged so far.
uint64_t null_driver_calls();
/// The i-th logged call; only the last 4,096 are kept.
NullDriverCall null_driver_call(uint64_t i);
/// Number of calls that CUDA forbids while a capture is open, and of event records into capturing
/// streams.
uint64_t null_driver_capture_faults();
/// How many calls of the export `name` came (those implemented in null_driver.cpp only).
uint64_t null_driver_count(const char* name);
/// Has the next launches return this CUresult.
void null_driver_fail_with(int result);
/// Makes the device hang until this is set to 0: with 1 no event completes, with 2 none that was
/// recorded into a non-blocking stream.
void null_driver_hang(int hang);
}
