#include "intercept/tasks/task_demand.h"

#include <atomic>

#include "device/runtime/preempt_control.h"
#include "intercept/fast_clock.h"
#include "intercept/preempt/demand.h"
#include "intercept/preempt/driver_calls.h"
#include "intercept/preempt/gpu_board.h"
#include "intercept/preempt/preempt_context.h"
#include "intercept/preempt/preemption.h"
#include "intercept/tasks/task_engine.h"

namespace cupola::intercept::tasks {
namespace {

constexpr uint64_t kAskEveryNs = 10'000'000;

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
  wakes_ = preempt::NoteDemand(*context_, key.stream, stream, /*predicted_ns=*/0, runtime::kAllSms);
}

TaskDemand::~TaskDemand() {
  if (context_ == nullptr) return;
  preempt::GpuBoard& gpu = *context_->gpu;
  if (wakes_.agents != 0 || wakes_.daemon) sched::WakeSleepers(gpu.board(), wakes_);
  gpu.demand.returned.fetch_add(1, std::memory_order_release);
}

bool IsResidentOn(const preempt::GpuBoard& gpu) noexcept {
  if (!IsEngineOn(gpu)) return false;
  static std::atomic<uint64_t> asked_ns{0};
  const uint64_t now = MonotonicNs();
  const bool asks = now - asked_ns.load(std::memory_order_relaxed) >= kAskEveryNs;
  if (asks || !engine->IsRunning()) {
    (void)CUPOLA_CALL_REAL(cuCtxSetCurrent, PFN_cuCtxSetCurrent_v4000)(engine->context());
  }
  if (asks) {
    // One that faulted says for ever that it runs.
    asked_ns.store(now, std::memory_order_relaxed);
    if (!engine->IsWell()) return false;
  }
  return engine->IsResident();
}

void AskToLeave(const preempt::GpuBoard& gpu) noexcept {
  if (IsEngineOn(gpu) && engine->IsRunning()) engine->AskToLeave();
}

}  // namespace cupola::intercept::tasks
