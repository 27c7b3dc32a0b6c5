// The agent's part of demand.h: markers, leases, and bursts that end without a synchronising call.
#include <cuda.h>

#include "intercept/facts/green_contexts.h"
#include "intercept/facts/streams.h"
#include "intercept/launch/agent_context.h"
#include "intercept/launch/burst.h"
#include "intercept/launch/demand.h"
#include "intercept/launch/gates.h"
#include "intercept/launch/gpu_board.h"
#include "intercept/launch/launch_context.h"
#include "intercept/launch/launch_counters.h"
#include "intercept/launch/preemption_settings.h"
#include "intercept/launch/resident.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/fast_clock.h"
#include "intercept/process/mutex_lock.h"

namespace cupola::intercept {
namespace {

using burst::AskLate, burst::EndUnlessLaunched, burst::IsHeeded, burst::kTickNs, burst::LeaseFor;
using Phase = DemandState::Phase;

// How long the agent sleeps between two looks at demand for whose end nobody waits. A process without demand counts as
// one that soon has it again for kLatelyNs.
constexpr uint64_t kIdleTickNs = 10'000'000;
constexpr uint64_t kLatelyNs = 1'000'000'000;

// A marker is a stream write to a word of mapped memory, which the stream makes when it gets there.
// There is one word for each stream of a burst, at the stream's index in DemandState::burst.
bool MakeMarkerWords(LaunchContext* context) {
  if (context->markers_device != 0) return true;
  void* words = context->markers;
  context->markers_device = RegisterKept(&words, kMarkedStreams * sizeof(uint32_t));
  context->markers = static_cast<uint32_t*>(words);
  return context->markers_device != 0;
}

bool IsInGreen(const BurstStream& one) {
  return IsGreen(one.handle, {reinterpret_cast<uint64_t>(one.context->context.load()), 0, 0});
}

// Whether all streams of the burst can get markers. A per-thread stream cannot: it has no handle that
// another thread could use. The legacy stream can only if it is the only one: a marker there would
// come between the blocking streams of the burst. A green context must not become current on a second
// thread (docs/notes/2026-11-28-green-contexts-and-threads.md).
bool CanMark(const DemandState& state, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    const BurstStream& one = state.burst[i];
    const bool is_legacy = one.id.load(std::memory_order_relaxed) == 0;
    const bool has_name = is_legacy ? count == 1 : reinterpret_cast<uintptr_t>(one.handle) > 2;
    if (!has_name || one.context == nullptr || IsInGreen(one) || one.context->outstanding.load() != 0 ||
        MayBeInDriver(*one.context) ||  // plant: marked_in_call
        one.context->state.load() == LaunchContext::State::kDead) {
      return false;
    }
  }
  return count != 0;
}

bool PutMarker(const DemandState& state, uint32_t index) {
  const BurstStream& one = state.burst[index];
  if (TakeContext(one.context->context) != CUDA_SUCCESS || !MakeMarkerWords(one.context)) {
    return false;
  }
  const bool is_legacy = one.id.load(std::memory_order_relaxed) == 0;
  const CUstream handle = is_legacy ? CU_STREAM_LEGACY : one.handle;
  const CUdeviceptr word = one.context->markers_device + index * sizeof(uint32_t);
  return StreamWritesWord(handle, /*per_thread=*/false, word, state.marker) == CUDA_SUCCESS;
}

// Whether work that is put on streams now may wait at a gate: the gate is closed, and the streams
// are not known to have passed the last gate that was put. A thread that waits for such work is held
// as well.
bool IsHeldAtGates(const GpuBoard& gpu) {
  const DemandState& state = gpu.demand;
  return state.gated_launches.load() > state.ended_launches.load() && GatesMayHold(gpu) &&
         !sched::GateIsToBeOpen(gpu.slot());
}

// Puts the markers of a burst, once, when nothing was launched since the last look. Streams must have
// room and not capture. Tasks are in no stream, so there are no markers before their MasterKernel has
// left. There are none at closed gates either: a thread of the program could come to wait in the
// driver at that moment, and the agent would wait behind it.
void PutMarkers(GpuBoard& gpu, uint64_t launches) {
  DemandState& state = gpu.demand;
  if (state.returned.load() != launches || open_captures.load() != 0) return;
  if (IsHeldAtGates(gpu)) return;
  if (resident.tasks.have_work_on(gpu)) return;
  const MutexLock lock(state.marker_mutex);
  const uint32_t count = state.streams.load(std::memory_order_acquire);
  if (count > kMarkedStreams || !CanMark(state, count)) return;
  ++state.marker;
  for (uint32_t i = 0; i < count; ++i) {
    if (PutMarker(state, i)) continue;
    state.refused_launches = launches;  // no second try: each marker takes room of a stream
    return;
  }
  state.marked_launches = launches;  // plant: marker_forgotten
  Count(launch_counters.markers);
}

// Whether the markers that were put last have been reached.
enum class Reached : uint8_t { kAll, kNotYet, kUnknown };

Reached LookAtMarkers(const DemandState& state) {
  const MutexLock lock(state.marker_mutex);  // the words end with their context
  Reached reached = Reached::kAll;
  for (uint32_t i = 0; i < state.streams.load() && i < kMarkedStreams; ++i) {
    const LaunchContext* const context = state.burst[i].context;
    if (context == nullptr || context->markers_device == 0) return Reached::kUnknown;
    if (__atomic_load_n(&context->markers[i], __ATOMIC_ACQUIRE) != state.marker) {
      reached = Reached::kNotYet;
    }
  }
  return reached;
}

// Whether all contexts of the burst still work. The streams of a kernel that faulted never reach a
// marker, but every call in its context returns an error.
bool AreWell(const DemandState& state) {
  const MutexLock lock(state.marker_mutex);
  const auto ask = CUPOLA_CALL_REAL(cuMemGetInfo_v2, PFN_cuMemGetInfo_v3020);
  for (uint32_t i = 0; i < state.streams.load() && i < kMarkedStreams; ++i) {
    LaunchContext* const context = state.burst[i].context;
    if (context == nullptr) return false;
    if (MayBeInDriver(*context)) continue;  // the program's own call returns the error
    if (TakeContext(context->context) != CUDA_SUCCESS) return false;
    size_t free = 0, total = 0;
    const bool is_ready = context->state.load() == LaunchContext::State::kReady;
    if (is_ready ? !resident.guarded.is_well(*context) : ask(&free, &total) != CUDA_SUCCESS) return false;
  }
  return true;
}

// Whether a burst that does not ask is to do so after all: the program has waited for it for too long, or no longer
// launches and may poll for its end, or others may now ask this process, which then takes its turn by its demand.
bool IsTimeToAsk(const GpuBoard& gpu, uint64_t now_ns) {
  const DemandState& state = gpu.demand;
  const uint64_t since_ns = state.waits_since_ns.load(std::memory_order_relaxed);
  if (since_ns != 0) return now_ns > since_ns && now_ns - since_ns > state.patience_ns.load(std::memory_order_relaxed);
  return now_ns - state.quiet_since_ns > 2 * kTickNs || gpu.may_be_asked();
}

// Whether work of the burst may still be under way, as far as the agent can tell.
bool IsAtWork(GpuBoard& gpu, bool was_quiet, uint64_t now_ns) {
  DemandState& state = gpu.demand;
  bool has_guarded = false, has_call = false;
  ForEachContext([&](LaunchContext& context) {
    if (context.gpu != &gpu) return;
    has_guarded |= context.outstanding.load() != 0;
    has_call |= MayBeInDriver(context);
  });
  // A process that others ask to yield still waits for its turn: its quiet time does not count.
  const bool is_busy = has_guarded || !was_quiet || resident.tasks.have_work_on(gpu);
  if (is_busy || gpu.requests() != 0) state.quiet_since_ns = now_ns;
  if (is_busy) return true;
  if (now_ns - state.quiet_since_ns > preemption_settings.demand_limit_ns) return false;
  const uint64_t launches = state.seen_launches;
  if (state.returned.load() != launches) return true;  // a launch waits for room
  // In these two cases PutMarkers puts no markers.
  const bool goes_unmarked = has_call || IsHeldAtGates(gpu);
  if (goes_unmarked && state.marked_launches != launches) {
    return state.ended_launches.load() < launches;
  }
  return state.marked_launches == launches && LookAtMarkers(state) == Reached::kNotYet &&
         AreWell(state);
}

}  // namespace

