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

// Takes a slot and makes the launch with its guard, and with a gate before it if others may ask for the GPU. The caller holds
// launch_mutex, and the launch counts as outstanding already. `passage` is the number of that gate; `bound` is LaunchSlot::looked_at_bound: somebody
// asks for the SMs below it, 0 = nobody asks.
Outcome LaunchGuarded(const PreemptibleForm& form, const Launch& launch, const KeptAttributes& attributes,
                      CUresult* result, Reason* why) {
  LaunchContext& context = *form.context;
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
  context.half_made.fetch_add(1);
  *why = Reason::kArguments;
  if (PackArguments(*form.variant, launch, context.ArgumentsOf(index))) {
    *why = Reason::kRefused;
    *result = LaunchOn(context, *slot, physical, launch.stream, launch.per_thread, attributes);
    made = *result == CUDA_SUCCESS;
  }
  if (!made) {
    context.half_made.fetch_sub(1);
    const MutexLock slots_lock(context.slots_mutex);
    if (context.state.load() != LaunchContext::State::kReady) return Outcome::kPlainAndUncounted;
    context.slots.Cancel(slot);
    return Outcome::kPlain;
  }
  Guard(context, launch, *slot);  // plant: no_guard
  context.half_made.fetch_sub(1);
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
    Outcome outcome;
    {
      const MutexLock lock(context.launch_mutex);
      outcome = LaunchGuarded(form, launch, attributes, result, why);
    }
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

bool LaunchAmongPieces(const PreemptibleForm& form, const Launch& launch, const KeptAttributes& attributes,
                       CUresult* result) noexcept {
  LaunchContext& context = *form.context;
  Reason why = Reason::kScope;
  if (!EnterAsGuarded(context, form.epoch)) return false;
  const Outcome outcome = LaunchGuarded(form, launch, attributes, result, &why);
  if (outcome == Outcome::kLaunched) {
    Count(launch_counters.preemptible);
    return true;
  }
  if (outcome != Outcome::kPlainAndUncounted) LeaveUnguarded(context);
  return false;
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
