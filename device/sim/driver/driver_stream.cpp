// The Driver's methods for streams and events. In a stream that is being captured, work becomes nodes of a graph and
// nothing runs; a call that CUDA forbids there invalidates the capture.
#include "base/per_thread.h"
#include "device/sim/driver/driver.h"

namespace cupola::sim {
namespace {

/// The calling thread's per-thread default streams: one for each context in which it has used such a
/// stream. When the thread ends, they are closed, and the work in them still runs to its end.
class PerThreadStreams {
 public:
  ~PerThreadStreams() {
    for (auto& [context, entry] : by_context_) entry.first->Close(*entry.second);
  }
  /// Null when the thread has none in the context yet.
  std::shared_ptr<Stream> Find(const Context& context) const {
    const auto known = by_context_.find(context.id);
    return known == by_context_.end() ? nullptr : known->second.second;
  }
  void Add(Engine& engine, std::shared_ptr<Stream> stream) {
    // A destroyed context has closed its streams. Keeping one here would keep the context alive.
    std::erase_if(by_context_, [](const auto& known) {
      return known.second.second->context->destroyed.load();
    });
    const uint64_t context = stream->context->id;
    by_context_[context] = {&engine, std::move(stream)};
  }

 private:
  /// Context::id -> the stream, and the engine that runs it.
  std::unordered_map<uint64_t, std::pair<Engine*, std::shared_ptr<Stream>>> by_context_;
};

PerThreadStreams& OwnStreams() {
  static auto* const streams = new PerThread<PerThreadStreams>;
  return streams->Get();
}

/// Removes closed streams without work from the context's list. A closed stream with work stays listed, because
/// later work in the legacy stream must still wait for it. The caller holds the Engine's mutex.
void ForgetClosed(Context& context) {
  std::erase_if(context.streams, [](const auto& stream) {
    return stream->closing && stream->completed == stream->submitted;
  });
}

}  // namespace

std::shared_ptr<Stream> Driver::CreateStream(Context& context, uint32_t flags, int priority) {
  auto stream = std::make_shared<Stream>(&context, Stream::Kind::kCreated, flags, priority);
  streams.Add(stream);
  std::lock_guard lock(engine_.mutex());
  context.streams.push_back(stream);
  return stream;
}

CUresult Driver::DestroyStream(CUstream handle) {
  std::shared_ptr<Stream> stream = streams.Take(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  engine_.Close(*stream);  // work that was submitted still runs
  {
    std::lock_guard lock(engine_.mutex());
    if (stream->capture) {
      Invalidate(*stream->capture);
      std::erase(stream->capture->members, stream);  // else capture and stream would keep each other alive
      stream->capture = nullptr;
      stream->capture_tail.clear();
    }
    ForgetClosed(*stream->context);
  }
  return CUDA_SUCCESS;
}

std::shared_ptr<Stream> Driver::Resolve(Context& context, CUstream handle,
                                        DefaultStream null_means) {
  const bool is_per_thread = handle == CU_STREAM_PER_THREAD ||
                             (handle == nullptr && null_means == DefaultStream::kPerThread);
  if (is_per_thread) {
    PerThreadStreams& known = OwnStreams();
    if (std::shared_ptr<Stream> own = known.Find(context)) return own;
    auto own = std::make_shared<Stream>(&context, Stream::Kind::kPerThread, 0, 0);
    known.Add(engine_, own);
    std::lock_guard lock(engine_.mutex());
    ForgetClosed(context);
    context.streams.push_back(own);
    return own;
  }
  if (handle == nullptr || handle == CU_STREAM_LEGACY) return context.legacy;
  return streams.Find(handle);
}

CUresult Driver::Enqueue(Stream& stream, Work work, StreamPoint* point) {
  bool is_captured = false;
  if (CUresult result = CaptureWork(stream, work, &is_captured); result != CUDA_SUCCESS) {
    return result;
  }
  if (is_captured) return CUDA_SUCCESS;
  StreamPoint place = engine_.Submit(stream, std::move(work));
  if (point != nullptr) *point = std::move(place);
  return CUDA_SUCCESS;
}

CUresult Driver::EnqueueAndWait(Stream& stream, Work work) {
  StreamPoint point;
  if (CUresult result = Enqueue(stream, std::move(work), &point); result != CUDA_SUCCESS) {
    return result;
  }
  if (point.stream == nullptr) {  // the work was captured, and a captured stream must not be waited for
    std::lock_guard lock(engine_.mutex());
    if (stream.capture) Invalidate(*stream.capture);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  {
    // See Context::launches.
    std::unique_lock launches(stream.context->launches, std::defer_lock);
    if (stream.kind == Stream::Kind::kLegacy) launches.lock();
    engine_.Wait(point);
  }
  device_->FlushPrintf();
  return stream.context->sticky();
}

void Driver::WaitAndHoldLaunches(Context& context) {
  const std::unique_lock launches(context.launches);
  engine_.WaitContext(context);
}

CUresult Driver::Synchronize(Stream& stream) {
  {
    std::lock_guard lock(engine_.mutex());
    if (stream.capture) {
      Invalidate(*stream.capture);
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
  }
  for (const StreamPoint& point : engine_.PointsOf(stream)) engine_.Wait(point);
  device_->FlushPrintf();
  return stream.context->sticky();
}

CUresult Driver::Query(Stream& stream) {
  {
    std::lock_guard lock(engine_.mutex());
    if (stream.capture) {
      Invalidate(*stream.capture);
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
  }
  if (CUresult fault = stream.context->sticky(); fault != CUDA_SUCCESS) return fault;
  for (const StreamPoint& point : engine_.PointsOf(stream)) {
    if (!engine_.IsReached(point)) return CUDA_ERROR_NOT_READY;
  }
  return stream.context->sticky();
}

CUresult Driver::Record(Stream& stream, Event& event, uint32_t flags) {
  auto shared = events.Find(&event);
  auto record = std::make_shared<EventRecord>();
  {
    std::lock_guard lock(engine_.mutex());
    // In a capture, a recording only marks a place in the graph, to which a later wait refers. With
    // the flag "external" it becomes a node, whose record is made at each launch of the graph.
    if (stream.capture && (flags & CU_EVENT_RECORD_EXTERNAL) == 0) {
      event.capture = stream.capture;
      event.captured_nodes = stream.capture_tail;
      return stream.capture->is_invalidated ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
    }
    if (!stream.capture) {
      event.capture = nullptr;
      event.record = record;
    } else {
      record = nullptr;
    }
  }
  return Enqueue(stream, EventRecordWork{std::move(shared), std::move(record)});
}

CUresult Driver::Record(Context& context, Event& event) {
  auto record = std::make_shared<EventRecord>();
  {
    std::lock_guard lock(engine_.mutex());
    bool captures = false;
    for (const auto& stream : context.streams) {
      if (!stream->capture) continue;
      Invalidate(*stream->capture);
      captures = true;
    }
    if (captures) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    event.capture = nullptr;
    event.record = record;
  }
  // The recording runs in a stream of its own, for which nothing waits.
  const auto stream =
      std::make_shared<Stream>(&context, Stream::Kind::kCreated, CU_STREAM_NON_BLOCKING, 0);
  (void)engine_.Submit(*stream, EventRecordWork{events.Find(&event), std::move(record)},
                       engine_.PointsOf(context));
  engine_.Close(*stream);
  return CUDA_SUCCESS;
}

CUresult Driver::WaitFor(Stream& stream, Event& event, uint32_t flags) {
  std::shared_ptr<EventRecord> record;
  {
    std::lock_guard lock(engine_.mutex());
    const bool is_external = (flags & CU_EVENT_WAIT_EXTERNAL) != 0;
    // The event was recorded in a capture: the stream joins that capture, behind the recorded nodes.
    if (event.capture && !is_external) {
      if (event.capture->is_over) return CUDA_ERROR_CAPTURED_EVENT;
      if (stream.kind == Stream::Kind::kLegacy) {
        Invalidate(*event.capture);
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
      }
      if (stream.capture && stream.capture != event.capture) {
        Invalidate(*stream.capture);
        Invalidate(*event.capture);
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
      }
      if (!stream.capture) {
        stream.capture = event.capture;
        stream.capture->members.push_back(stream.shared_from_this());
      }
      for (GraphNode* node : event.captured_nodes) {
        if (!Reaches(stream.capture_tail, {node})) stream.capture_tail.push_back(node);
      }
      return CUDA_SUCCESS;
    }
    if (stream.capture && !is_external) {
      Invalidate(*stream.capture);
      return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    record = event.record;
    if (!record && !stream.capture) return CUDA_SUCCESS;  // it was never recorded: there is no wait
  }
  return Enqueue(stream, EventWaitWork{events.Find(&event), std::move(record)});
}

CUresult Driver::Synchronize(Event& event) {
  std::shared_ptr<EventRecord> record;
  {
    std::lock_guard lock(engine_.mutex());
    if (event.capture) return CUDA_ERROR_CAPTURED_EVENT;
    record = event.record;
  }
  if (record) engine_.WaitRecord(*record);
  device_->FlushPrintf();
  return event.context->sticky();
}

CUresult Driver::Query(Event& event) {
  std::lock_guard lock(engine_.mutex());
  if (event.capture) return CUDA_ERROR_CAPTURED_EVENT;
  if (event.record && !event.record->done) return CUDA_ERROR_NOT_READY;
  return event.context->sticky();
}

CUresult Driver::Elapsed(Event& start, Event& end, float* milliseconds) {
  if (((start.flags | end.flags) & CU_EVENT_DISABLE_TIMING) != 0) return CUDA_ERROR_INVALID_HANDLE;
  std::lock_guard lock(engine_.mutex());
  if (!start.record || !end.record) return CUDA_ERROR_INVALID_HANDLE;
  if (!start.record->done || !end.record->done) return CUDA_ERROR_NOT_READY;
  const auto nanoseconds = static_cast<int64_t>(end.record->time_ns - start.record->time_ns);
  *milliseconds = static_cast<float>(static_cast<double>(nanoseconds) * 1e-6);
  return CUDA_SUCCESS;
}

}  // namespace cupola::sim
