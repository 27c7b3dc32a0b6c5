#include "intercept/preempt/guarded_launch.h"

#include <algorithm>
#include <cstring>

#include "intercept/facts/green_contexts.h"
#include "intercept/facts/launch_limits.h"
#include "intercept/facts/live_streams.h"
#include "intercept/path/launch_path.h"
#include "intercept/preempt/counters.h"
#include "intercept/preempt/demand.h"
#include "intercept/preempt/gates.h"
#include "intercept/preempt/gpu_board.h"
#include "intercept/preempt/hardware_queues.h"
#include "intercept/preempt/host_holds.h"
#include "intercept/preempt/launch_arguments.h"
#include "intercept/preempt/launch_attempt.h"
#include "intercept/preempt/launch_prediction.h"
#include "intercept/preempt/plain_launch.h"
#include "intercept/preempt/preempt_context.h"
#include "intercept/preempt/row_launch.h"
#include "intercept/preempt/sliced_launch.h"
#include "intercept/preempt/sm_demand.h"
#include "intercept/preempt/variants.h"
#include "intercept/preempt/waiting.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/fast_clock.h"
#include "intercept/process/mutex_lock.h"
#include "intercept/process/notice.h"
#include "intercept/process/thread_state.h"
#include "models/plan.h"
#include "profiles/claim_word.h"

