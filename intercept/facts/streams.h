// Streams: every handle, special handle and per-thread form becomes (context, stream id); and which
// captures are open. Look-ups are lock-free; thread-safe.
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

/// What `stream` means in a call of the given form (`per_thread`: the _ptsz form, whose handle 0 is
/// the per-thread default stream). For default streams it asks the driver for the current context.
StreamKey ResolveStream(CUstream stream, bool per_thread) noexcept;

/// The context of a stream that is no default stream; null where no hook or look-up has seen it.
CUcontext KnownContextOf(CUstream stream) noexcept;

/// A stream was made in the current context, and counted (live_streams.h).
void NoteStreamCreated(CUstream stream) noexcept;
/// A stream is about to be destroyed.
void NoteStreamDestroyed(CUstream stream) noexcept;
/// A context is about to end, or has: with it end its streams, and captures in them.
void NoteStreamsEnded(CUcontext context) noexcept;

/// How many captures are open in the process.
extern std::atomic<uint32_t> open_captures;

/// A capture is about to begin; then, what came of it. Counted from before the call, so
/// that no thread starts anything of ours once the capture may be open.
void NoteCaptureBegins() noexcept;

/// While one lives no capture begins: who wants to begin one waits. For a call that would end
/// captures of other threads, and takes some us.
class NoCaptureBegins {
 public:
  NoCaptureBegins() noexcept;
  ~NoCaptureBegins();
  NoCaptureBegins(const NoCaptureBegins&) = delete;
  NoCaptureBegins& operator=(const NoCaptureBegins&) = delete;
  /// One was begun before.
  bool is_any_open() const noexcept { return open_captures.load() != 0; }
};

void NoteCaptureBegun(CUstream stream, CUresult result) noexcept;
/// After cuStreamEndCapture returned, with whatever result.
void NoteCaptureEnded(CUstream stream, bool per_thread, CUresult result) noexcept;

/// Whether a launch into `stream` would be captured. Asks the driver only while captures are open.
bool IsCapturing(CUstream stream, bool per_thread) noexcept;

/// The calling thread's current context, by the driver; null if none.
CUcontext CurrentContext() noexcept;

/// A number that no other stream of the process has. Never 0.
uint64_t NewStreamId() noexcept;

/// What is told of streams before it is forgotten. A stream is about to be destroyed; all of a context's end, with it;
/// the calling thread ends, and with it the default stream that it had.
struct StreamEnds {
  Event<CUstream> destroyed;
  Event<CUcontext> with_context;
  Event<> with_thread;
};
extern StreamEnds stream_ends;

void ResetStreamsAfterFork() noexcept;

}  // namespace cupola::intercept
