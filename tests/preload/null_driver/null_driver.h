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

/// How many logged calls came so far.
uint64_t null_driver_calls();
/// The i-th logged call; only the last 4,096 are kept.
NullDriverCall null_driver_call(uint64_t i);
/// Calls that CUDA forbids while a capture is open, and event records into capturing streams.
uint64_t null_driver_capture_faults();
/// How many calls of the export `name` came (those implemented in null_driver.cpp only).
uint64_t null_driver_count(const char* name);
/// The next launches return this CUresult.
void null_driver_fail_with(int result);
/// Events complete only once this is 0 (a device that hangs); 2: those of non-blocking streams.
void null_driver_hang(int hang);
}