namespace cupola::intercept::preempt {
namespace {

constexpr uint64_t kMostBlocks = uint64_t{1} << 31;
// Launches of a process that nobody may ask to yield, the one of highest priority above all, need no
// variant and lose nothing by one that they do not have, where they are no longer than this.
constexpr uint64_t kShortUnaskedNs = 20'000'000;

bool ShapeFits(Attempt* attempt) {
  const auto& grid = attempt->facts.grid;
  const auto& block = attempt->facts.block;
  if (!GridIsAllowed(grid) || !BlockIsAllowed(block)) return false;
  const uint64_t rows = uint64_t{grid[1]} * grid[2];  // < 2^32
  if (rows > kMostBlocks / grid[0]) return false;
  attempt->total_blocks = static_cast<uint32_t>(rows * grid[0]);
  attempt->threads = block[0] * block[1] * block[2];
  return true;
}

// Whether stopping it would gain anything.
bool IsWorthIt(Attempt* attempt, Plain* why) {
  *why = Plain::kShort;
  Variant& variant = *attempt->variant;
  if (settings.mode == Mode::kTurns) {
    attempt->batch = TakeTurn(variant, attempt->facts);
    return attempt->batch != 0;
  }
  if (settings.mode == Mode::kAlways || variant.is_configured) return true;
  switch (variant.plan_kernel != nullptr ? variant.plan_kernel->mode : models::PlanMode::kAuto) {
    case models::PlanMode::kPlain:
      return false;
    case models::PlanMode::kVariant:
      return true;
    case models::PlanMode::kAuto:
      break;
  }
  // Whoever may ask comes while such a launch runs at worst, and waits for it once.
  const GpuBoard& gpu = *attempt->context.gpu;
  if (attempt->is_known && gpu.requests() == 0) {
    const sched::HeldFor who = gpu.who_may_ask();
    const bool for_nobody =
        who == sched::HeldFor::kNobody && attempt->predicted_ns <= kShortUnaskedNs;
    if (for_nobody || (who == sched::HeldFor::kEquals &&
                       attempt->predicted_ns < settings.equals_threshold_ns)) {
      *why = for_nobody ? Plain::kNobodyAsks : Plain::kShort;
      return false;
    }
  }
  if (attempt->predicted_ns >= settings.threshold_ns) return true;
  // Not seen yet: more than one round of workers says that there may be something to stop. Blocks of
  // other shapes say little: those of a sparse matrix may be a hundred times as long.
  return !attempt->is_known && attempt->total_blocks > attempt->workers;
}

// For a variant that is not used: its forms are not exact, or not what the configuration wants.
Plain WhyUnusable(const Variant& variant) {
  if (variant.is_ruled) return Plain::kConfigured;
  const uint32_t flags = variant.entry->flags;
  return (flags & (store::kNotBitExact | store::kSlicedNotBitExact)) != 0 ? Plain::kInexact
                                                                          : Plain::kNoVariant;
}

// Whether slices are any good. Where processes share a context launch priorities do as well, and cost nothing.
bool MayBeSliced(const PreemptContext& context) {
  return GatesMayHold(context) && !context.gpu->shares_context() && settings.mode != Mode::kTurns;
}

// What can be told without waiting for anything.
bool IsCandidate(Attempt* attempt, Plain* why) {
  const LaunchFacts& facts = attempt->facts;
  *why = Plain::kTool;
  if (StandsAside()) return false;
  *why = Plain::kNoVariant;
  if (facts.function == nullptr || settings.mode == Mode::kNever) return false;
  attempt->variant = FindVariant(facts.function);
  if (attempt->variant == nullptr) return false;
  SettleVariant(*attempt->variant, attempt->context);
  *why = WhyUnusable(*attempt->variant);
  if (!attempt->variant->usable) return false;
  *why = Plain::kNobodyAsks;
  if (attempt->variant->is_fallback && !MayBeSliced(attempt->context)) return false;
  *why = Plain::kCooperative;
  if ((facts.flags & kFlagCooperative) != 0) return false;
  *why = Plain::kAttribute;
  if (!KeepAttributes(attempt->call, &attempt->attributes)) return false;
  if (!attempt->attributes.has_priority && WantsPriority(attempt->context)) {
    attempt->attributes.SetPriority(attempt->context.greatest_priority);
  }
  *why = Plain::kShape;
  if (!ShapeFits(attempt) ||
      !KernelAllows(*attempt->variant, facts.block, facts.shared_bytes)) {
    return false;
  }
  const bool one_dimensional = facts.block[1] == 1 && facts.block[2] == 1;
  if ((attempt->variant->entry->flags & store::kOneDimensionalBlocks) != 0 && !one_dimensional) {
    return false;
  }
  *why = Plain::kCapturing;
  if (IsCapturing(facts.stream, facts.per_thread)) return false;
  *why = Plain::kHeld;
  if (AnyIsHeld() && IsHeld(attempt->stream, facts.stream, facts.per_thread)) return false;
  *why = Plain::kGreen;
  if (IsGreen(facts.stream, attempt->stream)) return false;
  *why = Plain::kTooManyStreams;
  if (!StreamsFitQueues()) return NoteStreamsExceedQueues(), false;
  *why = Plain::kNoContext;
  const PreemptContext::State state = attempt->context.state.load(std::memory_order_acquire);
  return attempt->context.gpu->has_agent.load() &&
         (state == PreemptContext::State::kReady || state == PreemptContext::State::kBoard);
}

// Everything that may wait, once a kernel, context and block shape: no launch of the context is
// guarded meanwhile.
bool Prepare(Attempt* attempt, Plain* why) {
  PreemptContext& context = attempt->context;
  const auto shared = attempt->facts.shared_bytes;
  if (context.state.load(std::memory_order_acquire) == PreemptContext::State::kReady) {
    attempt->prepared = FindPrepared(*attempt->variant, context);
    if (attempt->prepared != nullptr) {
      attempt->workers = FindWorkers(*attempt->prepared, attempt->threads, shared);
    }
  }
  if (attempt->prepared == nullptr || attempt->workers == UINT32_MAX) {
    *why = Plain::kCapturing;
    if (open_captures.load() != 0) return false;
    *why = Plain::kHeld;  // to load anything would wait for that, in the driver
    if (IsHeldAnywhere(context.context)) return false;
    const WaitingScope scope(context);
    if (scope.is_kept()) return false;
    MakeReady(&context);
    *why = Plain::kNoContext;
    if (context.state.load() != PreemptContext::State::kReady) return false;
    attempt->prepared = PrepareVariant(*attempt->variant, context, attempt->facts.function);
    if (attempt->prepared != nullptr && attempt->prepared->function != nullptr) {
      attempt->workers = PrepareShape(*attempt->variant, *attempt->prepared, context,
                                      attempt->facts.function, attempt->threads, shared);
      const bool has_workers = attempt->workers != 0 && attempt->workers != UINT32_MAX;
      if (has_workers && !attempt->variant->is_sliced && !StandsAside()) {
        context.gpu->SetAbility(sched::kCanPreempt, true);
      }
    }
  }
  *why = Plain::kRefused;
  if (attempt->prepared == nullptr || attempt->prepared->function == nullptr) return false;
  *why = Plain::kShared;
  return attempt->workers != 0;
}

// Blocks that may wait for one another may wait for all of them, where the GPU holds all: of the
// kernel as it is, or of its variant.
bool MayBeBarrier(const Attempt& attempt) {
  const uint32_t resident = FindResidentBlocks(*attempt.prepared, attempt.threads,
                                               attempt.facts.shared_bytes);
  return attempt.total_blocks <= std::max(attempt.workers, resident);
}

// L and order of claims: profiles/claim_word.h.
uint32_t BatchOf(const Attempt& attempt, bool may_wait_on_blocks) {
  if (may_wait_on_blocks) return 1;
  if (attempt.batch != 0) return attempt.batch;
  if (settings.batch != 0) return settings.batch;
  if (const models::PlanKernel* known = attempt.variant->plan_kernel) {
    // About what a block takes beside as many others as the GPU holds.
    const uint32_t rounds = (attempt.total_blocks - 1) / attempt.workers + 1;
    const uint64_t block_ns = attempt.is_known ? attempt.predicted_ns / rounds : 0;
    if (models::IsTunedFor(*known, block_ns)) return std::max(known->batch, 1u);
    const uint64_t likely_ns = block_ns != 0 ? block_ns : known->block_ns;
    if (likely_ns != 0) return models::BatchFor(likely_ns);
  }
  constexpr uint32_t kUnseen = 8, kMost = 16;
  const uint64_t seen_ns =
      attempt.variant->ns_per_1024_blocks.load(std::memory_order_relaxed) * attempt.workers / 1024;
  return seen_ns == 0 ? kUnseen : std::min(models::BatchFor(seen_ns), kMost);
}

// Some eighths of the workers, or one less on each SM, where there are several: that leaves them L1
// cache. All where others may ask for some SMs: beside fewer workers their blocks would find room on
// those that are not left, and run there when the workers let them.
void SettleWorkers(Attempt* attempt) {
  const uint32_t sms = attempt->context.gpu->sm_count();
  if (!attempt->context.gpu->may_share_sms()) {
    attempt->workers = sms * profiles::WorkersOnSm(attempt->batch, attempt->workers / sms);
  }
  if (!profiles::HasOneWorkerLess(attempt->batch) || attempt->workers < 2 * sms) return;
  attempt->workers -= sms;
  attempt->carveout =
      FindCarveout(*attempt->prepared, attempt->threads, attempt->facts.shared_bytes);
  if (attempt->carveout != 0) attempt->attributes.SetCarveout(attempt->carveout);
}

// A worker that takes no blocks is a small part of many, where they go on for long.
bool HasWatcher(const LaunchSlot& slot, uint32_t workers) {
  constexpr uint32_t kLeastRounds = 4;
  return workers >= std::max(settings.watch_from, 2u) && slot.flags == 0 &&
         slot.total_blocks / workers >= kLeastRounds;
}

runtime::PreemptParams ParamsOf(const PreemptContext& context, const LaunchSlot& slot,
                                uint32_t physical) {
  const uint32_t index = context.slots.IndexOf(&slot);
  runtime::PreemptParams params{};
  params.slot = context.ControlOf(index);
  params.returned = context.returned + index * sizeof(runtime::ReturnedList);
  params.status = context.status_device + index * sizeof(runtime::HostStatus);
  params.yield_line = IsAskedToLeave(physical) ? context.yield_line : 0;
  for (int i = 0; i < 3; ++i) params.grid[i] = slot.grid[i];
  params.total_blocks = slot.total_blocks;
  params.base_next = slot.base_next;
  params.base_completed = slot.base_completed;
  params.sequence = slot.sequence;
  params.batch = slot.claims.batch;
  params.physical = physical;
  params.tag = slot.tag[physical];
  params.workers = slot.workers[physical];
  runtime::SetPolls(params, settings.poll_period_ns);
  params.flags = slot.flags;
  if (HasWatcher(slot, params.workers)) params.flags |= runtime::kHasWatcher;
  params.look_after_ns = settings.look_after_ns;
  params.stride = slot.claims.stride;
  params.full_until = slot.claims.full_until;
  params.fresh_after_ns = settings.fresh_after_ns;
  runtime::SetSteady(params);
  return params;
}

// Writes the parameters of this physical launch behind the program's arguments and launches.
CUresult LaunchOn(PreemptContext& context, LaunchSlot& slot, uint32_t physical, CUstream stream,
                  bool per_thread, const KeptAttributes& attributes) {
  std::byte* const arguments = context.ArgumentsOf(context.slots.IndexOf(&slot));
  const runtime::PreemptParams params = ParamsOf(context, slot, physical);
  memcpy(arguments + slot.launch_offset, &params, sizeof(params));
  return LaunchRow({.function = static_cast<CUfunction>(slot.function),
                    .block = slot.block,
                    .shared_bytes = slot.shared_bytes,
                    .stream = stream,
                    .per_thread = per_thread,
                    .attributes = attributes,
                    .arguments = arguments,
                    .bytes = slot.launch_offset + sizeof(params)},
                   params.workers);
}

void FillSlot(const Attempt& attempt, bool is_blocking, LaunchSlot* slot) {
  const store::KernelEntry& entry = *attempt.variant->entry;
  const bool may_wait = (entry.flags & store::kMayWaitOnBlocks) != 0;
  slot->variant = attempt.variant;
  slot->function = attempt.prepared->function;
  slot->stream = attempt.stream.stream;
  slot->blocks_legacy = is_blocking;
  for (int i = 0; i < 3; ++i) {
    slot->grid[i] = attempt.facts.grid[i];
    slot->block[i] = attempt.facts.block[i];
  }
  slot->shared_bytes = attempt.facts.shared_bytes;
  const bool interleaves = attempt.total_blocks == attempt.facts.grid[0] &&
                           !profiles::IsInGridOrder(attempt.batch);
  slot->claims = runtime::ShapeClaims(attempt.total_blocks, attempt.workers,
                                      profiles::ClaimBatch(attempt.batch), interleaves);
  slot->flags = may_wait ? static_cast<uint32_t>(runtime::kRunWhatIsClaimed) : 0u;
  slot->all_workers = attempt.workers;
  slot->launch_offset = entry.launch_offset;
  slot->begun_ns = NowNs();
  slot->was_alone = attempt.context.outstanding.load(std::memory_order_relaxed) == 1;
  slot->has_priority = attempt.attributes.has_priority;
  slot->priority = attempt.attributes.priority;
  slot->carveout = attempt.carveout;
  GpuBoard& gpu = *attempt.context.gpu;
  slot->may_have_stopped = gpu.requests() != 0;
  slot->looked_at_bound = slot->may_have_stopped ? gpu.sm_bound() : 0;
}

// The stream waits until the launch is complete. A driver that takes a launch but not its guard
// leaves only waiting here, which keeps the order too.
void Guard(const Attempt& attempt, const LaunchSlot& slot) {
  PreemptContext& context = attempt.context;
  const uint32_t index = context.slots.IndexOf(&slot);
  const CUdeviceptr done = context.ControlOf(index) + offsetof(runtime::ControlSlot, done);
  const auto wait = Real<PFN_cuStreamWaitValue32_v11070>(attempt.facts.per_thread
                                                             ? Call::k_cuStreamWaitValue32_v2_ptsz
                                                             : Call::k_cuStreamWaitValue32_v2);
  const CUresult result = wait(attempt.facts.stream, done, slot.sequence, CU_STREAM_WAIT_VALUE_GEQ);
  if (result == CUDA_SUCCESS) return;
  static std::atomic_flag said;
  SayOnce(said, Level::kWarn, {"a stream takes no guard: error ", Decimal(result)});
  WaitForSlot(context, index, slot.sequence);
}

enum class Outcome {
  kLaunched,
  kPlain,
  kPlainAndUncounted,  // the context was given up, and all its launches with it
  kRetry,
};

// With the launch counted as outstanding: takes a slot and launches.
Outcome LaunchGuarded(const Attempt& attempt, CUresult* result, Plain* why) {
  PreemptContext& context = attempt.context;
  const bool is_blocking = IsBlocking(attempt.facts.stream, attempt.facts.per_thread);
  const MutexLock lock(context.launch_mutex);
  LaunchSlot* slot = nullptr;
  uint32_t physical = kNoPhysical, bound = 0, passage = 0;
  const bool is_gated = GateGuarded(context, attempt.facts);
  {
    const MutexLock slots_lock(context.slots_mutex);
    *why = Plain::kNoContext;
    if (context.state.load() != PreemptContext::State::kReady) return Outcome::kPlain;
    slot = context.slots.Take(attempt.total_blocks);
    if (slot == nullptr) return Outcome::kRetry;
    FillSlot(attempt, is_blocking, slot);
    if (is_gated) passage = context.slots.NoteGate(slot, /*is_resume=*/false);
    bound = slot->looked_at_bound;
    physical = context.slots.BeginPhysical(slot, std::min(attempt.workers, attempt.total_blocks));
  }
  const uint32_t index = context.slots.IndexOf(slot);
  if (is_gated && !TellPassage(context, attempt.facts, index, passage)) {
    const MutexLock slots_lock(context.slots_mutex);
    slot->is_gated = false;  // it may be under way, for all that is known
  }
  bool made = false;
  context.half_made.store(1);
  *why = Plain::kArguments;
  if (PackArguments(*attempt.variant, attempt.call, context.ArgumentsOf(index))) {
    *why = Plain::kRefused;
    *result = LaunchOn(context, *slot, physical, attempt.facts.stream, attempt.facts.per_thread,
                       attempt.attributes);
    made = *result == CUDA_SUCCESS;
  }
  if (!made) {
    context.half_made.store(0);
    const MutexLock slots_lock(context.slots_mutex);
    if (context.state.load() != PreemptContext::State::kReady) return Outcome::kPlainAndUncounted;
    context.slots.Cancel(slot);
    return Outcome::kPlain;
  }
  Guard(attempt, *slot);
  context.half_made.store(0);
  context.queued.Add(2);
  // Where all its workers came on SMs that are to be left, it goes on with others.
  if (bound != 0 && bound != runtime::kAllSms) context.gpu->WakeAgent();
  return Outcome::kLaunched;
}

// Counts the launch as outstanding before it looks for scopes; a scope counts itself before it
// looks for launches (both sequentially consistent): one of the two sees the other.
bool EnterAsGuarded(PreemptContext& context) {
  Watch(1);
  context.outstanding.fetch_add(1);
  const bool is_free = context.scopes.load() == 0 && scopes_elsewhere.load() == 0;
  if (is_free && StreamsFitQueues()) return true;
  context.outstanding.fetch_sub(1);
  Unwatch(1);
  return false;
}

void LeaveUnguarded(PreemptContext& context) {
  context.outstanding.fetch_sub(1);
  Unwatch(1);
}

bool TryGuarded(Attempt* attempt, CUresult* result, Plain* why) {
  if (!IsCandidate(attempt, why) || !Prepare(attempt, why)) return false;
  *why = Plain::kResident;
  const bool may_wait = (attempt->variant->entry->flags & store::kMayWaitOnBlocks) != 0;
  if (may_wait && MayBeBarrier(*attempt)) return false;
  *why = Plain::kShort;  // for slices, more than one
  if (!attempt->is_known) Predict(attempt);  // ExpectedNs has, where the launch begins a demand
  if (attempt->variant->is_fallback && attempt->total_blocks <= BlocksOfSlice(*attempt)) {
    return false;
  }
  if (!IsWorthIt(attempt, why)) return false;
  if (attempt->variant->is_sliced) return LaunchSliced(*attempt, result, why);
  attempt->batch = BatchOf(*attempt, may_wait);
  SettleWorkers(attempt);
  PreemptContext& context = attempt->context;
  KeepRoom(context);
  for (;;) {
    *why = Plain::kScopeOpen;
    if (!EnterAsGuarded(context)) return false;
    const Outcome outcome = LaunchGuarded(*attempt, result, why);
    if (outcome == Outcome::kLaunched) break;
    if (outcome == Outcome::kPlainAndUncounted) return false;
    LeaveUnguarded(context);
    if (outcome == Outcome::kPlain) return false;
    *why = Plain::kRingFull;
    if (!WaitForFreeSlot(context)) return false;
  }
  Count(counters.preemptible);
  this_thread.launched_variant = true;
  this_thread.launched_batch = attempt->batch;
  const models::PlanKernel* const known = attempt->variant->plan_kernel;
  context.gpu->NoteLaunch(known != nullptr ? known->preemption_ns : 0);
  return true;
}

// A launch as the program made it, behind gates, and with a marker where the program holds the stream.
CUresult LaunchPlain(PreemptContext& context, const LaunchFacts& facts, const StreamKey& stream,
                     const LaunchCall& call) {
  NotePlainLaunch(context.gpu->demand);
  if (AnyIsHeld()) [[unlikely]] MarkHeld(context, facts, stream);
  GateStream(context, facts, stream);
  if (facts.function == nullptr) return LaunchGraph(context, facts, stream, call);
  if (!IsKnownLoaded(facts.function)) [[unlikely]] return LaunchFirst(context, facts, call);
  if (context.outstanding.load() != 0) EnterPlain(context);
  return MakePlainLaunch(context, facts, call);
}

// For the launch that begins a demand: what it will take, for the arbiter, which weighs it against
// others of its priority; 0 = no idea, or nobody to be weighed against. A burst is judged by its
// first launch, and by its age once that has passed.
uint64_t ExpectedNs(Attempt* attempt) {
  const GpuBoard& gpu = *attempt->context.gpu;
  if (gpu.demand.phase.load() == DemandState::Phase::kOn || !gpu.may_be_asked() ||
      attempt->facts.function == nullptr) {
    return 0;
  }
  attempt->variant = FindVariant(attempt->facts.function);
  if (attempt->variant == nullptr || !ShapeFits(attempt)) return 0;
  SettleVariant(*attempt->variant, attempt->context);
  Predict(attempt);
  return attempt->is_known ? attempt->predicted_ns : 0;
}

}  // namespace

CUresult LaunchPhysical(PreemptContext& context, LaunchSlot& slot, uint32_t physical) noexcept {
  KeptAttributes attributes;
  if (slot.has_priority) attributes.SetPriority(slot.priority);
  if (slot.carveout != 0) attributes.SetCarveout(slot.carveout);
  return LaunchOn(context, slot, physical, context.helpers[slot.helper[physical]],
                  /*per_thread=*/false, attributes);
}

CUresult LaunchUnderBoard(const LaunchFacts& facts, const LaunchCall& call) noexcept {
  const StreamKey stream = ResolveStream(facts.stream, facts.per_thread);
  PreemptContext* const context = ContextFor(reinterpret_cast<CUcontext>(stream.context));
  if (context == nullptr || context->state.load() == PreemptContext::State::kDead) {
    return call.make(call.data);
  }
  Attempt attempt(facts, call, *context, stream);
  CUresult result = CUDA_SUCCESS;
  Plain why = Plain::kNoVariant;
  const uint64_t expected_ns = ExpectedNs(&attempt);
  NoteLaunched(context->gpu->demand, facts.function);
  const sched::Wakes wakes = NoteDemand(*context, stream.stream, facts.stream, expected_ns,
                                        SmsWanted(*context, facts));
  if (!TryGuarded(&attempt, &result, &why)) {
    CountPlain(why);
    result = LaunchPlain(*context, facts, stream, call);
  }
  if (wakes.Any()) sched::WakeSleepers(context->gpu->board(), wakes);
  context->gpu->demand.returned.fetch_add(1, std::memory_order_release);
  return result;
}

}  // namespace cupola::intercept::preempt
