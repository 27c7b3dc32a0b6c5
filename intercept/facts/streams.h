// Streams: turns every stream handle, special handle and per-thread form into (context, stream id);
// and knows which captures are open. The hooks of entry/ call the functions named On...; the launch path
// and the other parts of Cupola look streams up. Look-ups are lock-free. Any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include <cuda.h>

#include "intercept/process/event.h"

namespace cupola::intercept {

/// A stream as the records name it.
struct StreamKey {
  uint64_t context;  ///< CUcontext
  uint64_t stream;   ///< 0 = the context's legacy default stream, else unique in the process
  uint16_t flags;    ///< kFlagPerThreadStream, kFlagLegacyStream
};

/// The stream that `stream` means in a call of the given form (`per_thread`: the _ptsz form, whose
/// handle 0 is the per-thread default stream). For default streams it asks the driver for the current
/// context. Called before the stream is given work: its first call for a stream counts it (CountStream in live_streams.h), which
/// may wait.
StreamKey ResolveStream(CUstream stream, bool per_thread) noexcept;

/// The context of a stream that is no default stream; null if no hook or look-up has seen it.
CUcontext KnownContextOf(CUstream stream) noexcept;

/// A stream was made in the current context. It is counted (live_streams.h) when ResolveStream first sees it: one that is never
/// given work takes no hardware queue.
void OnStreamCreated(CUstream stream) noexcept;
/// A stream is about to be destroyed. Called before the driver's call: after it another thread may get
/// the same handle for a new stream.
void OnStreamDestroyed(CUstream stream) noexcept;
/// A context is about to end, or has ended, and with it its streams and the captures in them.
void OnContextStreamsEnded(CUcontext context) noexcept;

/// How many captures are open in the process.
extern std::atomic<uint32_t> open_captures;

/// A capture is about to begin. It counts from before the driver's call, so that no thread starts
/// anything of ours once the capture may be open. Waits while an object of NoCaptureBegins lives. The
/// hook then makes the driver's call and reports its result to OnCaptureBegun. `per_thread`: the form of
/// the call, as in ResolveStream. Where the stream is the thread's own, the thread's end ends the capture.
void OnCaptureBegins(CUstream stream, bool per_thread) noexcept;

/// While an object of this class lives no capture begins: a thread that wants to begin one waits. It
/// is for a call of some microseconds that would invalidate captures of other threads.
class NoCaptureBegins {
 public:
  NoCaptureBegins() noexcept;
  ~NoCaptureBegins();
  NoCaptureBegins(const NoCaptureBegins&) = delete;
  NoCaptureBegins& operator=(const NoCaptureBegins&) = delete;
  /// Whether a capture is open that was begun before.
  bool is_any_open() const noexcept { return open_captures.load() != 0; }
};

/// The driver's call to begin a capture has returned. If it failed, the capture counts no longer.
void OnCaptureBegun(CUstream stream, CUresult result) noexcept;
/// After cuStreamEndCapture returned, with whatever result.
void OnCaptureEnded(CUstream stream, bool per_thread, CUresult result) noexcept;

/// Whether a launch into `stream` would be captured. Asks the driver only while captures are open. False
/// if the driver answers with an error.
bool IsCapturing(CUstream stream, bool per_thread) noexcept;

/// The calling thread's current context, as the driver says; null if there is none.
CUcontext CurrentContext() noexcept;

/// A number that no other stream of the process has. Never 0.
uint64_t NewStreamId() noexcept;

/// Announced when streams end, before what is known of them is forgotten.
struct StreamEnds {
  Event<CUstream> destroyed;      ///< the stream is about to be destroyed
  Event<CUcontext> with_context;  ///< all streams of the context end with it
  Event<> with_thread;            ///< the calling thread ends, and with it its per-thread default stream
};
extern StreamEnds stream_ends;

/// In the child after a fork: forgets all streams and captures.
void ResetStreamsAfterFork() noexcept;

}  // namespace cupola::intercept
