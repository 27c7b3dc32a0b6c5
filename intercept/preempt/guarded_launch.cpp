#include "intercept/preempt/guarded_launch.h"

#include <algorithm>
#include <cstring>

#include "intercept/facts/context_scope.h"
#include "intercept/facts/green_contexts.h"
#include "intercept/facts/launch_limits.h"
#include "intercept/facts/live_streams.h"
#include "intercept/launch/demand.h"
#include "intercept/launch/gates.h"
#include "intercept/launch/gpu_board.h"
#include "intercept/launch/hardware_queues.h"
#include "intercept/launch/launch.h"
#include "intercept/launch/launch_context.h"
#include "intercept/launch/launch_counters.h"
#include "intercept/launch/launch_prediction.h"
#include "intercept/launch/own_call_scope.h"
#include "intercept/launch/packed_launch.h"
#include "intercept/launch/preemption_settings.h"
#include "intercept/launch/variant_use.h"
#include "intercept/preempt/guarded_context.h"
#include "intercept/preempt/host_holds.h"
#include "intercept/preempt/launch_attempt.h"
#include "intercept/preempt/sliced_launch.h"
#include "intercept/preempt/variants.h"
#include "intercept/preempt/waiting.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/fast_clock.h"
#include "intercept/process/mutex_lock.h"
#include "intercept/process/notice.h"
#include "intercept/process/participation.h"
#include "intercept/process/thread_state.h"
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

// Whether blocks of the kernel may wait for other blocks of their grid.
bool MayWaitOnBlocks(const Variant& variant) { return (variant.entry->flags & store::kMayWaitOnBlocks) != 0; }

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

// Whether one worker only watches for requests and takes no blocks. It does if that costs little: there
// are many workers, and each has several rounds of blocks.
bool HasWatcher(const LaunchSlot& slot, uint32_t workers) {
  constexpr uint32_t kLeastRounds = 4;
  return workers >= std::max(preemption_settings.watch_from, 2u) && slot.flags == 0 &&
         slot.total_blocks / workers >= kLeastRounds;
}

runtime::PreemptParams ParamsOf(const LaunchContext& context, const LaunchSlot& slot,
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
  runtime::SetPolls(params, preemption_settings.poll_period_ns);
  params.flags = slot.flags;
  if (HasWatcher(slot, params.workers)) params.flags |= runtime::kHasWatcher;
  params.look_after_ns = preemption_settings.look_after_ns;
  params.stride = slot.claims.stride;
  params.full_until = slot.claims.full_until;
  params.fresh_after_ns = preemption_settings.fresh_after_ns;
  runtime::SetSteady(params);
  return params;
}

