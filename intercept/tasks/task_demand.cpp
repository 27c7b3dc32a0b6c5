#include "intercept/tasks/task_demand.h"

#include "device/runtime/preempt_control.h"
#include "intercept/preempt/demand.h"
#include "intercept/preempt/driver_calls.h"
#include "intercept/preempt/gpu_board.h"
#include "intercept/preempt/preempt_context.h"
#include "intercept/preempt/preemption.h"
#include "intercept/tasks/task_engine.h"

namespace cupola::intercept::tasks {
namespace {

preempt::PreemptContext* ContextOf(const StreamKey& key) {
  if (!preempt::PreemptionOn()) return nullptr;
  return preempt::ContextFor(reinterpret_cast<CUcontext>(key.context));
}

bool IsEngineOn(const preempt::GpuBoard& gpu) {
  if (engine == nullptr || engine->state() != TaskEngine::State::kReady) return false;
  const preempt::PreemptContext* const context = preempt::FindContext(engine->context());
  return context != nullptr && context->gpu == &gpu;
}

}  // namespace

bool IsAskedToYield(const StreamKey& key) noexcept {
  const preempt::PreemptContext* const context = ContextOf(key);
  return context != nullptr && context->gpu->requests() != 0;
}

// All SMs: the MasterKernel has blocks on each.
TaskDemand::TaskDemand(const StreamKey& key, CUstream stream) noexcept : context_(ContextOf(key)) {
  if (context_ == nullptr) return;
  wakes_ = preempt::NoteDemand(*context_, key.stream, stream, /*predicted_ns=*/0,
                               runtime::kAllSms);
}

TaskDemand::~TaskDemand() {
  if (context_ == nullptr) return;
  preempt::GpuBoard& gpu = *context_->gpu;
  if (wakes_.agents != 0 || wakes_.daemon) sched::WakeSleepers(gpu.board(), wakes_);
  gpu.demand.returned.fetch_add(1, std::memory_order_release);
}

bool IsResidentOn(const preempt::GpuBoard& gpu) noexcept {
  if (!IsEngineOn(gpu)) return false;
  if (!engine->IsRunning()) {
    (void)CUPOLA_CALL_REAL(cuCtxSetCurrent, PFN_cuCtxSetCurrent_v4000)(engine->context());
  }
  return engine->IsResident();
}

void AskToLeave(const preempt::GpuBoard& gpu) noexcept {
  if (IsEngineOn(gpu) && engine->IsRunning()) engine->AskToLeave();
}

}  // namespace cupola::intercept::tasks
