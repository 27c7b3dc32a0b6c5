// LaunchContext: what preemption keeps of one CUDA context: control slots and lists on the device,
// status lines in mapped memory, the helper streams, and the two counters (`outstanding`, `scopes`)
// that keep guarded launches and waiting calls apart (design: docs/waiting.md).
// ContextFor makes it at the context's first launch; preempt/guarded_context.cpp makes its slots at
// the first launch that may go out as a preemptible or sliced variant. It is never freed: when its
// context ends, its state becomes kDead, and it later serves another context of the same GPU. Members
// say which threads may use them. Files that comments here name without a folder are in launch/ or
// preempt/.
#pragma once

#include <atomic>
#include <cstdint>

#include <cuda.h>
#include <pthread.h>

#include "intercept/launch/launch_slots.h"
#include "intercept/launch/piece_queue.h"

namespace cupola::intercept {

class GpuBoard;

/// Words of the log messages for a driver that does not map the board's page, and for one without
/// cuStreamWaitValue32.
inline constexpr const char* kUnmapped = "the driver does not map the board";
inline constexpr const char* kNoStreamWaits = "the driver has no stream memory operations";

/// The bytes of packed arguments that a slot can keep, PreemptParams included. A launch with more
/// goes out plain.
inline constexpr uint32_t kArgumentBytes = 4352;

/// As many entries may be on the streams of a context behind guards (LaunchContext::queued) before a launch waits. A
/// stream holds about 1,024; then a call waits for room in the driver.
inline constexpr uint32_t kMostQueued = 700;

/// Copies of the control slots, which waits that may not end read (wait_net.h). Its members are used
/// under asking_mutex, except `read_ns` and the contents of `copy`, which are read without a mutex.
struct ControlReader {
  CUstream stream = nullptr;  ///< made at the first copy; given back when its queue is needed
  void* copy = nullptr;       ///< ControlSlot[kSlots]; kept for the next context
  bool has_copy = false;      ///< `copy` is registered with this context
  bool is_refused = false;    ///< the driver refused what copies need
  bool is_under_way = false;  ///< a copy has been begun and is not over
  uint64_t begun_ns = 0;      ///< when the last copy was begun
  std::atomic<uint64_t> read_ns{0};  ///< when the last copy that is over was begun
};

/// Counts the entries on the streams of a context that may still be held there by guards, of all streams together. A
/// thread that would fill a stream waits before it does (KeepRoom; docs/waiting.md). A thread that has seen that nothing holds
/// the entries calls MarkGone for those that were there before it looked: other threads may have
/// added more meanwhile, or may have marked as many already. Any thread; never waits.
class QueuedWork {
 public:
  void Add(uint32_t entries) noexcept { total_.fetch_add(entries, std::memory_order_relaxed); }

  /// The number of entries that were ever added. Read it before looking for what may hold them.
  uint64_t total() const noexcept { return total_.load(std::memory_order_relaxed); }

  /// Records that nothing holds the first `total` entries.
  void MarkGone(uint64_t total) noexcept {
    uint64_t gone = gone_.load(std::memory_order_relaxed);
    while (gone < total && !gone_.compare_exchange_weak(gone, total, std::memory_order_release,
                                                        std::memory_order_relaxed)) {
    }
  }

  /// An upper bound of the entries that may still be held.
  uint64_t left() const noexcept {
    // gone_ is read first, with acquire: the thread that stored it had read at least that value
    // from total_, so that the difference is never negative.
    const uint64_t gone = gone_.load(std::memory_order_acquire);
    return total_.load(std::memory_order_relaxed) - gone;
  }

 private:
  std::atomic<uint64_t> total_{0};  ///< entries that were ever added
  std::atomic<uint64_t> gone_{0};   ///< of these, the first ones, which nothing holds
};

struct LaunchContext {
  // Unless they say otherwise, the members up to `board` are written once for each context that this
  // object serves: `context` before `state` becomes kBoard, the others before it becomes kReady.
  std::atomic<CUcontext> context{nullptr};
  GpuBoard* gpu = nullptr;  ///< the board of the context's GPU; never changes
  /// Helper streams, on which resumes run, on a priority level of their own. A resume behind another
  /// physical launch of the same launch would start its workers too late, because that one ends only
  /// when the whole launch is done. So where a launch has left only some SMs, and its resume is to run
  /// beside the workers that stayed, the agent makes a further helper stream. Each takes a hardware
  /// queue (MakeRoomForHelper in facts/live_streams.h).
  static constexpr uint32_t kMostHelpers = runtime::kPhysicalLaunches;
  CUstream helpers[kMostHelpers] = {};
  uint32_t helper_count = 0;
  CUdeviceptr controls = 0;        ///< ControlSlot[kSlots]
  CUdeviceptr returned = 0;        ///< ReturnedList[kSlots]
  CUdeviceptr status_device = 0;   ///< HostStatus[kSlots]
  CUdeviceptr yield_line = 0;      ///< YieldLine in the board's page; 0 = not mapped yet
  CUdeviceptr gate_word = 0;       ///< BoardSlot::gate in the board's page; 0 = not mapped yet
  int greatest_priority = 0;       ///< the highest stream priority of the device
  /// Memory of the process that is registered with each context in turn and never unmapped: another
  /// thread may be in the middle of a wait for all launches of the process when this context ends.
  runtime::HostStatus* status = nullptr;
  /// Words behind the HostStatus lines, which streams write when they reach a marker behind a hold of
  /// the program. (The markers of a burst have words of their own, below.) The two members are used
  /// under the mutex of host_holds.cpp.
  static constexpr int kHoldWords = 64;
  uint64_t hold_words = 0;                ///< bit i: word i is in use
  uint32_t hold_values[kHoldWords] = {};  ///< the last value given out for each word
  std::byte* arguments = nullptr;  ///< kArgumentBytes a slot; kept for the next context
  void* board = nullptr;           ///< this object's own mapping of the board's page; kept too

