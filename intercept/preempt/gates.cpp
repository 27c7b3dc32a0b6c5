#include "intercept/preempt/gates.h"

#include "intercept/launch_path.h"
#include "intercept/preempt/counters.h"
#include "intercept/preempt/driver_calls.h"
#include "intercept/preempt/gpu_board.h"
#include "intercept/preempt/guarded_launch.h"
#include "intercept/preempt/preempt_context.h"
#include "intercept/preempt/preemption.h"

namespace cupola::intercept::preempt {
namespace {

constexpr unsigned kMostAttributes = 16;

bool HasPriority(const LaunchCall& call) {
  for (unsigned i = 0; i < call.attribute_count; ++i) {
    if (call.attributes[i].id == CU_LAUNCH_ATTRIBUTE_PRIORITY) return true;
  }
  return false;
}

bool IsDue(PreemptContext& context, const LaunchFacts& facts, const StreamKey& stream) {
  if (facts.door == LaunchDoor::kLaunchGraph) return true;
  std::atomic<uint32_t>& launches = context.since_gate[stream.stream % PreemptContext::kGateCounts];
  return launches.fetch_add(1, std::memory_order_relaxed) % settings.gate_every == 0;
}

}  // namespace

bool GatesMayHold(const PreemptContext& context) noexcept {
  const GpuBoard& gpu = *context.gpu;
  if (settings.gate_every == 0 || gpu.shares_context()) return false;
  return gpu.may_be_asked() || gpu.requests() != 0;
}

void GateStream(PreemptContext& context, const LaunchFacts& facts, const StreamKey& stream,
                GateWhen when) noexcept {
  if (!GatesMayHold(context)) return;
  if (when == GateWhen::kDue && !IsDue(context, facts, stream)) return;
  if (IsCapturing(facts.stream, facts.per_thread)) return;
  if (!MapBoard(&context)) return;
  const auto wait = Real<PFN_cuStreamWaitValue32_v11070>(
      facts.per_thread ? Call::k_cuStreamWaitValue32_v2_ptsz : Call::k_cuStreamWaitValue32_v2);
  if (wait(facts.stream, context.gate_word, 1, CU_STREAM_WAIT_VALUE_GEQ) != CUDA_SUCCESS) return;
  Count(counters.gates);
  context.queued.fetch_add(1, std::memory_order_relaxed);
}

bool WantsPriority(const PreemptContext& context) noexcept {
  return context.gpu->shares_context() && context.gpu->may_ask();
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
