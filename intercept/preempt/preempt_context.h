// PreemptContext: what preemption keeps of one CUDA context: control slots and lists on the device,
// status lines in mapped memory, the helper streams, and the two counters that keep guarded
// launches and calls that may wait apart (design: docs/preemption.md, "Waiting"). Made at the
// context's first launch, never freed: a context that ends leaves a dead one behind, which serves
// another context of the same GPU again. Members say who may touch them.
#pragma once

#include <atomic>
#include <cstdint>

#include <cuda.h>
#include <pthread.h>

#include "intercept/preempt/launch_slots.h"
#include "intercept/preempt/queued_work.h"

namespace cupola::intercept::preempt {

class GpuBoard;

/// What a driver without cuStreamWaitValue32 is said to lack.
inline constexpr const char* kNoStreamWaits = "the driver has no stream memory operations";

/// Packed arguments that a slot can keep, PreemptParams included. Larger ones go out plain.
inline constexpr uint32_t kArgumentBytes = 4352;

/// Copies of the control slots for waits that would not end (wait_net.h). Under asking_mutex but for
/// `read_ns` and the copies, which are read as they come.
struct ControlReader {
  CUstream stream = nullptr;  ///< made when wanted; takes a hardware queue until that is needed
  void* copy = nullptr;       ///< ControlSlot[kSlots]; kept for the next context
  bool has_copy = false;      ///< it is registered with this context
  bool is_refused = false, is_under_way = false;
  uint64_t begun_ns = 0;
  std::atomic<uint64_t> read_ns{0};  ///< when the last one that is over was begun
};

struct PreemptContext {
  // Written once for each context that it serves: `context` before `state` becomes kBoard, the rest
  // before it becomes kReady.
  std::atomic<CUcontext> context{nullptr};
  GpuBoard* gpu = nullptr;
  /// Resumes run here, on a priority level of their own. Behind another physical launch of the same
  /// launch, which ends when all is done, workers would come too late: so where some SMs are left,
  /// and others before them, there are more than one, made by the agent when it needs them. Each
  /// takes a hardware queue.
  static constexpr uint32_t kMostHelpers = runtime::kPhysicalLaunches;
  CUstream helpers[kMostHelpers] = {};
  uint32_t helper_count = 0;
  CUdeviceptr controls = 0;        ///< ControlSlot[kSlots]
  CUdeviceptr returned = 0;        ///< ReturnedList[kSlots]
  CUdeviceptr status_device = 0;   ///< HostStatus[kSlots]
  CUdeviceptr yield_line = 0, gate_word = 0;  ///< of the board's page; 0 = not mapped yet
  int greatest_priority = 0;       ///< of the device's streams
  /// Memory of the process that is registered with each context in turn and never unmapped: another
  /// thread may be in the middle of a wait for all launches of the process when this context ends.
  runtime::HostStatus* status = nullptr;
  /// Words behind them, that markers behind what the program holds are written to: those in use, and the
  /// last value of each. Of host_holds.cpp's mutex.
  static constexpr int kHoldWords = 64;
  uint64_t hold_words = 0;
  uint32_t hold_values[kHoldWords] = {};
  std::byte* arguments = nullptr;  ///< kArgumentBytes a slot; kept for the next context
  void* board = nullptr;           ///< a mapping of the board's page of its own; kept too

  /// Plain launches, by stream id modulo; a gate is due every few.
  static constexpr uint32_t kGateCounts = 16;
  std::atomic<uint32_t> since_gate[kGateCounts] = {};
  /// BoardSlot::wake when a stream of that id modulo was last given a gate that was closed.
  std::atomic<uint32_t> gated_at[kGateCounts] = {};
  /// The driver does not map the board's page, or has no stream waits.
  std::atomic<bool> gates_refused{false};

  /// Mapped words that markers of bursts are written to, made by the agent; see demand.h. Kept as
  /// `status` is; the device's address is 0 where they are not registered with the context.
  uint32_t* markers = nullptr;
  CUdeviceptr markers_device = 0;

  enum class State : uint32_t {
    kBoard,  ///< it has a board, demand counts; slots not made yet
    kReady,  ///< launches can be guarded
    kPlain,  ///< slots cannot be made: every launch goes out plain
    kDead,   ///< the context has ended, may be about to, or is beyond repair
  };
  std::atomic<State> state{State::kBoard};
  // Of preempt_context.cpp's make_mutex.
  State paused = State::kDead;  ///< what it was before its context was perhaps to end
  bool is_free = false;         ///< its context is gone: it may serve another
  /// Held while a thread asks the driver about the context. Whoever ends that takes it once after
  /// `state` has become kDead: then nobody asks about what may be gone.
  pthread_mutex_t asking_mutex = PTHREAD_MUTEX_INITIALIZER;

  /// Guarded launches that are not known to be complete, and threads that are about to make one.
  std::atomic<uint32_t> outstanding{0};
  /// Threads that are, or are about to be, in a call that may wait.
  std::atomic<uint32_t> scopes{0};
  /// Number of the last launch that a blocking stream may have come behind by an event or the like
  /// (NoteJoin); never lowered, for what is complete is waited for by nobody.
  std::atomic<uint64_t> joined{0};
  /// Waits that are not to be stopped while they are in the driver, and `kept_until` where that is not 0:
  /// launches up to that number are not to be stopped, as long as they are not complete (wait_net.h).
  std::atomic<uint32_t> kept{0};
  std::atomic<uint64_t> kept_until{0};
  std::atomic<bool> was_stuck{false};  ///< the last wait that was stuck has been followed by nothing
  bool is_kept_for_good = false;       ///< of preempt_context.cpp's make_mutex
  ControlReader reader;
  /// Behind guards, as far as is known: a stream holds about 1,024 entries.
  QueuedWork queued;