  /// Plain launches since the last gate, by stream id modulo kGateCounts; see GateWhen::kDue.
  static constexpr uint32_t kGateCounts = 16;
  std::atomic<uint32_t> since_gate[kGateCounts] = {};
  std::atomic<uint64_t> since_gate_ns[kGateCounts] = {};  ///< what they are expected to take
  /// Tells whether a stream has got a gate since the gate was last closed (gates.cpp): the value that
  /// BoardSlot::wake had when a stream of that id modulo kGateCounts last got a closed gate.
  std::atomic<uint32_t> gated_at[kGateCounts] = {};
  /// The driver does not map the board's page, or has no stream waits.
  std::atomic<bool> gates_refused{false};

  /// Mapped words that streams write when they reach a marker of a burst (demand.h). The agent makes
  /// them; they are kept as `status` is.
  uint32_t* markers = nullptr;
  CUdeviceptr markers_device = 0;  ///< 0 = they are not registered with the context

  enum class State : uint32_t {
    kBoard,  ///< the context has a board and demand counts; its slots are not made yet
    kReady,  ///< launches can be guarded
    kPlain,  ///< slots cannot be made: every launch goes out plain
    kDead,   ///< the context has ended, may be about to, or is beyond repair
  };
  std::atomic<State> state{State::kBoard};
  // These three are used under contexts_mutex.
  bool is_paused = false;       ///< a call that may end the context is under way, in another thread perhaps
  State paused = State::kDead;  ///< while it is: the state to return to if that call does not end the context
  bool is_free = false;         ///< the context is gone: the object may serve another
  /// Held while a thread asks the driver about the context. Whoever ends the context takes it once
  /// after `state` has become kDead: from then on nobody asks about a context that may be gone.
  pthread_mutex_t asking_mutex = PTHREAD_MUTEX_INITIALIZER;

  /// Guarded launches that are not known to be complete, threads that are about to make one, and deferred launches of
  /// graphs (piece_queue.h).
  std::atomic<uint32_t> outstanding{0};
  /// Threads that are, or are about to be, in a call that may wait.
  std::atomic<uint32_t> scopes{0};
  /// Number of the last launch that a blocking stream may have come behind by an event or the like
  /// (RecordJoin in waiting.h), so that calls that wait for the blocking streams wait for it too. A
  /// blocking stream is one that synchronises with the legacy stream. The number is never lowered:
  /// nobody waits for launches that are complete.
  std::atomic<uint64_t> joined{0};
  /// How many waits keep guarded launches from being stopped, `kept_until` included (wait_net.h). Not
  /// 0: the process has told the board that nobody may ask it to yield.
  std::atomic<uint32_t> kept{0};
  /// Launches up to this number must not be stopped until they are complete (wait_net.h); 0 = none.
  std::atomic<uint64_t> kept_until{0};
  std::atomic<bool> was_stuck{false};  ///< a wait was stuck, and no launch has completed since
  bool is_kept_for_good = false;       ///< launches still ran when the context was paused, and must
                                       ///< not be stopped until it has ended; under contexts_mutex
  ControlReader reader;
  PieceQueue pieces;
  /// Stream entries that may be behind guards. A stream holds about 1,024 entries; a thread that adds
  /// one beyond that waits inside the driver.
  QueuedWork queued;

  /// Serialises launches with their guards; held over driver calls, never by the agent.
  pthread_mutex_t launch_mutex = PTHREAD_MUTEX_INITIALIZER;
  /// 1 between a launch and its guard: no other work may get in between (AwaitGuard).
  std::atomic<uint32_t> half_made{0};
  /// Guards `slots`; never held over a driver call.
  pthread_mutex_t slots_mutex = PTHREAD_MUTEX_INITIALIZER;
  uint64_t gpu_counted_ns = 0;  ///< until when BoardSlot::gpu_ns counts the context's time; under slots_mutex
  LaunchSlots slots;

