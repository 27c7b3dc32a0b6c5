#include "intercept/tasks/task_demand.h"

#include <atomic>

#include "device/runtime/preempt_control.h"
#include "intercept/facts/live_streams.h"
#include "intercept/launch/agent_context.h"
#include "intercept/launch/demand.h"
#include "intercept/launch/gpu_board.h"
#include "intercept/launch/launch_context.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/fast_clock.h"
#include "intercept/process/participation.h"
#include "intercept/process/tools.h"
#include "intercept/tasks/task_engines.h"

namespace cupola::intercept::tasks {
namespace {

template <typename Do>
void ForEachEngineOn(const GpuBoard& gpu, Do&& what) {
  ForEachReadyEngine([&](TaskEngine& engine) {
    const LaunchContext* const context = FindContext(engine.context());
    if (context != nullptr && context->gpu == &gpu) what(engine);
  });
}

// `asks`: also queries the driver, because a MasterKernel that faulted never clears `running`.
bool IsResident(TaskEngine& engine, bool asks) {
  if (asks || !engine.IsRunning()) (void)TakeContext(engine.context());
  return (!asks || engine.IsWell()) && engine.IsResident();
}

}  // namespace

LaunchContext* ContextOf(const StreamKey& key) noexcept {
  if (!PreemptionOn()) return nullptr;
  return ContextFor(reinterpret_cast<CUcontext>(key.context));
}

bool IsAskedToYield(const StreamKey& key) noexcept {
  if (StandsAside()) return true;
  const LaunchContext* const context = ContextOf(key);
  return context != nullptr && context->gpu->requests() != 0;
}

// Announces all SMs, because the MasterKernel has blocks on each.
TaskDemand::TaskDemand(const StreamKey& key, CUstream stream, const void* function) noexcept
    : context_(ContextOf(key)) {
  if (context_ == nullptr) return;
  if (function != nullptr) SetLaunchedKernel(context_->gpu->demand, function);
  wakes_ = AnnounceDemand(*context_, key.stream, stream, /*predicted_ns=*/0, runtime::kAllSms);
}

TaskDemand::~TaskDemand() {
  if (context_ == nullptr) return;
  GpuBoard& gpu = *context_->gpu;
  if (wakes_.Any()) sched::WakeSleepers(gpu.board(), wakes_);
  gpu.demand.returned.fetch_add(1, std::memory_order_release);
}

bool IsResidentOn(const GpuBoard& gpu) noexcept {
  bool is_resident = false;
  ForEachEngineOn(gpu, [&](TaskEngine& engine) {
    const bool asks = engine.IsTimeToAsk(NowNs(), TaskEngine::kAskEveryNs);
    is_resident |= IsResident(engine, asks);
  });
  return is_resident;
}

bool HasWorkOn(const GpuBoard& gpu) noexcept {
  bool has_work = IsResidentOn(gpu);
  ForEachEngineOn(gpu, [&](TaskEngine& engine) { has_work |= engine.HasHeldTasks(); });
  return has_work;
}

void Hold(const GpuBoard& gpu) noexcept {
  if (!StreamsFitQueues()) return AskToLeave(gpu);
  ForEachEngineOn(gpu, [](TaskEngine& engine) { engine.Hold(); });
}

bool GoOn(const GpuBoard& gpu) noexcept {
  bool all = true;
  ForEachEngineOn(gpu, [&](TaskEngine& engine) {
    if (engine.GoOn()) return;
    all = false;
    // A MasterKernel that faulted never clears `running`, so the driver is queried as well.
    const bool asks = engine.IsTimeToAsk(NowNs(), TaskEngine::kAskEveryNs);
    if (asks) (void)IsResident(engine, asks);
  });
  return all;
}

uint32_t BeginNotNow(bool* is_so) noexcept {
  uint32_t gpus = 0;
  *is_so = true;
  ForEachReadyEngine([&](const TaskEngine& engine) {
    const LaunchContext* const context = FindContext(engine.context());
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
    GpuBoard* const gpu = GpuBoard::Of(__builtin_ctz(gpus));
    if (gpu != nullptr) gpu->EndNotNow();
  }
}

void AwaitHeldWhereQueuesAreShared() noexcept {
  if (!PreemptionOn() || StreamsFitQueues()) return;
  ForEachReadyEngine([](TaskEngine& engine) {
    if (engine.IsHeld()) (void)engine.WaitForAll(Until::kOverOrStuck);
  });
}

void AskToLeave(const GpuBoard& gpu) noexcept {
  ForEachEngineOn(gpu, [](TaskEngine& engine) {
    if (engine.IsRunning()) engine.AskToLeave();
  });
}

}  // namespace cupola::intercept::tasks
