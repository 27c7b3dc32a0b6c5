#include "intercept/path/launch_path.h"

#include "intercept/launch/demand.h"
#include "intercept/launch/gates.h"
#include "intercept/launch/gpu_board.h"
#include "intercept/launch/known_launch.h"
#include "intercept/launch/launch_context.h"
#include "intercept/launch/launch_counters.h"
#include "intercept/launch/loaded_kernels.h"
#include "intercept/launch/plain_times.h"
#include "intercept/launch/stoppable_time.h"
#include "intercept/path/graph_launch.h"
#include "intercept/path/plain_launch.h"
#include "intercept/preempt/form_choice.h"
#include "intercept/preempt/guarded_launch.h"
#include "intercept/preempt/host_holds.h"
#include "intercept/preempt/launch_attempt.h"
#include "intercept/preempt/sliced_launch.h"
#include "intercept/preempt/sm_demand.h"
#include "intercept/preempt/waiting.h"

namespace cupola::intercept {
namespace {

[[gnu::always_inline]] inline CUresult MakePlainKernel(LaunchContext& context, const Launch& launch,
                                                       const ProgramCall& call) {
  // plant: no_first_launch
  if (!IsKnownLoaded(launch.function)) [[unlikely]] return LaunchFirst(context, launch, call);
  if (context.outstanding.load() != 0) preempt::EnterPlain(context);
  return MakePlainLaunch(context, launch, call);
}

// Makes a plain launch of a kernel that others may want to hold: behind a gate if one is due, and measured while little is
// known of its time.
[[gnu::noinline]] CUresult LaunchGated(LaunchContext& context, const Launch& launch, const StreamKey& stream,
                                       const ProgramCall& call) {
  const bool is_captured = open_captures.load() != 0 && IsCapturing(launch.stream, launch.per_thread);
  if (is_captured) return MakePlainKernel(context, launch, call);
  PlainTime time(launch, stream);
  GateStream(context, launch, stream, GateWhen::kDue, time.ns());
  CountStopsBetween(*context.gpu, time.ns());
  time.Begin();
  const CUresult result = MakePlainKernel(context, launch, call);
  time.End(result);
  return result;
}

// Makes a plain launch, behind a gate if one is due, and behind a marker if the stream is held.
[[gnu::always_inline]] inline CUresult LaunchPlain(LaunchContext& context, const Launch& launch,
                                                   const StreamKey& stream, const ProgramCall& call) {
  MarkPlainLaunch(context.gpu->demand);
  if (preempt::AnyIsHeld()) [[unlikely]] preempt::MarkHeld(context, launch, stream);
  if (ActiveRing() != nullptr || IsReported()) [[unlikely]] this_thread.launched_gated = GatesMayHold(context);
  if (launch.function == nullptr) return LaunchGraph(context, launch, stream, call);
  if (GatesMayHold(context)) [[unlikely]] return LaunchGated(context, launch, stream, call);
  return MakePlainKernel(context, launch, call);
}

// Keeps the form of a launch that has gone out preemptible, where further ones like it may go out so without being
// looked at: if records or a report are wanted, or launches are held back in batches or may become tasks, each one is
// looked at.
[[gnu::noinline]] void RememberForm(const preempt::Attempt& attempt) {
  const bool may_be_task = TasksOn() && !tasks::NeverMakesTasks();
  if (may_be_task || ActiveRing() != nullptr || IsReported() || batches::BatchesOn()) return;
  if (!preempt::MayBeRemembered(attempt)) return;
  PreemptibleForm form = preempt::FormOf(attempt);
  form.passes_tasks_by = TasksOn();
  RememberLaunch(attempt.launch, form);
}

// Makes the launch in another form than plain. False: it must go out plain.
[[gnu::always_inline]] inline bool LaunchInForm(preempt::Attempt* attempt, CUresult* result, Reason* why) {
  switch (preempt::ChooseForm(attempt, why)) {
    case preempt::Form::kPreemptible:
      if (!preempt::LaunchPreemptible(*attempt, result, why)) return false;
      RememberForm(*attempt);
      return true;
    case preempt::Form::kSliced: return preempt::LaunchSliced(*attempt, result, why);
    case preempt::Form::kPlain: break;
  }
  return false;
}

// What follows the launch, in whatever form it was made: sleeping agents and the daemon are woken.
void AfterLaunch(GpuBoard& gpu, const sched::Wakes& wakes) {
  if (wakes.Any()) sched::WakeSleepers(gpu.board(), wakes);
  gpu.demand.returned.fetch_add(1, std::memory_order_release);
}

}  // namespace

bool LaunchKnown(const Launch& launch, const ProgramCall& call, CUresult* result) noexcept {
  const PreemptibleForm* const known = FindKnown(launch);
  if (known == nullptr) [[likely]] return false;
  LaunchContext& context = *known->context;
  GpuBoard& gpu = *context.gpu;
  // A launch that begins a demand needs a prediction.
  const bool goes_on = gpu.demand.phase.load() == DemandState::Phase::kOn;
  if (!goes_on || context.state.load() != LaunchContext::State::kReady) return false;
  const PreemptibleForm form = *known;
  if (form.passes_tasks_by) ++this_thread.never_passed;
  SetLaunchedKernel(gpu.demand, launch.function);
  const sched::Wakes wakes = AnnounceDemand(context, form.stream, launch.stream, 0, runtime::kAllSms);
  Reason why = Reason::kNoVariant;
  if (!preempt::LaunchAgain(form, launch, result, &why)) {
    CountPlain(why);
    *result = LaunchPlain(context, launch, ResolveStream(launch.stream, launch.per_thread), call);
  }
  AfterLaunch(gpu, wakes);
  return true;
}

CUresult LaunchUnderArbiter(const Launch& launch, const ProgramCall& call) noexcept {
  const uint64_t epoch = launch_epoch.load();
  const StreamKey stream = ResolveStream(launch.stream, launch.per_thread);
  LaunchContext* const context = ContextFor(reinterpret_cast<CUcontext>(stream.context));
  if (context == nullptr || context->state.load() == LaunchContext::State::kDead) return call();
  preempt::Attempt attempt(launch, *context, stream, epoch);
  // The board learns of the launch before it is made; sleeping agents and the daemon are woken after it.
  // Most launches neither begin a demand nor share the context: those two questions cost them no call.
  GpuBoard& gpu = *context->gpu;
  const bool may_begin = gpu.demand.phase.load() != DemandState::Phase::kOn && gpu.may_be_asked();
  const uint64_t expected_ns = may_begin ? preempt::ExpectForDemand(&attempt) : 0;
  const uint32_t sms = gpu.shares_context() ? preempt::SmsWanted(*context, launch) : runtime::kAllSms;
  SetLaunchedKernel(gpu.demand, launch.function);
  const sched::Wakes wakes = AnnounceDemand(*context, stream.stream, launch.stream, expected_ns, sms);
  CUresult result = CUDA_SUCCESS;
  Reason why = Reason::kNoVariant;
  if (!LaunchInForm(&attempt, &result, &why)) {
    CountPlain(why);
    this_thread.plain_reason = why;
    result = LaunchPlain(*context, launch, stream, call);
  }
  AfterLaunch(gpu, wakes);
  return result;
}

}  // namespace cupola::intercept