  const uint32_t* HoldWord(int index) const {
    return reinterpret_cast<const uint32_t*>(status + kSlots) + index;
  }
  CUdeviceptr HoldWordDevice(int index) const {
    return status_device + kSlots * sizeof(runtime::HostStatus) +
           static_cast<unsigned>(index) * sizeof(uint32_t);
  }
  CUdeviceptr ControlOf(uint32_t slot) const {
    return controls + slot * sizeof(runtime::ControlSlot);
  }
  std::byte* ArgumentsOf(uint32_t slot) const { return arguments + slot * size_t{kArgumentBytes}; }
};

/// Held while contexts are made, paused, resumed and ended.
extern pthread_mutex_t contexts_mutex;

/// The LaunchContext of `context`; null if it has none. Lock-free.
LaunchContext* FindContext(CUcontext context) noexcept;

/// A board has been joined late: contexts that had no board look for one again at their next launch. Any thread.
void LookForBoardsAgain() noexcept;

/// The driver has refused what gates need: no more gates are put in this context, and the board learns that the
/// process can no longer be held at gates. `why` is logged once.
void RefuseGates(LaunchContext* context, const char* why) noexcept;

/// Maps the board's page into the context, whichever is current; does it once. False: the driver
/// refused, or a capture is open.
bool MapBoard(LaunchContext* context) noexcept;
/// The same for a caller that holds the context's launch_mutex, has made the context current, and knows that no
/// capture is open.
bool MapBoardLocked(LaunchContext* context) noexcept;

/// Waits while another thread is between a launch and its guard. Work that this thread then puts on
/// the same stream comes before both or behind both, even if the program does not synchronise the
/// two threads.
inline void AwaitGuard(LaunchContext& context) noexcept {
  if (context.half_made.load() == 0) [[likely]] return;
  pthread_mutex_lock(&context.launch_mutex);
  pthread_mutex_unlock(&context.launch_mutex);
}

/// Whether a thread of the program may be waiting in the driver, perhaps at a closed gate, while it
/// holds something that other threads' calls need. The agent must not wait behind it, because it has
/// leases to renew, and opens the gate if whoever closed it has died. So while this is true the
/// agent makes no driver calls except the resumes of a process that nobody asks to yield.
inline bool MayBeInDriver(const LaunchContext& context) noexcept {
  return context.scopes.load() != 0;
}

/// ForEachContext calls `visit(LaunchContext&)` for every context that is not kDead,
/// ForEachContextEver also for those.
template <typename Visit>
void ForEachContext(Visit&& visit) noexcept;
template <typename Visit>
void ForEachContextEver(Visit&& visit) noexcept;

/// The slots of a context in state kBoard are made (`to` kReady) or cannot be (kPlain). Meanwhile another thread may have paused
/// the context, as the release of a primary context does that others use: then it comes to `to` when it is resumed. Or it
/// may have been given up, and stays so. The caller holds the context's launch_mutex.
void LeaveBoardState(LaunchContext& context, LaunchContext::State to) noexcept;

/// Called after preempt::PauseContextState if the context goes on after all: it is as it was before. A context that
/// another thread has begun to use since then stays as it is.
void ResumeContextState(CUcontext context) noexcept;
/// Forgets the handle of a context that ends or has ended; preempt::PauseContextState was called
/// before. Its streams of ours take no hardware queues any more. Returns its LaunchContext, null if it
/// has none. The caller passes that to FreeContextState once the driver has ended the context; until
/// then the driver has its memory registered, and it must not serve another context.
[[nodiscard]] LaunchContext* EndContextState(CUcontext context) noexcept;
void FreeContextState(LaunchContext* ended) noexcept;
void ForgetContextsAfterFork() noexcept;

/// Registers `*memory` with the current context, so that its device can write to it; the first call
/// makes the memory, which outlives the context. Returns the device address; 0 if that fails.
CUdeviceptr RegisterKept(void** memory, size_t bytes) noexcept;

namespace launch_contexts {
inline constexpr uint32_t kMost = 64;
extern std::atomic<LaunchContext*> all[kMost];
extern std::atomic<uint32_t> count;
LaunchContext* FindOrMake(CUcontext context) noexcept;
}  // namespace launch_contexts

/// The LaunchContext of `context`, which need not be current; the first call makes it and joins the board of
/// the context's device. Null: there is no board, or no room for another context. The first context needs no
/// look-up, since most programs have only one. Its state is read, with acquire, before its context: `context`
/// is written before `state` leaves kDead, so that whoever sees the state sees the context that it belongs to.
inline LaunchContext* ContextFor(CUcontext context) noexcept {
  LaunchContext* const first = launch_contexts::all[0].load(std::memory_order_acquire);
  if (first != nullptr &&
      first->state.load(std::memory_order_acquire) != LaunchContext::State::kDead &&
      first->context.load(std::memory_order_relaxed) == context) [[likely]] {
    return first;
  }
  return launch_contexts::FindOrMake(context);
}

template <typename Visit>
void ForEachContextEver(Visit&& visit) noexcept {
  const uint32_t count = launch_contexts::count.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < count; ++i) {
    visit(*launch_contexts::all[i].load(std::memory_order_acquire));
  }
}

template <typename Visit>
void ForEachContext(Visit&& visit) noexcept {
  ForEachContextEver([&](LaunchContext& context) {
    if (context.state.load(std::memory_order_acquire) != LaunchContext::State::kDead) {
      visit(context);
    }
  });
}

}  // namespace cupola::intercept
