#include "intercept/facts/streams.h"

#include <cudaTypedefs.h>
#include <pthread.h>

#include <utility>

#include "intercept/facts/live_streams.h"
#include "intercept/process/calls.h"
#include "intercept/process/handle_map.h"
#include "intercept/process/mutex_lock.h"
#include "intercept/process/participation.h"
#include "intercept/process/patient_wait.h"
#include "intercept/process/thread_state.h"
#include "profiles/launch_record.h"

namespace cupola::intercept {

std::atomic<uint32_t> open_captures{0};
StreamEnds stream_ends;

namespace {

// Two maps with the same keys, since a value is one word. The id is set last and looked up first.
// A stream counts as a live stream (live_streams.h) from its first look-up on; until then its id has kUnused.
HandleMap stream_ids;
constexpr uint64_t kUnused = uint64_t{1} << 63;
pthread_mutex_t first_use_mutex = PTHREAD_MUTEX_INITIALIZER;  // held while a stream's first use is counted
HandleMap stream_contexts;
std::atomic<uint32_t> captures_forbidden{0};  // number of NoCaptureBegins objects that live now
std::atomic<uint64_t> next_stream_id{1};
// Streams in which a capture was begun: CaptureKey of the stream -> CUcontext.
HandleMap capturing;
constexpr uint64_t kNotCapturing = UINT64_MAX;

// The legacy stream cannot be captured, so a default stream here is the per-thread default stream
// of this thread, and stands under the address of the thread's state.
const void* CaptureKey(CUstream stream) {
  return reinterpret_cast<uintptr_t>(stream) > 2 ? static_cast<const void*>(stream) : &this_thread;
}

// A capture in the stream that has this CaptureKey, if there is one, is not open any more.
void ForgetCapture(const void* key) {
  if (capturing.Erase(key)) open_captures.fetch_sub(1, std::memory_order_relaxed);
}

// Runs when a thread ends that used its per-thread default stream; the driver then ends the stream, and a
// capture in it. If a destructor that runs later uses the stream again, it is counted again.
void EndPerThreadStream(void*) {
  stream_ends.with_thread.Announce();
  ForgetCapture(&this_thread);
  if (std::exchange(this_thread.per_thread_stream, 0) != 0) UncountStream();
}

// If no thread key can be made, the stream counts for good.
uint64_t MakePerThreadStream() {
  static const pthread_key_t key = [] {
    pthread_key_t made = 0;
    return pthread_key_create(&made, &EndPerThreadStream) == 0 ? made : ~pthread_key_t{0};
  }();
  this_thread.per_thread_stream = NewStreamId();
  CountStream();
  pthread_setspecific(key, &this_thread);
  return this_thread.per_thread_stream;
}

// The driver makes a per-thread default stream at its first use. Here one id stands for those of
// all contexts of the thread.
uint64_t PerThreadStream() {
  const uint64_t known = this_thread.per_thread_stream;
  return known != 0 ? known : MakePerThreadStream();
}

// Whether it is the calling thread's default stream: handle 1 is always the legacy stream, 2 always the
// per-thread one, 0 depends on the form.
bool IsThreadsOwn(CUstream stream, bool per_thread) {
  const auto value = reinterpret_cast<uintptr_t>(stream);
  return value == 2 || (value == 0 && per_thread);
}

// Adds a stream, which is counted already unless `id` has kUnused. If the handle was known, an earlier stream of that handle
// ended unseen, and its count is taken back.
void AddStream(CUstream stream, CUcontext context, uint64_t id) {
  const uint64_t known = stream_ids.Find(stream, id);
  stream_contexts.Set(stream, reinterpret_cast<uint64_t>(context));
  if (!stream_ids.Set(stream, id) && (known & kUnused) == 0) UncountStream();
}

void EraseStream(const void* stream) {
  const uint64_t known = stream_ids.Find(stream, kUnused);
  if (stream_ids.Erase(stream) && (known & kUnused) == 0) UncountStream();
}

// Counts a stream at its first use. Another thread may use it for the first time too: it waits until the stream is counted.
uint64_t CountFirstUse(CUstream stream) {
  const MutexLock lock(first_use_mutex);
  const uint64_t id = stream_ids.Find(stream, 0);
  if ((id & kUnused) == 0) return id;
  CountStream();
  stream_ids.Set(stream, id & ~kUnused);
  return id & ~kUnused;
}

// Adds a stream that no hook saw being made: it was made through an export table, or before Cupola
// came into the process. If two threads do this for one stream at the same time, the id that is set
// last stays, and AddStream takes one of the two counts back.
StreamKey FirstSight(CUstream stream, bool per_thread) {
  CUcontext context = nullptr;
  const auto get_context = Real<PFN_cuStreamGetCtx_v9020>(
      per_thread ? Call::k_cuStreamGetCtx_ptsz : Call::k_cuStreamGetCtx);
  if (get_context(stream, &context) != CUDA_SUCCESS) context = CurrentContext();
  CountStream();
  const uint64_t id = NewStreamId();
  AddStream(stream, context, id);
  return {reinterpret_cast<uint64_t>(context), id, 0};
}

// The caller read `epoch` before the look-up, so what is found is at least as new as `epoch`.
StreamKey LookUp(CUstream stream, bool per_thread, uint64_t epoch) {
  uint64_t id = stream_ids.Find(stream, 0);
  if (id == 0) [[unlikely]] return FirstSight(stream, per_thread);
  if ((id & kUnused) != 0) [[unlikely]] id = CountFirstUse(stream);
  const StreamKey key = {stream_contexts.Find(stream, 0), id, 0};
  this_thread.stream = stream;
  this_thread.stream_blocking = ThreadState::Blocking::kNotAsked;
  this_thread.stream_epoch = epoch;
  this_thread.stream_context = key.context;
  this_thread.stream_id = key.stream;
  return key;
}

}  // namespace

uint64_t NewStreamId() noexcept { return next_stream_id.fetch_add(1, std::memory_order_relaxed); }

CUcontext CurrentContext() noexcept {
  CUcontext context = nullptr;
  const auto get_current = Real<PFN_cuCtxGetCurrent_v4000>(Call::k_cuCtxGetCurrent);
  return get_current(&context) == CUDA_SUCCESS ? context : nullptr;
}

StreamKey ResolveStream(CUstream stream, bool per_thread) noexcept {
  const auto value = reinterpret_cast<uintptr_t>(stream);
  if (value > 2) [[likely]] {
    const uint64_t epoch = launch_epoch.load(std::memory_order_acquire);
    if (this_thread.stream == stream && this_thread.stream_epoch == epoch) [[likely]] {
      return {this_thread.stream_context, this_thread.stream_id, 0};
    }
    return LookUp(stream, per_thread, epoch);
  }
  const auto context = reinterpret_cast<uint64_t>(CurrentContext());
  if (IsThreadsOwn(stream, per_thread)) {
    return {context, PerThreadStream(), kFlagPerThreadStream};
  }
  return {context, 0, kFlagLegacyStream};
}

CUcontext KnownContextOf(CUstream stream) noexcept {
  if (reinterpret_cast<uintptr_t>(stream) <= 2) return nullptr;
  return reinterpret_cast<CUcontext>(stream_contexts.Find(stream, 0));
}

void OnStreamCreated(CUstream stream) noexcept {
  AddStream(stream, CurrentContext(), NewStreamId() | kUnused);
  RaiseLaunchEpoch();
}

void OnStreamDestroyed(CUstream stream) noexcept {
  stream_ends.destroyed.Announce(stream);
  EraseStream(stream);
  stream_contexts.Erase(stream);
  RaiseLaunchEpoch();
  ForgetCapture(stream);
}

void OnContextStreamsEnded(CUcontext context) noexcept {
  if (context == nullptr) return;
  stream_ends.with_context.Announce(context);
  const auto ended = reinterpret_cast<uint64_t>(context);
  stream_contexts.EraseIf([ended](const void* stream, uint64_t its) {
    if (its != ended) return false;
    EraseStream(stream);
    return true;
  });
  RaiseLaunchEpoch();
  capturing.EraseIf([ended](const void*, uint64_t its) {
    if (its == ended) open_captures.fetch_sub(1, std::memory_order_relaxed);
    return its == ended;
  });
}

// The capture is counted before `captures_forbidden` is read, and NoCaptureBegins counts itself
// before it reads open_captures (both sequentially consistent): whichever comes second sees the
// other.
void OnCaptureBegins(CUstream stream, bool per_thread) noexcept {
  // The stream is counted from here on, and its thread's end ends the capture (EndPerThreadStream).
  if (IsThreadsOwn(stream, per_thread)) (void)PerThreadStream();
  open_captures.fetch_add(1);
  RaiseLaunchEpoch();
  for (PatientWait wait; captures_forbidden.load() != 0;) wait.Pause();
}

NoCaptureBegins::NoCaptureBegins() noexcept { captures_forbidden.fetch_add(1); }
NoCaptureBegins::~NoCaptureBegins() { captures_forbidden.fetch_sub(1); }

void OnCaptureBegun(CUstream stream, CUresult result) noexcept {
  if (result == CUDA_SUCCESS) {
    const CUcontext known = KnownContextOf(stream);
    const CUcontext context = known != nullptr ? known : CurrentContext();
    capturing.Set(CaptureKey(stream), reinterpret_cast<uint64_t>(context));
  } else {
    open_captures.fetch_sub(1);
  }
}

void OnCaptureEnded(CUstream stream, bool per_thread, CUresult result) noexcept {
  const void* key = CaptureKey(stream);
  if (capturing.Find(key, kNotCapturing) == kNotCapturing) return;
  // A call that failed may have ended the capture (invalidated, unjoined) or not (wrong thread or
  // stream).
  if (result != CUDA_SUCCESS && IsCapturing(stream, per_thread)) return;
  ForgetCapture(key);
}

bool IsCapturing(CUstream stream, bool per_thread) noexcept {
  if (open_captures.load(std::memory_order_relaxed) == 0) [[likely]] return false;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const auto is_capturing = Real<PFN_cuStreamIsCapturing_v10000>(
      per_thread ? Call::k_cuStreamIsCapturing_ptsz : Call::k_cuStreamIsCapturing);
  // An error (the legacy stream while a blocking stream captures) leaves the status unspecified.
  return is_capturing(stream, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

void ResetStreamsAfterFork() noexcept {
  first_use_mutex = PTHREAD_MUTEX_INITIALIZER;
  stream_ids.ResetAfterFork();
  stream_contexts.ResetAfterFork();
  RaiseLaunchEpoch();
  capturing.ResetAfterFork();
  open_captures.store(0, std::memory_order_relaxed);
  captures_forbidden.store(0, std::memory_order_relaxed);
}

}  // namespace cupola::intercept
