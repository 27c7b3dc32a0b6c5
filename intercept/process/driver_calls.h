// How Cupola calls the driver itself, past every hook, with the types of the calls. Any thread;
// calls/calls.def says what each call may do to the calling thread.
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>

#include "intercept/process/calls.h"

namespace cupola::intercept {

/// The driver's function of that name. Use: CUPOLA_CALL_REAL(cuMemAlloc_v2, PFN_cuMemAlloc_v3020)(&address, bytes)
#define CUPOLA_CALL_REAL(name, Type) \
  (::cupola::intercept::Real<Type>(::cupola::intercept::Call::k_##name))

/// cuThreadExchangeStreamCaptureMode of the real driver.
inline void ExchangeCaptureMode(CUstreamCaptureMode* mode) noexcept {
  CUPOLA_CALL_REAL(cuThreadExchangeStreamCaptureMode, PFN_cuThreadExchangeStreamCaptureMode_v10010)(mode);
}

/// While it lives, the calling thread may make calls that a capture of another thread would forbid (P12).
class RelaxedCapture {
 public:
  RelaxedCapture() noexcept { ExchangeCaptureMode(&mode_); }
  ~RelaxedCapture() { ExchangeCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

/// cuStreamQuery of a handle that is not 0, past every hook, also while other threads capture. Returns
/// whether all work of the stream is over, or the error of its context. Does not wait.
inline CUresult AskStream(CUstream stream) noexcept {
  const RelaxedCapture relaxed;
  return CUPOLA_CALL_REAL(cuStreamQuery, PFN_cuStreamQuery_v2000)(stream);
}

}  // namespace cupola::intercept
