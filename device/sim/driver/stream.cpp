#include "device/sim/driver/stream.h"

#include <pthread.h>
#include <signal.h>

#include "device/sim/driver/context.h"

namespace cupola::sim {
namespace {

std::atomic<uint64_t> next_stream_id{1};

}  // namespace

Stream::Stream(Context* owner, Kind stream_kind, uint32_t stream_flags, int stream_priority)
    : context(owner),
      keeps_context(stream_kind == Kind::kLegacy ? nullptr : owner->weak_from_this().lock()),
      kind(stream_kind),
      flags(stream_flags),
      priority(stream_priority),
      id(next_stream_id.fetch_add(1)) {}

StreamPoint Engine::Submit(Stream& stream, Work work, std::vector<StreamPoint> after) {
  std::unique_lock lock(mutex_);
  // CUDA driver API, "Stream synchronization behavior": work in the legacy stream waits for all
  // blocking streams, and work in a blocking stream waits for the legacy stream.
  if (stream.kind == Stream::Kind::kLegacy) {
    for (const auto& other : stream.context->streams) {
      if (other->blocking() && other->completed < other->submitted) {
        after.push_back({other, other->submitted});
      }
    }
  } else if (stream.blocking()) {
    const auto& legacy = stream.context->legacy;
    if (legacy->completed < legacy->submitted) after.push_back({legacy, legacy->submitted});
  }
  const uint64_t ticket = ++stream.submitted;
  stream.queue.push_back({std::move(work), ticket, std::move(after)});
  if (!stream.has_thread) StartThread(stream);
  changed_.notify_all();
  return {stream.shared_from_this(), ticket};
}

void Engine::StartThread(Stream& stream) {
  stream.has_thread = true;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([this, self = stream.shared_from_this()] { RunStream(self); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Engine::RunStream(std::shared_ptr<Stream> stream) {
  const std::shared_ptr<Context> context = stream->context->weak_from_this().lock();  // alive while the thread runs
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return !stream->queue.empty() || stream->closing; });
    if (stream->queue.empty()) break;
    StreamEntry entry = std::move(stream->queue.front());
    stream->queue.pop_front();
    for (const StreamPoint& point : entry.after) {
      changed_.wait(lock, [&] { return point.stream->completed >= point.ticket; });
    }
    lock.unlock();
    Run(*stream->context, entry.work);
    entry.work = EmptyWork{};  // releases a module or staged bytes before anybody sees the completion
    entry.after.clear();
    lock.lock();
    stream->completed = entry.ticket;
    changed_.notify_all();
  }
  stream->has_thread = false;
}

void Engine::Wait(const StreamPoint& point) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return point.stream->completed >= point.ticket; });
}

bool Engine::IsReached(const StreamPoint& point) {
  std::unique_lock lock(mutex_);
  return point.stream->completed >= point.ticket;
}

void Engine::WaitRecord(const EventRecord& record) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return record.done; });
}

bool Engine::IsDone(const EventRecord& record) {
  std::unique_lock lock(mutex_);
  return record.done;
}

void Engine::MarkDone(EventRecord& record) {
  std::unique_lock lock(mutex_);
  record.time_ns = device_->NowNs();
  record.done = true;
  changed_.notify_all();
}

std::vector<StreamPoint> Engine::PointsOf(Stream& stream) {
  std::unique_lock lock(mutex_);
  std::vector<StreamPoint> points{{stream.shared_from_this(), stream.submitted}};
  if (stream.kind == Stream::Kind::kLegacy) {
    for (const auto& other : stream.context->streams) {
      if (other->blocking()) points.push_back({other, other->submitted});
    }
  }
  return points;
}

std::vector<StreamPoint> Engine::PointsOf(Context& context) {
  std::unique_lock lock(mutex_);
  std::vector<StreamPoint> points{{context.legacy, context.legacy->submitted}};
  for (const auto& stream : context.streams) points.push_back({stream, stream->submitted});
  return points;
}

void Engine::WaitContext(Context& context) {
  for (const StreamPoint& point : PointsOf(context)) Wait(point);
}

void Engine::Close(Stream& stream) {
  std::unique_lock lock(mutex_);
  stream.closing = true;
  changed_.notify_all();
}

}  // namespace cupola::sim
