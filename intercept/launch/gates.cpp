#include "intercept/launch/gates.h"

#include <algorithm>
#include <cstddef>

#include "intercept/launch/gpu_board.h"
#include "intercept/launch/launch.h"
#include "intercept/launch/launch_context.h"
#include "intercept/launch/launch_counters.h"
#include "intercept/launch/preemption_settings.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/tools.h"

namespace cupola::intercept {
namespace {

constexpr unsigned kMostAttributes = 16;
// The most work between two gates, as time and as launches, however short they are. Whoever asks
// waits for that work; a gate costs some 2 us.
constexpr uint64_t kBetweenGatesNs = 250'000;
constexpr uint64_t kMostBetweenGates = 64;

bool HasPriority(const Launch& launch) {
  for (unsigned i = 0; i < launch.attribute_count; ++i) {
    if (launch.attributes[i].id == CU_LAUNCH_ATTRIBUTE_PRIORITY) return true;
  }
  return false;
}

uint64_t LaunchesBetweenGates(uint64_t ns_per_launch) {
  if (ns_per_launch == 0) return preemption_settings.gate_every;
  return std::clamp<uint64_t>(kBetweenGatesNs / ns_per_launch, 1, kMostBetweenGates);
}

// Whether the launch gets a gate (GateWhen::kDue). It also does if the gate was closed since the
// stream's last gate, so that the launch is held. A launch of which nothing is known counts as the mean one.
bool IsDue(LaunchContext& context, const Launch& launch, const StreamKey& stream, uint64_t expected_ns) {
  if (launch.door == LaunchDoor::kLaunchGraph) return true;
  const sched::BoardSlot& slot = context.gpu->slot();
  const uint32_t wake = slot.wake.load(std::memory_order_relaxed);
  const bool is_closed = slot.gate.load() == 0;
  const auto entry = stream.stream % LaunchContext::kGateCounts;
  std::atomic<uint32_t>& gated_at = context.gated_at[entry];
  const bool is_first = is_closed && gated_at.load(std::memory_order_relaxed) != wake;
  if (expected_ns == 0) {
    expected_ns = kBetweenGatesNs / LaunchesBetweenGates(context.gpu->demand.time_per_launch.ns());
  }
  // Threads that launch on one stream at the same time may miscount, and put a gate too many.
  std::atomic<uint32_t>& since = context.since_gate[entry];
  std::atomic<uint64_t>& since_ns = context.since_gate_ns[entry];
  const uint32_t launches = since.load(std::memory_order_relaxed);
  const uint64_t work_ns = since_ns.load(std::memory_order_relaxed) + expected_ns;
  const bool is_due = launches == 0 || launches >= kMostBetweenGates || work_ns > kBetweenGatesNs || is_first;
  since.store(is_due ? 1 : launches + 1, std::memory_order_relaxed);
  since_ns.store(is_due ? expected_ns : work_ns, std::memory_order_relaxed);
  if (is_first) gated_at.store(wake, std::memory_order_relaxed);
  return is_due;
}

bool WaitAtGate(LaunchContext& context, CUstream stream, bool per_thread) {
  const CUresult result = StreamWaitsForWord(stream, per_thread, context.gate_word, 1);
  if (result == CUDA_ERROR_NOT_SUPPORTED) RefuseGates(&context, kNoStreamWaits);
  if (result != CUDA_SUCCESS) return false;
  Count(launch_counters.gates);
  return true;
}

bool WritePassage(const LaunchContext& context, CUstream stream, bool per_thread, uint32_t index,
                  uint32_t passage) {
  const CUdeviceptr word = context.status_device + index * sizeof(runtime::HostStatus) +
                           offsetof(runtime::HostStatus, passed);
  return StreamWritesWord(stream, per_thread, word, passage) == CUDA_SUCCESS;
}

// A gate that is not counted in LaunchContext::queued.
bool PutUncountedGate(LaunchContext& context, CUstream stream, bool per_thread) {
  if (!WaitAtGate(context, stream, per_thread)) return false;
  DemandState& demand = context.gpu->demand;
  demand.gated_launches.store(demand.launches.load(std::memory_order_relaxed));
  return true;
}

bool PutGate(LaunchContext& context, const Launch& launch) {
  if (!PutUncountedGate(context, launch.stream, launch.per_thread)) return false;
  context.queued.Add(1);
  return true;
}

uint64_t PlainBetweenGatesNs(const GpuBoard& gpu) {
  const uint64_t ns = gpu.demand.time_per_launch.ns();
  return ns * LaunchesBetweenGates(ns);
}

}  // namespace

bool GatesMayHold(const GpuBoard& gpu) noexcept {
  if (!gpu.can_gate()) return false;
  // Processes of equal priority that share a context run beside each other.
  if (gpu.shares_context()) return gpu.who_may_ask() == sched::HeldFor::kAnyone;
  return gpu.may_be_asked() || gpu.requests() != 0;
}

bool GatesMayHold(const LaunchContext& context) noexcept {
  return !context.gates_refused.load(std::memory_order_relaxed) && GatesMayHold(*context.gpu);
}

uint64_t BetweenGatesNs(const GpuBoard& gpu) noexcept {
  uint64_t piece_ns = 0;
  ForEachContext([&](const LaunchContext& context) {
    if (context.gpu != &gpu || context.pieces.left() == 0) return;
    piece_ns = std::max(piece_ns, context.pieces.longest_ns.load(std::memory_order_relaxed));
  });
  return piece_ns != 0 ? piece_ns : PlainBetweenGatesNs(gpu);
}

uint64_t MeanTimeToGateNs(const GpuBoard& gpu) noexcept {
  bool are_pieces = false;
  uint64_t rest_ns = 0;
  ForEachContext([&](const LaunchContext& context) {
    const PieceQueue& pieces = context.pieces;
    if (context.gpu != &gpu) return;
    const bool are_last = pieces.last_launch.load() == gpu.demand.plain_launches.load();
    if (pieces.left() == 0 && pieces.pending() == 0 && !are_last) return;
    are_pieces = true;
    rest_ns = std::max(rest_ns, pieces.mean_rest_ns.load(std::memory_order_relaxed));
  });
  return are_pieces ? rest_ns : PlainBetweenGatesNs(gpu) / 2;
}

void GateStream(LaunchContext& context, const Launch& launch, const StreamKey& stream,
                GateWhen when, uint64_t expected_ns) noexcept {
  if (!GatesMayHold(context)) return;
  if (when == GateWhen::kDue && !IsDue(context, launch, stream, expected_ns)) return;
  if (IsCapturing(launch.stream, launch.per_thread)) return;
  if (MapBoard(&context)) (void)PutGate(context, launch);
}

void GatePiece(LaunchContext& context, CUstream stream, bool per_thread) noexcept {
  if (GatesMayHold(context) && MapBoard(&context)) (void)PutUncountedGate(context, stream, per_thread);
}

bool GateGuarded(LaunchContext& context, const Launch& launch) noexcept { return PutGate(context, launch); }

bool TellPassage(LaunchContext& context, const Launch& launch, uint32_t index,
                 uint32_t passage) noexcept {
  if (!WritePassage(context, launch.stream, launch.per_thread, index, passage)) return false;
  context.queued.Add(1);
  return true;
}

bool GateResume(LaunchContext& context, CUstream helper, uint32_t index,
                uint32_t passage) noexcept {
  return WaitAtGate(context, helper, /*per_thread=*/false) &&
         WritePassage(context, helper, /*per_thread=*/false, index, passage);
}

bool WantsPriority(const LaunchContext& context) noexcept {
  return context.gpu->shares_context() && context.gpu->may_ask() && !StandsAside();
}

CUresult MakePlainLaunch(LaunchContext& context, const Launch& launch,
                         const ProgramCall& call) noexcept {
  const bool has_form = launch.door == LaunchDoor::kLaunchKernel ||
                        launch.door == LaunchDoor::kLaunchKernelEx;
  if (!WantsPriority(context) || !has_form || HasPriority(launch) ||
      launch.attribute_count >= kMostAttributes ||
      IsCapturing(launch.stream, launch.per_thread)) {
    return call();
  }
  CUlaunchAttribute attributes[kMostAttributes];
  for (unsigned i = 0; i < launch.attribute_count; ++i) attributes[i] = launch.attributes[i];
  attributes[launch.attribute_count] = CUlaunchAttribute{};
  attributes[launch.attribute_count].id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
  attributes[launch.attribute_count].value.priority = context.greatest_priority;
  CUlaunchConfig config{};
  config.gridDimX = launch.grid[0];
  config.gridDimY = launch.grid[1];
  config.gridDimZ = launch.grid[2];
  config.blockDimX = launch.block[0];
  config.blockDimY = launch.block[1];
  config.blockDimZ = launch.block[2];
  config.sharedMemBytes = launch.shared_bytes;
  config.hStream = launch.stream;
  config.attrs = attributes;
  config.numAttrs = launch.attribute_count + 1;
  const auto launch_kernel = Real<PFN_cuLaunchKernelEx_v11060>(
      launch.per_thread ? Call::k_cuLaunchKernelEx_ptsz : Call::k_cuLaunchKernelEx);
  const auto function = static_cast<CUfunction>(const_cast<void*>(launch.function));
  const CUresult result = launch_kernel(&config, function, launch.params, launch.extra);
  if (result != CUDA_SUCCESS) return call();  // the program gets the error of its own call
  Count(launch_counters.priorities);
  return result;
}

}  // namespace cupola::intercept
