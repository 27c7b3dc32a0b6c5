// Demand: this process tells the board when it wants its GPU and when it no longer does. The launch
// path begins a burst with a launch (AnnounceDemand); the burst's demand is put on the board then, or
// later, or never (ask_choice.h). Burst and demand end in one of three ways: a
// synchronising call shows that no work is left (AfterSync); the streams of the burst reach the
// markers that the agent put there; or the lease, which the agent renews while work is under way,
// runs out (both LookAfterDemand). Each GpuBoard owns one DemandState. docs/gates.md.
#pragma once

#include <cuda.h>
#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "device/runtime/preempt_control.h"
#include "intercept/launch/ask_choice.h"
#include "intercept/launch/launched_names.h"
#include "intercept/launch/time_per_launch.h"
#include "sched/board/yield_protocol.h"

namespace cupola::intercept {

class GpuBoard;
struct LaunchContext;

/// What stands for the streams of a burst: an id of ResolveStream, or one of these two values:
/// kNoStream for none, kManyStreams for several, or for one that cannot be told apart.
inline constexpr uint64_t kNoStream = UINT64_MAX, kManyStreams = UINT64_MAX - 1;
/// The most streams of a burst that get markers. A burst with more streams ends with its lease.
inline constexpr uint32_t kMarkedStreams = 8;

/// One stream of a burst. Launches and waits read the atomic members; the others are read and
/// written under marker_mutex of the DemandState.
struct BurstStream {
  std::atomic<uint64_t> id{kNoStream};
  std::atomic<uint64_t> launched{0};  ///< DemandState::launches at the stream's last launch
  std::atomic<uint64_t> waited{0};    ///< DemandState::launches when the stream was last waited for
  CUstream handle = nullptr;          ///< null: no handle that another thread could use
  LaunchContext* context = nullptr;  ///< null once the context has ended
};

/// The lease of a process that is asked to yield, in nanoseconds. Such a process still waits for its
/// turn, and its agent renews the lease. It is longer than the lease of a running process, for which
/// other processes wait.
inline constexpr uint64_t kHeldLeaseNs = 100'000'000;

/// What demand keeps for one board. Any thread may use the atomic members. Times are of the
/// process's clock, in nanoseconds.
struct DemandState {
  /// kNone: there is no burst. kOn: there is. kChanging: one thread is beginning, changing or ending it.
  enum class Phase : uint32_t { kNone, kChanging, kOn };
  std::atomic<Phase> phase{Phase::kNone};
  std::atomic<uint64_t> launches{0};        ///< launches of the process on this GPU, ever
  /// What the last launch started (SetLaunchedKernel). On the same cache line as `launches`.
  std::atomic<const void*> kernel{nullptr};
  std::atomic<uint64_t> stream{kNoStream};  ///< the stream of the burst's launches
  std::atomic<uint32_t> sms{runtime::kAllSms};  ///< SMs that the burst's launches need
  std::atomic<uint64_t> agent_wakes_ns{0};  ///< until when the agent sleeps; 0 = it is awake
  std::atomic<uint64_t> renewed_ns{0};      ///< when the lease was last renewed
  std::atomic<uint64_t> end_at_ns{0};       ///< end of the grace period: the agent then ends demand
                                            ///< unless a launch came first; 0 = no grace period
  std::atomic<uint64_t> end_launches{0};    ///< `launches` when the grace period began
  std::atomic<uint64_t> ended_ns{0};        ///< when demand last ended; 0 = never
  std::atomic<uint64_t> begun_ns{0};        ///< when demand last began
  std::atomic<uint64_t> begun_launches{0};  ///< `launches` then, the burst's first launch included
  /// Whether the burst's demand is on the board, so that others are asked.
  std::atomic<bool> asks{false};
  std::atomic<AskAt> ask_at{AskAt::kFirstLaunch};  ///< when this burst asks
  std::atomic<uint64_t> patience_ns{0};  ///< how long it is waited for before it asks after all
  /// Since when the program waits for a burst that does not ask; 0 = it does not wait.
  std::atomic<uint64_t> waits_since_ns{0};
  /// begun_ns, or the first launch of the last grace period.
  std::atomic<uint64_t> issued_since_ns{0};
  AskChoice ask_choice;  ///< used only by who has set `phase` to kChanging
  TimePerLaunch time_per_launch;
  std::atomic<bool> gaps_are_short{false};  ///< demand began again soon after it had ended
  std::atomic<uint64_t> returned{0};        ///< how many of `launches` have returned from the
                                            ///< driver; the others may wait for room in a stream
  /// The last of `launches` that is known to have ended; all before it have ended too.
  std::atomic<uint64_t> ended_launches{0};
  /// The last of `launches` that went out plain. Nothing but a gate stops such a launch.
  std::atomic<uint64_t> plain_launches{0};
  std::atomic<uint64_t> gated_launches{0};  ///< `launches` when the last gate was put
  std::atomic<uint32_t> streams{0};         ///< streams in `burst`; kMarkedStreams + 1 = more than
                                            ///< fit, and the burst gets no markers
  BurstStream burst[kMarkedStreams];
  /// Held over the driver calls that put markers, which may wait for a call under way in their
  /// context. Each board has its own mutex, so that the markers of other boards do not wait for it.
  mutable pthread_mutex_t marker_mutex = PTHREAD_MUTEX_INITIALIZER;
  // The members below belong to the agent.
  uint64_t seen_launches = 0;     ///< `launches` at its last look
  uint64_t marked_launches = 0;   ///< `launches` when it put the last markers
  uint64_t refused_launches = 0;  ///< `launches` when a marker could not be put
  uint32_t marker = 0;            ///< the value that the last markers write
  uint64_t quiet_since_ns = 0;    ///< since when nothing was launched
};

/// The launch path calls this before each launch on `stream`: begins demand, or extends it.
/// `predicted_ns` is the expected time of the launch, 0 = unknown. The launch needs `sms` SMs; a
/// burst needs as many as its largest launch, and the whole GPU if it has several streams. Returns
/// the sleepers to wake (sched::WakeSleepers). The caller wakes them after the launch, because the
/// system call would delay the launch by several microseconds. The exception: if this process may
/// ask nobody itself, the daemon is woken in here.
[[nodiscard]] sched::Wakes AnnounceDemand(LaunchContext& context, uint64_t stream, CUstream handle,
                                      uint64_t predicted_ns, uint32_t sms) noexcept;

/// Records what is launched: a CUfunction or CUkernel, null for a graph. Called before
/// AnnounceDemand; one store. The kernel's name is put on the board when a burst begins, if rules
/// name kernels, and by the agent.
inline void SetLaunchedKernel(DemandState& state, const void* function) noexcept {
  state.kernel.store(function != nullptr ? function : &kGraphLaunch, std::memory_order_relaxed);
}

/// Records that the launch that was announced last goes out plain. Called before the launch path looks
/// at the gate: then either the launch path finds the gate closed, or whoever closed it finds the
/// launch in `plain_launches`.
inline void MarkPlainLaunch(DemandState& state) noexcept {
  const uint64_t launches = state.launches.load();
  uint64_t before = state.plain_launches.load();
  while (before < launches && !state.plain_launches.compare_exchange_weak(before, launches)) {
  }
}

/// `stream` is about to be destroyed: no marker is put on it any more.
void ForgetStreamOfDemand(CUstream stream) noexcept;

/// The context, whose state is already kDead, may be about to end, and its marker words with it: the
/// burst forgets its streams.
void ForgetContextOfDemand(LaunchContext& context) noexcept;

/// What a synchronising call waits for, as it was when the call was made.
struct SyncPoint {
  LaunchContext* context = nullptr;
  uint64_t launches = 0;   ///< DemandState::launches of the GPU
  uint64_t stream = kNoStream;
  bool whole_context = false;  ///< the call waits for all streams of the context
  uint64_t called_ns = 0;
};

/// Hooks of synchronising calls call BeforeSync before the driver's call, with a null `context` if
/// preemption does not know it, and AfterSync after a call that succeeded. BeforeSync puts the demand
/// of a burst on the board that asks when it is waited for. AfterSync ends the burst, or begins its
/// grace period, if no work of it is left.
SyncPoint BeforeSync(LaunchContext* context, uint64_t stream, bool whole_context) noexcept;
/// The same before a wait for an event, whose end does not show what is left. MayAskAtEventSync: whether BeforeEventSync
/// has anything to do in some context, told without a call of the driver.
bool MayAskAtEventSync() noexcept;
void BeforeEventSync(LaunchContext* context) noexcept;
void AfterSync(const SyncPoint& point) noexcept;

/// How many nanoseconds the agent may sleep before it must call LookAfterDemand again; UINT64_MAX =
/// until it is woken.
uint64_t DemandTickNs(GpuBoard& gpu) noexcept;

/// For the agent: puts markers, ends demand whose markers or grace period are over, and renews the
/// lease or lets it run out.
void LookAfterDemand(GpuBoard& gpu, uint64_t now_ns) noexcept;

/// From exit(): ends the demand on every board.
void DropDemandAtExit() noexcept;

}  // namespace cupola::intercept
