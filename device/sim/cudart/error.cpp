// The names and texts of errors, and the function that the stubs of missing calls run.
#include <atomic>
#include <cstring>

#include "base/standard_error.h"
#include "device/sim/cudart/runtime.h"

namespace {

struct NamedError {
  int code;
  const char* name;
};

constexpr NamedError kErrors[] = {
#define CUPOLA_CUDART_ERROR(code, name) {code, #name},
#include "device/sim/cudart/errors.inc"  // generated from driver_types.h
#undef CUPOLA_CUDART_ERROR
};

}  // namespace

extern "C" const char* cudaGetErrorName(cudaError_t error) {
  for (const NamedError& known : kErrors) {
    if (known.code == error) return known.name;
  }
  return "unrecognized error code";
}

// Returns the driver's text, because both APIs have the same text for a code.
extern "C" const char* cudaGetErrorString(cudaError_t error) {
  const cupola::cudart::DriverCalls* calls = nullptr;
  const cudaError_t state = cupola::cudart::EnterDriver(&calls);
  const char* text = nullptr;
  if (state == cudaSuccess &&
      calls->cuGetErrorString(static_cast<CUresult>(error), &text) == CUDA_SUCCESS) {
    return text;
  }
  if (error == cudaErrorInsufficientDriver) {
    return "CUDA driver version is insufficient for CUDA runtime version";
  }
  return cudaGetErrorName(error);
}

// Called by the generated stubs (stubs.c). `said` is a flag of the stub, so that each call is
// reported once.
extern "C" __attribute__((visibility("hidden"))) int cupola_cudart_missing(const char* name,
                                                                           int* said) {
  if (__atomic_exchange_n(said, 1, __ATOMIC_RELAXED) == 0) {
    static constexpr char kBefore[] = "cupola: the simulated device's CUDA runtime lacks ";
    char line[256];
    const size_t length = strnlen(name, sizeof(line) - sizeof(kBefore) - 1);
    std::memcpy(line, kBefore, sizeof(kBefore) - 1);
    std::memcpy(line + sizeof(kBefore) - 1, name, length);
    line[sizeof(kBefore) - 1 + length] = '\n';
    cupola::WriteToStandardError(line, sizeof(kBefore) + length);
  }
  return cupola::cudart::Leave(cudaErrorNotSupported);
}
