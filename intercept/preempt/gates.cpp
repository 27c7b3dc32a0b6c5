#include "intercept/preempt/gates.h"

#include <algorithm>
#include <cstddef>

#include "intercept/path/launch_path.h"
#include "intercept/preempt/counters.h"
#include "intercept/preempt/gpu_board.h"
#include "intercept/preempt/guarded_launch.h"
#include "intercept/preempt/preempt_context.h"
#include "intercept/preempt/preemption.h"
#include "intercept/process/driver_calls.h"

namespace cupola::intercept::preempt {
namespace {

constexpr unsigned kMostAttributes = 16;
// Work between two gates, and launches, however short: whoever asks waits for that, a gate costs some
// 2 us. Half of what may lie between them, for launches are judged by their mean.
constexpr uint64_t kBetweenGatesNs = 250'000;
constexpr uint64_t kMostBetweenGates = 64;

bool HasPriority(const LaunchCall& call) {
  for (unsigned i = 0; i < call.attribute_count; ++i) {
    if (call.attributes[i].id == CU_LAUNCH_ATTRIBUTE_PRIORITY) return true;
  }
  return false;
}

uint64_t LaunchesBetweenGates(uint64_t ns_per_launch) {
  if (ns_per_launch == 0) return settings.gate_every;
  return std::clamp<uint64_t>(kBetweenGatesNs / ns_per_launch, 1, kMostBetweenGates);
}

// Also where the gate was closed since the stream's last one: what comes now is to be held.
bool IsDue(PreemptContext& context, const LaunchFacts& facts, const StreamKey& stream) {
  if (facts.door == LaunchDoor::kLaunchGraph) return true;
  const sched::BoardSlot& slot = context.gpu->slot();
  const uint32_t wake = slot.wake.load(std::memory_order_relaxed);
  const bool is_closed = slot.gate.load() == 0;
  const auto entry = stream.stream % PreemptContext::kGateCounts;
  std::atomic<uint32_t>& gated_at = context.gated_at[entry];
  const bool is_first = is_closed && gated_at.load(std::memory_order_relaxed) != wake;
  const uint64_t every = LaunchesBetweenGates(context.gpu->demand.time_per_launch.ns());
  // Threads that launch on one stream at the same time may miscount, and gate once too often.
  std::atomic<uint32_t>& since = context.since_gate[entry];
  const uint32_t launches = since.load(std::memory_order_relaxed);
  const bool is_due = launches == 0 || launches >= every || is_first;
  since.store(is_due ? 1 : launches + 1, std::memory_order_relaxed);
  if (is_first) gated_at.store(wake, std::memory_order_relaxed);
  return is_due;
}

bool WaitAtGate(PreemptContext& context, CUstream stream, bool per_thread) {
  const auto wait = Real<PFN_cuStreamWaitValue32_v11070>(
      per_thread ? Call::k_cuStreamWaitValue32_v2_ptsz : Call::k_cuStreamWaitValue32_v2);
  const CUresult result = wait(stream, context.gate_word, 1, CU_STREAM_WAIT_VALUE_GEQ);
  if (result == CUDA_ERROR_NOT_SUPPORTED) RefuseGates(&context, kNoStreamWaits);
  if (result != CUDA_SUCCESS) return false;
  Count(counters.gates);
  return true;
}

bool WritePassage(const PreemptContext& context, CUstream stream, bool per_thread, uint32_t index,
                  uint32_t passage) {
  const auto write = Real<PFN_cuStreamWriteValue32_v11070>(
      per_thread ? Call::k_cuStreamWriteValue32_v2_ptsz : Call::k_cuStreamWriteValue32_v2);
  const CUdeviceptr word = context.status_device + index * sizeof(runtime::HostStatus) +
                           offsetof(runtime::HostStatus, passed);
  return write(stream, word, passage, 0) == CUDA_SUCCESS;
}

bool PutGate(PreemptContext& context, const LaunchFacts& facts) {
  if (!WaitAtGate(context, facts.stream, facts.per_thread)) return false;
  context.queued.Add(1);
  DemandState& demand = context.gpu->demand;
  demand.gated_launches.store(demand.launches.load(std::memory_order_relaxed));
  return true;
}

}  // namespace

bool GatesMayHold(const GpuBoard& gpu) noexcept {
  if (!gpu.can_gate()) return false;
  // Equals that share a context run beside each other.
  if (gpu.shares_context()) return gpu.who_may_ask() == sched::HeldFor::kAnyone;
  return gpu.may_be_asked() || gpu.requests() != 0;
}

bool GatesMayHold(const PreemptContext& context) noexcept {
  return !context.gates_refused.load(std::memory_order_relaxed) && GatesMayHold(*context.gpu);
}

uint64_t BetweenGatesNs(const GpuBoard& gpu) noexcept {
  const uint64_t ns = gpu.demand.time_per_launch.ns();
  return ns * LaunchesBetweenGates(ns);
}

void GateStream(PreemptContext& context, const LaunchFacts& facts, const StreamKey& stream,
                GateWhen when) noexcept {
  if (!GatesMayHold(context)) return;
  if (when == GateWhen::kDue && !IsDue(context, facts, stream)) return;
  if (IsCapturing(facts.stream, facts.per_thread)) return;
  if (MapBoard(&context)) (void)PutGate(context, facts);
}

bool GateGuarded(PreemptContext& context, const LaunchFacts& facts) noexcept {
  GpuBoard& gpu = *context.gpu;
  if (!gpu.can_gate()) return false;
  const bool is_closed = gpu.requests() != 0 && gpu.sm_bound() == runtime::kAllSms &&
                         gpu.slot().gate.load() == 0;
  const bool may_close = !gpu.shares_context() && gpu.who_may_ask() == sched::HeldFor::kAnyone;
  return (is_closed || may_close) && PutGate(context, facts);
}

bool TellPassage(PreemptContext& context, const LaunchFacts& facts, uint32_t index,
                 uint32_t passage) noexcept {
  if (!WritePassage(context, facts.stream, facts.per_thread, index, passage)) return false;
  context.queued.Add(1);
  return true;
}

bool GateResume(PreemptContext& context, CUstream helper, uint32_t index,
                uint32_t passage) noexcept {
  return WaitAtGate(context, helper, /*per_thread=*/false) &&
         WritePassage(context, helper, /*per_thread=*/false, index, passage);
}

bool WantsPriority(const PreemptContext& context) noexcept {
  return context.gpu->shares_context() && context.gpu->may_ask() && !StandsAside();
}

CUresult MakePlainLaunch(PreemptContext& context, const LaunchFacts& facts,
                         const LaunchCall& call) noexcept {
  const bool has_form = facts.door == LaunchDoor::kLaunchKernel ||
                        facts.door == LaunchDoor::kLaunchKernelEx;
  if (!WantsPriority(context) || !has_form || HasPriority(call) ||
      call.attribute_count >= kMostAttributes ||
      IsCapturing(facts.stream, facts.per_thread)) {
    return call.make(call.data);
  }
  CUlaunchAttribute attributes[kMostAttributes];
  for (unsigned i = 0; i < call.attribute_count; ++i) attributes[i] = call.attributes[i];
  attributes[call.attribute_count] = CUlaunchAttribute{};
  attributes[call.attribute_count].id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
  attributes[call.attribute_count].value.priority = context.greatest_priority;
  CUlaunchConfig config{};
  config.gridDimX = facts.grid[0];
  config.gridDimY = facts.grid[1];
  config.gridDimZ = facts.grid[2];
  config.blockDimX = facts.block[0];
  config.blockDimY = facts.block[1];
  config.blockDimZ = facts.block[2];
  config.sharedMemBytes = facts.shared_bytes;
  config.hStream = facts.stream;
  config.attrs = attributes;
  config.numAttrs = call.attribute_count + 1;
  const auto launch = Real<PFN_cuLaunchKernelEx_v11060>(
      facts.per_thread ? Call::k_cuLaunchKernelEx_ptsz : Call::k_cuLaunchKernelEx);
  const auto function = static_cast<CUfunction>(const_cast<void*>(facts.function));
  const CUresult result = launch(&config, function, call.params, call.extra);
  if (result != CUDA_SUCCESS) return call.make(call.data);  // and let that say why
  Count(counters.priorities);
  return result;
}

}  // namespace cupola::intercept::preempt