uint64_t DemandTickNs(GpuBoard& gpu) noexcept {
  if (gpu.demand.phase.load() != Phase::kOn) {
    // A burst begins without waking the agent, but the agent must notice its end. So it looks often
    // while bursts were seen lately. (If the daemon heeds demand, Begin wakes a sleeping agent.)
    const uint64_t ended = gpu.demand.ended_ns.load(std::memory_order_relaxed);
    const bool lately = ended != 0 && MonotonicNs() - ended < kLatelyNs;
    return lately && gpu.may_ask() ? kTickNs : UINT64_MAX;
  }
  // Nobody waits for demand to end: the agent only renews the lease.
  if (!IsHeeded(gpu)) return kIdleTickNs;
  return gpu.demand.gaps_are_short.load(std::memory_order_relaxed) ? preemption_settings.short_gap_ns
                                                                   : kTickNs;
}

void LookAfterDemand(GpuBoard& gpu, uint64_t now_ns) noexcept {
  DemandState& state = gpu.demand;
  if (state.phase.load() != Phase::kOn) return;
  const uint64_t launches = state.launches.load();
  const bool quiet = launches == state.seen_launches;
  state.seen_launches = launches;
  if (!quiet) state.quiet_since_ns = now_ns;
  const uint64_t end_at = state.end_at_ns.load();
  const bool lingers = end_at != 0;  // the grace period is under way
  if (lingers && now_ns >= end_at) {
    return EndUnlessLaunched(gpu, state.end_launches.load(std::memory_order_relaxed), now_ns);
  }
  const bool is_marked = quiet && state.marked_launches == launches;
  if (is_marked && LookAtMarkers(state) == Reached::kAll) {
    state.ended_launches.store(launches);
    return EndUnlessLaunched(gpu, launches, now_ns);
  }
  if (quiet && !is_marked && !lingers && state.refused_launches != launches) {
    PutMarkers(gpu, launches);
  }
  if (!state.asks.load()) {
    if (IsTimeToAsk(gpu, now_ns)) AskLate(gpu, now_ns);
    return;
  }
  // The lease is renewed before it runs out: at that moment the daemon would let the others go.
  const uint64_t lease_ns = LeaseFor(gpu, 0);
  const uint64_t until_ns = gpu.slot().demand_until_ns.load();
  const uint64_t board_now_ns = gpu.OnBoard(now_ns);
  if (board_now_ns + lease_ns / 2 < until_ns) return;
  if (!IsAtWork(gpu, quiet, now_ns)) {
    if (board_now_ns >= until_ns) EndUnlessLaunched(gpu, launches, now_ns);
    return;
  }
  // plant: never_renewed
  state.renewed_ns.store(now_ns, std::memory_order_relaxed);
  sched::UpdateDemand(gpu.board(), gpu.index(), {.lease_ns = lease_ns}, board_now_ns);
  // end plant: never_renewed
}

}  // namespace cupola::intercept
