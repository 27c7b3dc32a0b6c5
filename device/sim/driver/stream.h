// Streams and events of the simulated device, and the Engine that runs them. A stream is a queue of
// work with a thread of its own that runs it in order. For the order between streams, an entry of a
// queue has a set of points {stream, ticket} for which it waits. The mutex of the Engine guards all
// state here that is not constant.
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

/// A place in a stream's order. It is reached when the stream's `completed` is >= `ticket`.
struct StreamPoint {
  std::shared_ptr<Stream> stream;
  uint64_t ticket = 0;
};

/// One recording of an event. A wait is for the recording that is current when the wait is called.
struct EventRecord {
  bool done = false;     ///< guarded by the Engine's mutex
  uint64_t time_ns = 0;  ///< when it completed, on the device's clock; valid once `done`
};

class Event {
 public:
  Event(Context* owner, uint32_t event_flags) : context(owner), flags(event_flags) {}
  Context* const context;
  const uint32_t flags;  ///< CU_EVENT_*
  // Guarded by the Engine's mutex:
  std::shared_ptr<EventRecord> record;     ///< null until first recorded
  std::shared_ptr<Capture> capture;        ///< set while the last recording was a captured one
  std::vector<GraphNode*> captured_nodes;  ///< then: the nodes behind which it was recorded
};

/// One entry of a stream's queue.
struct StreamEntry {
  Work work;
  uint64_t ticket = 0;             ///< its place in the stream, from 1
  std::vector<StreamPoint> after;  ///< it runs only when all of these are reached
};

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  enum class Kind : uint8_t { kCreated, kLegacy, kPerThread };

  Stream(Context* context, Kind kind, uint32_t flags, int priority);

  Context* const context;
  /// Keeps the context alive; null for the legacy stream, which the context owns.
  const std::shared_ptr<Context> keeps_context;
  const Kind kind;
  const uint32_t flags;  ///< CU_STREAM_NON_BLOCKING or 0
  const int priority;
  const uint64_t id;     ///< unique in the process

  /// Whether it is ordered with the legacy default stream.
  bool blocking() const { return (flags & CU_STREAM_NON_BLOCKING) == 0; }

  // Guarded by the Engine's mutex:
  std::deque<StreamEntry> queue;  ///< entries that its thread has not taken yet
  uint64_t submitted = 0;         ///< ticket of the last entry that was submitted
  uint64_t completed = 0;         ///< ticket of the last entry that has ended
  bool has_thread = false;
  bool closing = false;                  ///< the thread ends when the queue is empty
  std::shared_ptr<Capture> capture;      ///< null when the stream is not being captured
  std::vector<GraphNode*> capture_tail;  ///< the nodes on which the next captured node will depend
};

/// Runs streams. Owned by the Driver. In a program it is never destroyed, because its threads may
/// still be running at exit; a test that destroys one must first wait until every stream has ended.
class Engine {
 public:
  /// Copies and fills pass the device's gate, as its kernels do (device/sim/token/gate.h).
  explicit Engine(Device* device) : device_(device), gate_(device->config().gate) {}

  std::mutex& mutex() { return mutex_; }

  /// Appends work and returns its place. Applies the rules of the legacy default stream. `after` holds
  /// further points for which the work waits. Returns at once; errors become the context's sticky error.
  StreamPoint Submit(Stream& stream, Work work, std::vector<StreamPoint> after = {});

  /// Blocks until the point is reached.
  void Wait(const StreamPoint& point);
  bool IsReached(const StreamPoint& point);
  void WaitRecord(const EventRecord& record);
  bool IsDone(const EventRecord& record);

  /// Blocks until everything submitted so far to the context's streams has ended.
  void WaitContext(Context& context);
  /// The last entry submitted so far to each of the context's streams.
  std::vector<StreamPoint> PointsOf(Context& context);
  /// The points for which a synchronisation of `stream` waits: its own last entry and, for the legacy
  /// stream, the last entries of all blocking streams.
  std::vector<StreamPoint> PointsOf(Stream& stream);
  /// Ends the stream's thread once its queue is empty.
  void Close(Stream& stream);

 private:
  void StartThread(Stream& stream);
  void RunStream(std::shared_ptr<Stream> stream);
  void Run(Context& context, Work& work);
  void RunKernel(Context& context, KernelWork& work);
  void RunMemOps(Context& context, const MemOpsWork& work);
  /// Runs `body` between Enter and Leave of the gate, so that it waits while another process has the
  /// device.
  template <typename Body>
  void WithDevice(Body body);
  void RunHost(Context& context, const HostWork& work);
  /// False when the context got a sticky error, or was destroyed, before the value came.
  bool WaitForValue(Context& context, const CUstreamBatchMemOpParams& op);
  /// In place of Run in a context with a sticky error: only completes events for which others wait.
  void Skip(Work& work);
  void MarkDone(EventRecord& record);

  Device* device_;
  Gate* const gate_;
  std::mutex mutex_;
  std::condition_variable changed_;  ///< notified when a stream advances, an event completes or work comes
};

}  // namespace cupola::sim
