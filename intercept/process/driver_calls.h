// How Cupola calls the driver itself, past every hook, with the types of the calls. Any thread;
// calls/calls.def says what each call may do to the calling thread.
#pragma once

#include <cstdint>

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

// Three calls that put something into a stream and do not wait, past every hook. `per_thread`: in the _ptsz form, in which
// stream 0 is the calling thread's default stream. They return what the driver returns.

/// The stream waits until `*word - value`, as a signed number, is not negative.
inline CUresult StreamWaitsForWord(CUstream stream, bool per_thread, CUdeviceptr word, uint32_t value) noexcept {
  const auto wait = Real<PFN_cuStreamWaitValue32_v11070>(per_thread ? Call::k_cuStreamWaitValue32_v2_ptsz
                                                                    : Call::k_cuStreamWaitValue32_v2);
  return wait(stream, word, value, CU_STREAM_WAIT_VALUE_GEQ);
}

/// The stream writes `value` to `*word`, behind what it has done before.
inline CUresult StreamWritesWord(CUstream stream, bool per_thread, CUdeviceptr word, uint32_t value) noexcept {
  const auto write = Real<PFN_cuStreamWriteValue32_v11070>(per_thread ? Call::k_cuStreamWriteValue32_v2_ptsz
                                                                      : Call::k_cuStreamWriteValue32_v2);
  return write(stream, word, value, 0);
}

inline CUresult StreamRecordsEvent(CUstream stream, bool per_thread, CUevent event) noexcept {
  const auto record = Real<PFN_cuEventRecord_v2000>(per_thread ? Call::k_cuEventRecord_ptsz : Call::k_cuEventRecord);
  return record(event, stream);
}

}  // namespace cupola::intercept
