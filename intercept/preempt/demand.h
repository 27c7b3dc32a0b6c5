// Demand: telling the board when this process wants its GPU and when it has had it. It begins with
// a launch; it ends when a synchronising call has shown that nothing is left, when the markers that
// the agent put on the streams of the burst have been reached, or with its lease, which the agent
// renews while work is under way. docs/preemption.md.
#pragma once

#include <cuda.h>
#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "device/runtime/preempt_control.h"
#include "intercept/preempt/launched_names.h"
#include "intercept/preempt/time_per_launch.h"
#include "sched/board/yield_protocol.h"

namespace cupola::intercept::preempt {

class GpuBoard;
struct PreemptContext;

/// Streams of a burst: an id of ResolveStream, or one of these.
inline constexpr uint64_t kNoStream = UINT64_MAX, kManyStreams = UINT64_MAX - 1;
/// Streams of a burst that get markers; a burst of more ends with its lease.
inline constexpr uint32_t kMarkedStreams = 8;

/// A stream of a burst. What is atomic is read by launches and waits; the rest under its
/// DemandState's marker_mutex.
struct BurstStream {
  std::atomic<uint64_t> id{kNoStream};
  std::atomic<uint64_t> launched{0};  ///< DemandState::launches with its last launch
  std::atomic<uint64_t> waited{0};    ///< the same, when it was last waited for
  CUstream handle = nullptr;          ///< null: none that another thread could use
  PreemptContext* context = nullptr;  ///< null once that has ended
};

/// The lease of a process that is asked to yield: it has its turn yet to come, and renews the lease
/// at its agent's looks. Longer than the lease of one that runs, for whose sake others wait.
inline constexpr uint64_t kHeldLeaseNs = 100'000'000;

/// What demand keeps for one board. Any thread.
struct DemandState {
  enum class Phase : uint32_t { kNone, kChanging, kOn };
  std::atomic<Phase> phase{Phase::kNone};
  std::atomic<uint64_t> launches{0};        ///< of the process on this GPU, ever
  /// Of the last of them (NoteLaunched); on the same line.
  std::atomic<const void*> kernel{nullptr};
  std::atomic<uint64_t> stream{kNoStream};  ///< of the launches since demand began
  std::atomic<uint32_t> sms{runtime::kAllSms};  ///< that the launches since demand began need
  std::atomic<uint64_t> agent_wakes_ns{0};  ///< until when the agent sleeps; 0 = it is awake
  std::atomic<uint64_t> renewed_ns{0};      ///< when the lease was last renewed
  std::atomic<uint64_t> end_at_ns{0};       ///< lingering: the agent ends demand then; 0 = no
  std::atomic<uint64_t> end_launches{0};    ///< `launches` when it began to linger
  std::atomic<uint64_t> ended_ns{0};        ///< when it last ended
  std::atomic<uint64_t> begun_ns{0};        ///< when it last began
  std::atomic<uint64_t> begun_launches{0};  ///< `launches` then, its first among them
  TimePerLaunch time_per_launch;
  std::atomic<bool> gaps_are_short{false};  ///< it came back soon after it had ended
  std::atomic<uint64_t> returned{0};        ///< of `launches`; the others may wait for room
  /// Of `launches`: the last that is known to have ended, and all before it; the last that went out
  /// plain, which nothing but gates stops.
  std::atomic<uint64_t> ended_launches{0}, plain_launches{0};
  std::atomic<uint64_t> gated_launches{0};  ///< `launches` when the last gate was put
  std::atomic<uint32_t> streams{0};         ///< in `burst`; more than fit: it gets no markers
  BurstStream burst[kMarkedStreams];
  /// Held over the driver calls that put markers, which may wait for a call under way in their
  /// context: those of another board go on meanwhile.
  mutable pthread_mutex_t marker_mutex = PTHREAD_MUTEX_INITIALIZER;
  // Of the agent: launches at its last look, when it put the last markers and when that could not
  // be done, the value of these markers, and since when nothing was launched.
  uint64_t seen_launches = 0, marked_launches = 0, refused_launches = 0;
  uint32_t marker = 0;
  uint64_t quiet_since_ns = 0;
};

/// A launch on stream `stream` is about to be made; `predicted_ns` 0 = unknown. It needs `sms` SMs;
/// a burst needs as many as its largest launch, the whole GPU where it has several streams. Those who
/// sleep are to be woken behind the launch: a system call is several microseconds before it. (Not
/// where this process may ask nobody itself: then the daemon is woken here.)
[[nodiscard]] sched::Wakes NoteDemand(PreemptContext& context, uint64_t stream, CUstream handle,
                                      uint64_t predicted_ns, uint32_t sms) noexcept;

/// Before NoteDemand: what is launched, a CUfunction or CUkernel, null for a graph. A store; its
/// name comes on the board when a burst begins, where rules name kernels, and with the agent's
/// looks.
inline void NoteLaunched(DemandState& state, const void* function) noexcept {
  state.kernel.store(function != nullptr ? function : &kGraphLaunch, std::memory_order_relaxed);
}

/// A launch of which NoteDemand was told goes out plain. Called before its gate is seen to: either
/// that finds the gate closed, or whoever has closed it finds the launch here.
inline void NotePlainLaunch(DemandState& state) noexcept {
  const uint64_t launches = state.launches.load();
  uint64_t before = state.plain_launches.load();
  while (before < launches && !state.plain_launches.compare_exchange_weak(before, launches)) {
  }
}

/// `stream` of that context is about to be destroyed: no marker goes there any more.
void ForgetStreamOfDemand(PreemptContext& context, CUstream stream) noexcept;

/// The context may be about to end, and its marker with it; its state is kDead already.
void ForgetContextOfDemand(PreemptContext& context) noexcept;

/// What a synchronising call is about to wait for.
struct SyncPoint {
  PreemptContext* context = nullptr;
  uint64_t launches = 0;   ///< of the GPU, at the call
  uint64_t stream = kNoStream;
  bool whole_context = false;
};

/// Before and after a synchronising call that succeeded.
SyncPoint BeforeSync(PreemptContext* context, uint64_t stream, bool whole_context) noexcept;
void AfterSync(const SyncPoint& point) noexcept;

/// How long the agent may sleep before it is to look after demand again.
uint64_t DemandTickNs(GpuBoard& gpu) noexcept;

/// For the agent: ends what lingers, renews or lets go of leases.
void LookAfterDemand(GpuBoard& gpu, uint64_t now_ns) noexcept;

void DropDemandAtExit() noexcept;

}  // namespace cupola::intercept::preempt
