// Contexts of a program's own, by the driver API. Where a call fails the program ends with a word.
#pragma once

#include <cuda.h>

#include "tests/apps/support/driver_call.h"

inline CUcontext MakeContext(CUdevice device = 0) {
  static const auto create = DriverCall<decltype(&cuCtxCreate)>("cuCtxCreate", 13000);
  CUcontext context = nullptr;
  CheckDriver(create(&context, nullptr, 0, device), "cuCtxCreate");
  return context;
}

inline void SetContext(CUcontext context) {
  static const auto set = DriverCall<decltype(&cuCtxSetCurrent)>("cuCtxSetCurrent", 13000);
  CheckDriver(set(context), "cuCtxSetCurrent");
}

inline void EndContext(CUcontext context) {
  static const auto destroy = DriverCall<decltype(&cuCtxDestroy)>("cuCtxDestroy", 13000);
  CheckDriver(destroy(context), "cuCtxDestroy");
}