  /// Serialises launches with their guards; held over driver calls, never by the agent.
  pthread_mutex_t launch_mutex = PTHREAD_MUTEX_INITIALIZER;
  /// 1 while a launch is made and its guard is not: other work must not get in between.
  std::atomic<uint32_t> half_made{0};
  /// Guards `slots`; never held over a driver call.
  pthread_mutex_t slots_mutex = PTHREAD_MUTEX_INITIALIZER;
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

/// The state of `context` if it has one. Lock-free.
PreemptContext* FindContext(CUcontext context) noexcept;

/// A board has been joined late: contexts that were without one are looked at again when they launch next. Any thread.
void LookForBoardsAgain() noexcept;

/// Makes slots, status, helper streams, and registers the board's page: state kReady, or kPlain with
/// a notice. The context is current, none of its launches is guarded. May wait for the device.
void MakeReady(PreemptContext* context) noexcept;

/// The driver has refused what gates need: no more are put, and the board says so.
void RefuseGates(PreemptContext* context, const char* why) noexcept;

/// Maps the board's page into the context, which is current; once. False: refused, or a capture is
/// open.
bool MapBoard(PreemptContext* context) noexcept;

/// Waits while another thread is between a launch and its guard. What a thread puts on the same
/// stream at the same time, unsynchronised, then comes before both or after both.
inline void AwaitGuard(PreemptContext& context) noexcept {
  if (context.half_made.load() == 0) [[likely]] return;
  pthread_mutex_lock(&context.launch_mutex);
  pthread_mutex_unlock(&context.launch_mutex);
}

/// Whether a thread of the program may wait in the driver, perhaps at a closed gate, with what other
/// threads' calls need. The agent has leases to renew, and the gate to open where whoever asked has
/// died: then it makes no calls but the resumes of a process that is not held.
inline bool MayBeInDriver(const PreemptContext& context) noexcept {
  return context.scopes.load() != 0;
}

/// Calls `visit(PreemptContext&)` for every live one; for those too that have ended.
template <typename Visit>
void ForEachContext(Visit&& visit) noexcept;
template <typename Visit>
void ForEachContextEver(Visit&& visit) noexcept;

/// Looks at what the device said and accounts for what is complete. Returns how many are
/// outstanding.
uint32_t Harvest(PreemptContext& context) noexcept;

/// So many launches that had stopped run again, or are about to.
void CountResumes(PreemptContext& context, uint32_t resumes) noexcept;

/// The context is beyond repair (a sticky error): nothing of it is waited for any more.
void GiveUp(PreemptContext& context) noexcept;

/// One more stream for resumes. False: there are as many as may be, or all hardware queues are
/// taken. The context is current; its agent's thread.
bool AddHelper(PreemptContext& context) noexcept;

/// The context may be about to end, with nothing outstanding: its launches go past us, and the
/// agent leaves it alone.
void PauseContextState(CUcontext context) noexcept;
/// After that: it ends, or has ended: the handle is forgotten. What was kept of it may serve another
/// context when FreeContextState is called with what is returned, once the driver has ended it: until
/// then the driver has its memory registered. Null: nothing was kept.
[[nodiscard]] PreemptContext* EndContextState(CUcontext context) noexcept;
void FreeContextState(PreemptContext* ended) noexcept;
/// Or it goes on, with all that was made for it.
void ResumeContextState(CUcontext context) noexcept;

void ForgetContextsAfterFork() noexcept;

/// Memory that the current context's device may write to, which outlives the context: `*memory`, made
/// at the first call, is registered with the context. Its device address; 0: that cannot be had.
CUdeviceptr RegisterKept(void** memory, size_t bytes) noexcept;

namespace internal {
inline constexpr uint32_t kMostContexts = 64;
extern std::atomic<PreemptContext*> contexts[kMostContexts];
extern std::atomic<uint32_t> context_count;
PreemptContext* FindOrMake(CUcontext context) noexcept;
}  // namespace internal

/// The state of `context`, made at the first call (joins the board of its device). Null: no board.
/// Most programs have one context: no look-up for the first. Its state is read before its context:
/// one that serves another context by now says so where its state is seen.
inline PreemptContext* ContextFor(CUcontext context) noexcept {
  PreemptContext* const first = internal::contexts[0].load(std::memory_order_acquire);
  if (first != nullptr &&
      first->state.load(std::memory_order_acquire) != PreemptContext::State::kDead &&
      first->context.load(std::memory_order_relaxed) == context) [[likely]] {
    return first;
  }
  return internal::FindOrMake(context);
}

template <typename Visit>
void ForEachContextEver(Visit&& visit) noexcept {
  const uint32_t count = internal::context_count.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < count; ++i) {
    visit(*internal::contexts[i].load(std::memory_order_acquire));
  }
}

template <typename Visit>
void ForEachContext(Visit&& visit) noexcept {
  ForEachContextEver([&](PreemptContext& context) {
    if (context.state.load(std::memory_order_acquire) != PreemptContext::State::kDead) {
      visit(context);
    }
  });
}

}  // namespace cupola::intercept::preempt