// Writes PreemptParams of this physical launch behind the program's arguments and makes the launch.
CUresult LaunchOn(LaunchContext& context, LaunchSlot& slot, uint32_t physical, CUstream stream,
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

void FillSlot(const PreemptibleForm& form, const Launch& launch, const KeptAttributes& attributes,
              LaunchSlot* slot) {
  const store::KernelEntry& entry = *form.variant->entry;
  const bool may_wait = MayWaitOnBlocks(*form.variant);
  slot->variant = form.variant;
  slot->function = form.function;
  slot->stream = form.stream;
  slot->blocks_legacy = form.is_blocking;
  for (int i = 0; i < 3; ++i) {
    slot->grid[i] = launch.grid[i];
    slot->block[i] = launch.block[i];
  }
  slot->shared_bytes = launch.shared_bytes;
  const bool interleaves = form.total_blocks == launch.grid[0] && !profiles::IsInGridOrder(form.batch);
  slot->claims = runtime::ShapeClaims(form.total_blocks, form.workers, profiles::ClaimBatch(form.batch), interleaves);
  slot->flags = may_wait ? static_cast<uint32_t>(runtime::kRunWhatIsClaimed) : 0u;
  slot->all_workers = form.workers;
  slot->launch_offset = entry.launch_offset;
  slot->begun_ns = NowNs();
  slot->was_alone = form.context->outstanding.load(std::memory_order_relaxed) == 1;
  slot->has_priority = attributes.has_priority;
  slot->priority = attributes.priority;
  slot->carveout = form.carveout;
  GpuBoard& gpu = *form.context->gpu;
  slot->may_have_stopped = gpu.requests() != 0;
  slot->looked_at_bound = slot->may_have_stopped ? gpu.sm_bound() : 0;
}

// Puts the guard into the stream behind the launch that was just made. If the driver refuses the guard, this thread
// waits for the launch on the host, which keeps the order too.
void Guard(LaunchContext& context, const Launch& launch, const LaunchSlot& slot) {
  const uint32_t index = context.slots.IndexOf(&slot);
  const CUdeviceptr done = context.ControlOf(index) + offsetof(runtime::ControlSlot, done);
  const CUresult result = StreamWaitsForWord(launch.stream, launch.per_thread, done, slot.sequence);
  if (result == CUDA_SUCCESS) return;
  static std::atomic_flag said;
  SayOnce(said, Level::kWarn, {"a stream takes no guard: error ", Decimal(result)});
  WaitForSlot(context, index, slot.sequence);
}

enum class Outcome {
  kLaunched,
  kPlain,
  kPlainAndUncounted,  // GiveUp has taken the launch's count back with those of the others
  kRetry,              // no slot is free
};

// Takes a slot and makes the launch with its guard, and with a gate before it if others may ask for the GPU. The launch
// counts as outstanding already. `passage` is the number of that gate; `bound` is LaunchSlot::looked_at_bound: somebody
// asks for the SMs below it, 0 = nobody asks.
Outcome LaunchGuarded(const PreemptibleForm& form, const Launch& launch, const KeptAttributes& attributes,
                      CUresult* result, Reason* why) {
  LaunchContext& context = *form.context;
  const MutexLock lock(context.launch_mutex);
  LaunchSlot* slot = nullptr;
  uint32_t physical = kNoPhysical, bound = 0, passage = 0;
  const bool is_gated = context.gpu->gates_guarded() && GateGuarded(context, launch);
  {
    const MutexLock slots_lock(context.slots_mutex);
    *why = Reason::kNoContext;
    if (context.state.load() != LaunchContext::State::kReady) return Outcome::kPlain;
    slot = context.slots.Take(form.total_blocks);
    if (slot == nullptr) return Outcome::kRetry;
    FillSlot(form, launch, attributes, slot);
    if (is_gated) passage = context.slots.AddGate(slot, /*is_resume=*/false);
    bound = slot->looked_at_bound;
    physical = context.slots.BeginPhysical(slot, std::min(form.workers, form.total_blocks));
  }
  const uint32_t index = context.slots.IndexOf(slot);
  if (is_gated && !TellPassage(context, launch, index, passage)) {
    const MutexLock slots_lock(context.slots_mutex);
    slot->is_gated = false;  // nothing will tell when it passes the gate: it counts as under way
  }
  bool made = false;
  context.half_made.store(1);
  *why = Reason::kArguments;
  if (PackArguments(*form.variant, launch, context.ArgumentsOf(index))) {
    *why = Reason::kRefused;
    *result = LaunchOn(context, *slot, physical, launch.stream, launch.per_thread, attributes);
    made = *result == CUDA_SUCCESS;
  }
  if (!made) {
    context.half_made.store(0);
    const MutexLock slots_lock(context.slots_mutex);
    if (context.state.load() != LaunchContext::State::kReady) return Outcome::kPlainAndUncounted;
    context.slots.Cancel(slot);
    return Outcome::kPlain;
  }
  Guard(context, launch, *slot);  // plant: no_guard
  context.half_made.store(0);
  context.queued.Add(2);  // the launch and its guard
  // If all its workers started on SMs that they must leave, the agent resumes it on the others.
  if (bound != 0 && bound != runtime::kAllSms) context.gpu->WakeAgent();
  return Outcome::kLaunched;
}

// Takes the count of EnterAsGuarded back, for a launch that was not made.
void LeaveUnguarded(LaunchContext& context) {
  context.outstanding.fetch_sub(1);
  Unwatch(1);
}

// Counts the launch as outstanding before it looks for scopes. A scope counts itself before it looks
// for launches (both sequentially consistent), so that at least one of the two sees the other. True: the
// launch is counted, also for the stubs (Watch). False: a scope is open, or the process has more streams
// than hardware queues; the launch is not counted. At `epoch` it had not: a stream that is too many is counted first,
// then raises the epoch, then looks for launches.
bool EnterAsGuarded(LaunchContext& context, uint64_t epoch) {
  // plant: scopes_first
  Watch(1);
  context.outstanding.fetch_add(1);
  const bool is_free = context.scopes.load() == 0 && scopes_elsewhere.load() == 0;  // plant: no_scopes
  // end plant: scopes_first
  if (is_free && (launch_epoch.load() == epoch || StreamsFitQueues())) return true;
  LeaveUnguarded(context);
  return false;
}

bool LaunchWithGuard(const PreemptibleForm& form, const Launch& launch, const KeptAttributes& attributes,
                     CUresult* result, Reason* why) {
  LaunchContext& context = *form.context;
  if (context.queued.left() >= kMostQueued) [[unlikely]] KeepRoom(context);
  for (;;) {
    *why = Reason::kScope;
    if (!EnterAsGuarded(context, form.epoch)) return false;
    const Outcome outcome = LaunchGuarded(form, launch, attributes, result, why);
    if (outcome == Outcome::kLaunched) break;
    if (outcome == Outcome::kPlainAndUncounted) return false;
    LeaveUnguarded(context);
    if (outcome == Outcome::kPlain) return false;
    *why = Reason::kRingFull;
    if (!WaitForFreeSlot(context)) return false;
  }
  launch_counters.preemptible.fetch_add(1, std::memory_order_relaxed);
  this_thread.launched_variant = true;
  this_thread.launched_batch = form.batch;
  return true;
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

bool LaunchPreemptible(const Attempt& attempt, CUresult* result, Reason* why) noexcept {
  const PreemptibleForm form = FormOf(attempt);
  if (!LaunchWithGuard(form, attempt.launch, attempt.attributes, result, why)) return false;
  const models::PlanKernel* const known = attempt.variant->plan_kernel;
  attempt.context.gpu->PublishStopCost(known != nullptr ? known->preemption_ns : 0);
  return true;
}

bool LaunchAgain(const PreemptibleForm& form, const Launch& launch, CUresult* result, Reason* why) noexcept {
  return LaunchWithGuard(form, launch, KeptAttributes{}, result, why);
}

PreemptibleForm FormOf(const Attempt& attempt) noexcept {
  return {.context = &attempt.context,
          .variant = attempt.variant,
          .function = attempt.prepared->function,
          .stream = attempt.stream.stream,
          .epoch = attempt.epoch,
          .total_blocks = attempt.total_blocks,
          .workers = attempt.workers,
          .batch = attempt.batch,
          .carveout = attempt.carveout,
          .is_blocking = IsBlocking(attempt.launch.stream, attempt.launch.per_thread)};
}

bool MayBeRemembered(const Attempt& attempt) noexcept {
  // A plan's times may depend on the arguments. With several processes in a context, priorities and SMs do on others.
  return attempt.launch.attribute_count == 0 && attempt.attributes.count == 0 && !AnyIsHeld() &&
         open_captures.load() == 0 && attempt.variant->plan_kernel == nullptr &&
         !attempt.context.gpu->shares_context() && preemption_settings.mode != PreemptMode::kTurns;
}

CUresult LaunchPhysical(LaunchContext& context, LaunchSlot& slot, uint32_t physical) noexcept {
  KeptAttributes attributes;
  if (slot.has_priority) attributes.SetPriority(slot.priority);
  if (slot.carveout != 0) attributes.SetCarveout(slot.carveout);
  return LaunchOn(context, slot, physical, context.helpers[slot.helper[physical]],
                  /*per_thread=*/false, attributes);
}

}  // namespace cupola::intercept::preempt
