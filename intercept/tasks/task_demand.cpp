#include "intercept/tasks/task_demand.h"

#include <atomic>

#include "device/runtime/preempt_control.h"
#include "intercept/facts/live_streams.h"
#include "intercept/preempt/agent_context.h"
#include "intercept/preempt/demand.h"
#include "intercept/preempt/gpu_board.h"
#include "intercept/preempt/preempt_context.h"
#include "intercept/preempt/preemption.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/fast_clock.h"
#include "intercept/tasks/task_engines.h"

namespace cupola::intercept::tasks {
namespace {

template <typename Do>
void ForEachEngineOn(const preempt::GpuBoard& gpu, Do&& what) {
  ForEachReadyEngine([&](TaskEngine& engine) {
    const preempt::PreemptContext* const context = preempt::FindContext(engine.context());
    if (context != nullptr && context->gpu == &gpu) what(engine);
  });
}

// Asks now and then whether it is well: one that faulted says for ever that it runs.
bool IsResident(TaskEngine& engine, bool asks) {
  if (asks || !engine.IsRunning()) (void)preempt::TakeContext(engine.context());
  return (!asks || engine.IsWell()) && engine.IsResident();
}

}  // namespace

preempt::PreemptContext* ContextOf(const StreamKey& key) noexcept {
  if (!preempt::PreemptionOn()) return nullptr;
  return preempt::ContextFor(reinterpret_cast<CUcontext>(key.context));
}

bool IsAskedToYield(const StreamKey& key) noexcept {
  if (preempt::StandsAside()) return true;
  const preempt::PreemptContext* const context = ContextOf(key);
  return context != nullptr && context->gpu->requests() != 0;
}

// All SMs: the MasterKernel has blocks on each.
TaskDemand::TaskDemand(const StreamKey& key, CUstream stream, const void* function) noexcept
    : context_(ContextOf(key)) {
  if (context_ == nullptr) return;
  if (function != nullptr) preempt::NoteLaunched(context_->gpu->demand, function);
  wakes_ = preempt::NoteDemand(*context_, key.stream, stream, /*predicted_ns=*/0, runtime::kAllSms);
}

TaskDemand::~TaskDemand() {
  if (context_ == nullptr) return;
  preempt::GpuBoard& gpu = *context_->gpu;
  if (wakes_.Any()) sched::WakeSleepers(gpu.board(), wakes_);
  gpu.demand.returned.fetch_add(1, std::memory_order_release);
}

bool IsResidentOn(const preempt::GpuBoard& gpu) noexcept {
  bool is_resident = false;
  ForEachEngineOn(gpu, [&](TaskEngine& engine) {
    const bool asks = engine.IsTimeToAsk(NowNs(), TaskEngine::kAskEveryNs);
    is_resident |= IsResident(engine, asks);
  });
  return is_resident;
}

bool HasWorkOn(const preempt::GpuBoard& gpu) noexcept {
  bool has_work = IsResidentOn(gpu);
  ForEachEngineOn(gpu, [&](TaskEngine& engine) { has_work |= engine.HasHeldTasks(); });
  return has_work;
}

void Hold(const preempt::GpuBoard& gpu) noexcept {
  if (!StreamsFitQueues()) return AskToLeave(gpu);
  ForEachEngineOn(gpu, [](TaskEngine& engine) { engine.Hold(); });
}

bool GoOn(const preempt::GpuBoard& gpu) noexcept {
  bool all = true;
  ForEachEngineOn(gpu, [&](TaskEngine& engine) {
    if (engine.GoOn()) return;
    all = false;
    // One that faulted says for ever that it runs.
    const bool asks = engine.IsTimeToAsk(NowNs(), TaskEngine::kAskEveryNs);
    if (asks) (void)IsResident(engine, asks);
  });
  return all;
}

uint32_t BeginNotNow(bool* is_so) noexcept {
  uint32_t gpus = 0;
  *is_so = true;
  ForEachReadyEngine([&](const TaskEngine& engine) {
    const preempt::PreemptContext* const context = preempt::FindContext(engine.context());
    if (context == nullptr) return;
    const uint32_t bit = 1u << context->gpu->device();
    if ((gpus & bit) == 0) *is_so &= context->gpu->BeginNotNow();
    gpus |= bit;
    *is_so &= !engine.IsHeld();
  });
  return gpus;
}

void EndNotNow(uint32_t gpus) noexcept {
  for (; gpus != 0; gpus &= gpus - 1) {
    preempt::GpuBoard* const gpu = preempt::GpuBoard::Of(__builtin_ctz(gpus));
    if (gpu != nullptr) gpu->EndNotNow();
  }
}

void AwaitHeldWhereQueuesAreShared() noexcept {
  if (!preempt::PreemptionOn() || StreamsFitQueues()) return;
  ForEachReadyEngine([](TaskEngine& engine) {
    if (engine.IsHeld()) (void)engine.WaitForAll(Until::kOverOrStuck);
  });
}

void AskToLeave(const preempt::GpuBoard& gpu) noexcept {
  ForEachEngineOn(gpu, [](TaskEngine& engine) {
    if (engine.IsRunning()) engine.AskToLeave();
  });
}

}  // namespace cupola::intercept::tasks
