// Streams and events of the simulated device. A stream is a queue of work with a thread of its own
// that runs it in order; order between streams is a set of points {stream, ticket} that an entry
// waits for. All state here is guarded by the one mutex of the Engine.
#pragma once

#include <cuda.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "device/sim/driver/work.h"

namespace cupola::sim {

class Context;
class Engine;
class Stream;
struct Capture;
struct GraphNode;

/// A place in a stream's order: reached when `completed` of the stream is >= ticket.
struct StreamPoint {
  std::shared_ptr<Stream> stream;
  uint64_t ticket = 0;
};

/// One recording of an event. A wait takes the recording that is current when it is asked for.
struct EventRecord {
  bool done = false;     ///< guarded by the engine's mutex
  uint64_t time_ns = 0;  ///< of the device's clock; valid once done
};

class Event {
 public:
  Event(Context* owner, uint32_t event_flags) : context(owner), flags(event_flags) {}
  Context* const context;
  const uint32_t flags;  ///< CU_EVENT_*
  // Guarded by the engine's mutex:
  std::shared_ptr<EventRecord> record;       ///< null until first recorded
  std::shared_ptr<Capture> capture;          ///< set while the last record was a captured one
  std::vector<GraphNode*> captured_nodes;
};

/// One entry of a queue.
struct StreamEntry {
  Work work;
  uint64_t ticket = 0;
  std::vector<StreamPoint> after;
};

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  enum class Kind : uint8_t { kCreated, kLegacy, kPerThread };

  Stream(Context* context, Kind kind, uint32_t flags, int priority);

  Context* const context;
  const std::shared_ptr<Context> keeps_context;  ///< null for the legacy stream, which the context owns
  const Kind kind;
  const uint32_t flags;  ///< CU_STREAM_NON_BLOCKING or 0
  const int priority;
  const uint64_t id;     ///< unique in the process

  /// Whether it is ordered with the legacy default stream.
  bool blocking() const { return (flags & CU_STREAM_NON_BLOCKING) == 0; }

  // Guarded by the engine's mutex:
  std::deque<StreamEntry> queue;
  uint64_t submitted = 0;
  uint64_t completed = 0;
  bool has_thread = false;
  bool closing = false;  ///< the thread ends when the queue is empty
  std::shared_ptr<Capture> capture;
  std::vector<GraphNode*> capture_tail;  ///< what the next captured node depends on
};

/// Runs streams. Owned by the Driver and never destroyed in a program (its threads may be anywhere
/// at exit); a test that makes one must call Drain on every stream first.
class Engine {
 public:
  /// Copies and fills pass the device's gate, as its kernels do.
  explicit Engine(Device* device) : device_(device), gate_(device->config().gate) {}

  std::mutex& mutex() { return mutex_; }

  /// Appends work and returns its place. The rules of the legacy default stream are applied here.
  /// `after` holds further points to wait for. Returns at once; errors show in the context.
  StreamPoint Submit(Stream& stream, Work work, std::vector<StreamPoint> after = {});

  /// Blocks until the point is reached.
  void Wait(const StreamPoint& point);
  bool IsReached(const StreamPoint& point);
  void WaitRecord(const EventRecord& record);
  bool IsDone(const EventRecord& record);

  /// Blocks until everything submitted so far to the context's streams has ended.
  void WaitContext(Context& context);
  /// What has been submitted so far to the context's streams.
  std::vector<StreamPoint> PointsOf(Context& context);
  /// What a synchronisation of `stream` waits for: its own last entry and, for the legacy stream,
  /// those of all blocking streams.
  std::vector<StreamPoint> PointsOf(Stream& stream);
  /// Ends the stream's thread once its queue is empty.
  void Close(Stream& stream);

 private:
  void StartThread(Stream& stream);
  void RunStream(std::shared_ptr<Stream> stream);
  void Run(Context& context, Work& work);
  void RunKernel(Context& context, KernelWork& work);
  void RunMemOps(Context& context, const MemOpsWork& work);
  /// Executes `body` with the device, which other processes may have meanwhile.
  template <typename Body>
  void WithDevice(Body body);
  void RunHost(Context& context, const HostWork& work);
  bool WaitForValue(Context& context, const CUstreamBatchMemOpParams& op);
  void Skip(Work& work);  ///< what a poisoned context still owes: events that others wait for
  void MarkDone(EventRecord& record);

  Device* device_;
  Gate* const gate_;
  std::mutex mutex_;
  std::condition_variable changed_;  ///< a stream advanced, or an event was recorded, or work came
};

}  // namespace cupola::sim
