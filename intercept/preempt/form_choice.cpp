#include "intercept/preempt/form_choice.h"

#include <algorithm>

#include "intercept/facts/context_scope.h"
#include "intercept/facts/green_contexts.h"
#include "intercept/facts/launch_limits.h"
#include "intercept/facts/live_streams.h"
#include "intercept/launch/gates.h"
#include "intercept/launch/gpu_board.h"
#include "intercept/launch/hardware_queues.h"
#include "intercept/launch/launch_context.h"
#include "intercept/launch/launch_prediction.h"
#include "intercept/launch/preemption_settings.h"
#include "intercept/launch/variant_use.h"
#include "intercept/preempt/guarded_context.h"
#include "intercept/preempt/host_holds.h"
#include "intercept/preempt/launch_attempt.h"
#include "intercept/preempt/sliced_launch.h"
#include "intercept/preempt/variants.h"
#include "intercept/preempt/waiting.h"
#include "intercept/process/participation.h"
#include "intercept/process/tools.h"
#include "models/plan.h"
#include "profiles/claim_word.h"

namespace cupola::intercept::preempt {
namespace {

constexpr uint64_t kMostBlocks = uint64_t{1} << 31;  // PreemptParams::total_blocks
// Launches that are expected to take at most this long go out plain in a process that nobody may ask to
// yield, such as the one of highest priority.
constexpr uint64_t kShortUnaskedNs = 20'000'000;

// Whether a variant can run the launch's grid and block shape; fills total_blocks and threads.
bool ShapeFits(Attempt* attempt) {
  const auto& grid = attempt->launch.grid;
  const auto& block = attempt->launch.block;
  if (!GridIsAllowed(grid) || !BlockIsAllowed(block)) return false;
  const uint64_t rows = uint64_t{grid[1]} * grid[2];  // < 2^32
  if (rows > kMostBlocks / grid[0]) return false;
  attempt->total_blocks = static_cast<uint32_t>(rows * grid[0]);
  attempt->threads = block[0] * block[1] * block[2];
  return true;
}

// Whether anything is gained if the launch can be stopped. In the test mode kTurns each shape takes all forms by turns
// instead, and this function sets the claim word (`batch`) of this turn; 0 = plain.
bool IsWorthIt(Attempt* attempt, Reason* why) {
  *why = Reason::kShort;
  Variant& variant = *attempt->variant;
  if (preemption_settings.mode == PreemptMode::kTurns) {
    attempt->batch = TakeTurn(variant, attempt->launch);
    return attempt->batch != 0;
  }
  if (preemption_settings.mode == PreemptMode::kAlways || variant.is_configured) return true;
  switch (variant.plan_kernel != nullptr ? variant.plan_kernel->mode : models::PlanMode::kAuto) {
    case models::PlanMode::kPlain:
      return false;
    case models::PlanMode::kVariant:
      return true;
    case models::PlanMode::kAuto:
      break;
  }
  // While nobody asks, and nobody or only processes of the same priority may ask, a launch may be longer and still go
  // out plain. At worst a process that may ask comes while such a launch runs, and waits for it once.
  const GpuBoard& gpu = *attempt->context.gpu;
  if (attempt->expected.is_known && gpu.requests() == 0) {
    const sched::HeldFor who = gpu.who_may_ask();
    const bool for_nobody =
        who == sched::HeldFor::kNobody && attempt->expected.ns <= kShortUnaskedNs;
    if (for_nobody || (who == sched::HeldFor::kEquals &&
                       attempt->expected.ns < preemption_settings.equals_threshold_ns)) {
      *why = for_nobody ? Reason::kNobodyAsks : Reason::kShort;
      return false;
    }
  }
  if (attempt->expected.ns >= preemption_settings.threshold_ns) return true;
  // A launch of this shape was not seen yet. It may be worth stopping if it has more blocks than one
  // round of workers. Times of other shapes say little: blocks of a sparse matrix may be a hundred times
  // as long.
  return !attempt->expected.is_known && attempt->total_blocks > attempt->workers;
}

// The reason why a variant is not usable: the configuration wants another form, or the variant is not
// bit-exact.
Reason WhyUnusable(const Variant& variant) {
  if (variant.is_ruled) return Reason::kConfigured;
  const uint32_t flags = variant.entry->flags;
  return (flags & (store::kNotBitExact | store::kSlicedNotBitExact)) != 0 ? Reason::kInexact
                                                                          : Reason::kNoVariant;
}

// Whether it is of use to slice a kernel that has no preemptible variant. If processes share a context (MPS), launch
// priorities serve as well and cost nothing.
bool MayBeSliced(const LaunchContext& context) {
  return GatesMayHold(context) && !context.gpu->shares_context() && preemption_settings.mode != PreemptMode::kTurns;
}

// Whether the launch may go out in another form, as far as can be told without waiting for anything.
bool IsCandidate(Attempt* attempt, Reason* why) {
  const Launch& launch = attempt->launch;
  *why = Reason::kTool;
  if (StandsAside()) return false;
  *why = Reason::kNoVariant;
  if (launch.function == nullptr || preemption_settings.mode == PreemptMode::kNever) return false;
  attempt->variant = FindVariant(launch.function);
  if (attempt->variant == nullptr) return false;
  SettleVariant(*attempt->variant, attempt->context);
  *why = WhyUnusable(*attempt->variant);
  if (!attempt->variant->usable) return false;
  *why = Reason::kNobodyAsks;
  if (attempt->variant->is_fallback && !MayBeSliced(attempt->context)) return false;
  *why = Reason::kCooperative;
  if ((launch.flags & kFlagCooperative) != 0) return false;
  *why = Reason::kAttribute;
  if (!KeepAttributes(attempt->launch, &attempt->attributes)) return false;
  if (!attempt->attributes.has_priority && WantsPriority(attempt->context)) {
    attempt->attributes.SetPriority(attempt->context.greatest_priority);
  }
  *why = Reason::kShape;
  if (!ShapeFits(attempt)) return false;
  if (!KernelAllows(*attempt->variant, launch.block, launch.shared_bytes)) return false;
  *why = Reason::kCapturing;
  if (IsCapturing(launch.stream, launch.per_thread)) return false;
  *why = Reason::kHeld;
  if (AnyIsHeld() && IsHeld(attempt->stream, launch.stream, launch.per_thread)) return false;  // plant: holds_unseen
  *why = Reason::kGreen;
  if (IsGreen(launch.stream, attempt->stream)) return false;
  *why = Reason::kTooManyStreams;
  if (!StreamsFitQueues()) return RecordTooManyStreams(), false;
  *why = Reason::kNoContext;
  const LaunchContext::State state = attempt->context.state.load(std::memory_order_acquire);
  return attempt->context.gpu->has_agent.load() &&
         (state == LaunchContext::State::kReady || state == LaunchContext::State::kBoard);
}

// Prepares the variant and the block shape in the context, and fills `prepared` and `workers` (UINT32_MAX: the block
// shape is not prepared yet; 0: its launches go out plain). This may wait for the device, once for each kernel, context
// and block shape; no launch of the context is guarded meanwhile.
bool Prepare(Attempt* attempt, Reason* why) {
  LaunchContext& context = attempt->context;
  const auto shared = attempt->launch.shared_bytes;
  if (context.state.load(std::memory_order_acquire) == LaunchContext::State::kReady) {
    attempt->prepared = FindPrepared(*attempt->variant, context);
    if (attempt->prepared != nullptr) {
      attempt->workers = FindWorkers(*attempt->prepared, attempt->threads, shared);
    }
  }
  if (attempt->prepared == nullptr || attempt->workers == UINT32_MAX) {
    *why = Reason::kCapturing;
    if (open_captures.load() != 0) return false;
    *why = Reason::kHeld;  // loading a variant would wait for the hold, in the driver
    if (IsHeldAnywhere(context.context)) return false;
    const WaitingScope scope(context);
    if (scope.is_kept()) return false;
    *why = Reason::kNoContext;
    const ContextScope current(context.context);
    if (!current.is_made()) return false;
    MakeReady(&context);
    if (context.state.load() != LaunchContext::State::kReady) return false;
    attempt->prepared = PrepareVariant(*attempt->variant, context, attempt->launch.function);
    if (attempt->prepared != nullptr && attempt->prepared->function != nullptr) {
      attempt->workers = PrepareShape(*attempt->variant, *attempt->prepared, context,
                                      attempt->launch.function, attempt->threads, shared);
      const bool has_workers = attempt->workers != 0 && attempt->workers != UINT32_MAX;
      if (has_workers && !attempt->variant->is_sliced && !StandsAside()) {
        context.gpu->SetAbility(sched::kCanPreempt, true);
      }
    }
  }
  *why = Reason::kRefused;
  if (attempt->prepared == nullptr || attempt->prepared->function == nullptr) return false;
  *why = Reason::kShared;
  return attempt->workers != 0;
}

// Whether the kernel may contain a barrier over its whole grid. That is possible only if the GPU holds
// all blocks at a time, as blocks of the original kernel or as workers.
bool MayBeBarrier(const Attempt& attempt) {
  const uint32_t resident = FindResidentBlocks(*attempt.prepared, attempt.threads,
                                               attempt.launch.shared_bytes);
  return attempt.total_blocks <= std::max(attempt.workers, resident);
}

// Chooses L, the order of claims and the number of workers; the result is a word of profiles/claim_word.h.
// Where blocks may wait for others, each claim takes one block.
uint32_t BatchOf(const Attempt& attempt) {
  if (MayWaitOnBlocks(*attempt.variant)) return 1;
  if (attempt.batch != 0) return attempt.batch;
  if (preemption_settings.batch != 0) return preemption_settings.batch;
  if (const models::PlanKernel* known = attempt.variant->plan_kernel) {
    // About the time of a block while the GPU runs as many blocks as it holds.
    const uint32_t rounds = (attempt.total_blocks - 1) / attempt.workers + 1;
    const uint64_t block_ns = attempt.expected.is_known ? attempt.expected.ns / rounds : 0;
    if (models::IsTunedFor(*known, block_ns)) return std::max(known->batch, 1u);
    const uint64_t likely_ns = block_ns != 0 ? block_ns : known->block_ns;
    if (likely_ns != 0) return models::BatchFor(likely_ns);
  }
  constexpr uint32_t kUnseen = 8, kMost = 16;
  const uint64_t seen_ns =
      attempt.variant->ns_per_1024_blocks.load(std::memory_order_relaxed) * attempt.workers / 1024;
  return seen_ns == 0 ? kUnseen : std::min(models::BatchFor(seen_ns), kMost);
}

// Reduces the workers to some eighths, or by one on each SM if there are several on it, if the claim
// word says so (profiles/claim_word.h tells for which kernels). The eighths do not apply if other
// processes may ask this one to leave only some SMs: beside fewer workers, their blocks would find room
// on the SMs that this process keeps, and run there.
void SettleWorkers(Attempt* attempt) {
  const uint32_t sms = attempt->context.gpu->sm_count();
  if (!attempt->context.gpu->may_share_sms()) {
    attempt->workers = sms * profiles::WorkersOnSm(attempt->batch, attempt->workers / sms);
  }
  if (!profiles::HasOneWorkerLess(attempt->batch) || attempt->workers < 2 * sms) return;
  attempt->workers -= sms;
  attempt->carveout =
      FindCarveout(*attempt->prepared, attempt->threads, attempt->launch.shared_bytes);
  if (attempt->carveout != 0) attempt->attributes.SetCarveout(attempt->carveout);
}

}  // namespace

uint64_t ExpectForDemand(Attempt* attempt) noexcept {
  if (attempt->launch.function == nullptr) return 0;
  attempt->variant = FindVariant(attempt->launch.function);
  if (attempt->variant == nullptr || !ShapeFits(attempt)) return 0;
  SettleVariant(*attempt->variant, attempt->context);
  attempt->expected = Predict(*attempt->variant, attempt->launch, attempt->total_blocks);
  return attempt->expected.is_known ? attempt->expected.ns : 0;
}

Form ChooseForm(Attempt* attempt, Reason* why) noexcept {
  if (!IsCandidate(attempt, why) || !Prepare(attempt, why)) return Form::kPlain;
  const Variant& variant = *attempt->variant;
  *why = Reason::kResident;
  if (MayWaitOnBlocks(variant) && MayBeBarrier(*attempt)) return Form::kPlain;
  *why = Reason::kShort;  // also for a launch of no more blocks than one slice
  // If the launch begins a demand, ExpectForDemand has made the prediction already.
  if (!attempt->expected.is_known) attempt->expected = Predict(variant, attempt->launch, attempt->total_blocks);
  if (variant.is_fallback && attempt->total_blocks <= BlocksOfSlice(*attempt)) return Form::kPlain;
  if (!IsWorthIt(attempt, why)) return Form::kPlain;
  if (variant.is_sliced) return Form::kSliced;
  attempt->batch = BatchOf(*attempt);
  SettleWorkers(attempt);
  return Form::kPreemptible;
}

}  // namespace cupola::intercept::preempt
