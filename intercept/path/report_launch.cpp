// LaunchReported (launch_path.h): makes a launch as MakeLaunch does, and counts it for the report. Nothing is done here
// for speed: a process that writes a report accepts a lock, a look-up and, for some launches, two events.
#include "intercept/images/images.h"
#include "intercept/images/variant.h"
#include "intercept/path/launch_path.h"
#include "intercept/record/launch_uses.h"

namespace cupola::intercept {
namespace {

// Makes a launch that is no task and held in no batch, and times it if its turn has come. `seen` learns the way.
CUresult MakeTimed(const Launch& launch, const ProgramCall& call, UseIndex kernel, LaunchUse* seen) {
  const StreamKey stream = ResolveStream(launch.stream, launch.per_thread);
  const bool is_captured = IsCapturing(launch.stream, launch.per_thread);
  const bool is_timed = !is_captured && timing_mode.load(std::memory_order_relaxed) == TimingMode::kEvents &&
                        IsToBeTimed(kernel);
  // Set inside MakeKernel, by the step that makes the launch.
  this_thread.launched_variant = this_thread.launched_gated = false;
  this_thread.plain_reason = Reason::kNoContext;
  const TimedLaunch timed = is_timed ? BeginTimed(stream.context, launch.stream, launch.per_thread) : TimedLaunch{};
  const CUresult result = MakeKernel(launch, call);
  if (this_thread.launched_variant) {
    seen->way = this_thread.launched_batch != 0 ? Way::kPreemptible : Way::kSliced;
  } else if (this_thread.launched_gated) {
    seen->way = Way::kGated;
  }
  if (is_captured) seen->way = Way::kCaptured;
  if (EndTimed(timed, launch.stream, launch.per_thread, result)) {
    const uint64_t ticket = TimeTicket(kernel, seen->way);
    SubmitTimed(timed, &ticket);
  }
  return result;
}

// Why a launch that went out in this way is not preemptible. A sliced one is so for want of a preemptible form, unless
// a rule wants slices.
Reason AgainstPreemptible(const LaunchUse& seen, const Variant* variant) {
  if (seen.way == Way::kTask || seen.way == Way::kPreemptible) return Reason::kNone;
  if (!PreemptionOn()) return Reason::kNoArbiter;
  if (seen.way != Way::kSliced) return this_thread.plain_reason;
  if (variant == nullptr || variant->is_ruled) return Reason::kConfigured;
  return (variant->entry->flags & store::kPreemptible) != 0 ? Reason::kInexact : Reason::kNoVariant;
}

// Completes what the launch path knows by what is known of the kernel.
void ExplainUse(const Launch& launch, LaunchUse* seen) {
  const Variant* const variant = launch.function == nullptr ? nullptr : FindVariant(launch.function);
  seen->against_preemptible = AgainstPreemptible(*seen, variant);
  const auto refine = [&](Reason* reason, Reason of_kernel) {
    if (*reason == Reason::kNone) return;
    if (seen->way == Way::kCaptured) *reason = Reason::kCapturing;
    if (launch.function == nullptr) *reason = Reason::kGraph;
    if (*reason == of_kernel && variant == nullptr) *reason = Reason::kNoBundle;
  };
  refine(&seen->against_task, Reason::kNoBody);
  refine(&seen->against_preemptible, Reason::kNoVariant);
  if (variant == nullptr) return;
  const store::BundleView& bundle = variant->image->bundle;
  seen->preemptible_detail = bundle.Text(variant->entry->refusal_offset);
  const char* const task_refusal = bundle.Text(variant->entry->task_refusal_offset);
  seen->task_detail = *task_refusal != '\0' ? task_refusal : seen->preemptible_detail;
}

}  // namespace

CUresult LaunchReported(const Launch& launch, const ProgramCall& call) noexcept {
  const UseIndex kernel = UseOf(launch.function);
  LaunchUse seen;
  CUresult result = CUDA_SUCCESS;
  if (!TasksOn()) {
    seen.against_task = Reason::kTasksOff;
    result = MakeTimed(launch, call, kernel, &seen);
  } else {
    tasks::CountIfOwnStream(launch.stream, launch.per_thread);
    seen.against_task = tasks::TryTask(launch, &result);
    if (seen.against_task == Reason::kNone) {
      seen.way = Way::kTask;
    } else {
      if (batches::Offer(launch.function, launch.stream, launch, &result)) {
        seen.way = Way::kBatched;
      } else {
        result = batches::AfterPlain(launch, MakeTimed(launch, call, kernel, &seen));
      }
      tasks::AfterPlainLaunch(launch.function, launch.stream, launch.per_thread, result);
    }
  }
  seen.has_failed = result != CUDA_SUCCESS;
  ExplainUse(launch, &seen);
  AddLaunch(kernel, seen);
  return result;
}

}  // namespace cupola::intercept
