#include "intercept/tasks/tasks.h"

#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>

#include "base/settings/variables.h"
#include "intercept/facts/live_streams.h"
#include "intercept/images/images.h"
#include "intercept/launch/hardware_queues.h"
#include "intercept/launch/resident.h"
#include "intercept/process/driver.h"
#include "intercept/process/fast_clock.h"
#include "intercept/process/notice.h"
#include "intercept/process/tools.h"
#include "intercept/tasks/task_demand.h"
#include "intercept/tasks/task_engines.h"
#include "intercept/tasks/task_launch.h"
#include "intercept/tasks/task_rules.h"
#include "intercept/tasks/task_worth.h"

namespace cupola::intercept::tasks {

TaskSettings task_settings;
TaskCounters task_counters;
TaskWorth worth;

namespace {

// Under MPS without an arbiter other processes may share the GPU, and nobody asks them to yield.
// The blocks of a MasterKernel are large: while a neighbour's blocks follow each other they wait
// long for half an SM [measured: docs/results/narrow-tasks.md, "Beside a batch process"].
bool MayWaitForNeighbours() {
  if (PreemptionOn() || !MpsIsThere()) return false;
  Say(Level::kInfo, {"launches do not become tasks: MPS is there, and no arbiter"});
  return true;
}

// Without this call nobody can tell whether a module may be loaded now (context_rest.h). Who asked for tasks by a setting
// is told so at the usual level of the log.
bool IsDriverTooOld(bool is_asked_for) {
  if (!IsLacking(Call::k_cuCtxRecordEvent)) return false;
  SayLacking(is_asked_for ? Level::kWarn : Level::kInfo, Call::k_cuCtxRecordEvent);
  return true;
}

// False: launches do not become tasks.
bool ReadSettings() {
  using settings::Flag, settings::Number, settings::NumberIfSet;
  constexpr uint64_t kNsPerMs = 1'000'000;
  TaskSettings& to = task_settings;
  const std::string_view mode = settings::Word("CUPOLA_TASKS");
  const bool is_always = mode == "always";
  to.most_warps = static_cast<uint32_t>(Number("CUPOLA_TASK_WARPS"));
  to.after_launches = static_cast<uint32_t>(Number("CUPOLA_TASKS_AFTER"));
  if (NumberIfSet("CUPOLA_TASKS_AFTER")) to.ripe_launches = 0;
  if (is_always) to.after_launches = to.ripe_launches = 0;
  to.most_copied = static_cast<uint32_t>(Number("CUPOLA_TASK_COPY_BYTES"));
  to.notice_ns = Number("CUPOLA_TASK_NOTICE_MS") * kNsPerMs;
  to.patience_ns = is_always ? NumberIfSet("CUPOLA_TASK_PATIENCE_MS").value_or(100) * kNsPerMs
                             : Number("CUPOLA_TASK_PATIENCE_MS") * kNsPerMs;
  to.wait_limit_ns = Number("CUPOLA_WAIT_LIMIT_MS") * kNsPerMs;
  const std::optional<uint64_t> most_us = NumberIfSet("CUPOLA_TASK_US");
  if (most_us || is_always) worth.SetLimit(most_us.value_or(0) * 1000);
  worth.SetFirstQuiet(Number("CUPOLA_TASK_QUIET_MS") * kNsPerMs);
  if (!Flag("CUPOLA_TASK_TRIALS")) worth.SkipTrials();
  to.allow_inexact = Flag("CUPOLA_INEXACT");
  return mode != "off" && (is_always || !MayWaitForNeighbours());
}

}  // namespace

void StartTasks() noexcept {
  if (!ReadSettings()) return;
  OpenVariantStore();
  if (!HasVariantStore() || ToolAtWork()) return;
  if (IsDriverTooOld(settings::Word("CUPOLA_TASKS") == "always" || settings::Word("CUPOLA_BATCHES") == "always")) return;
  StartFastClock();
  ChooseHardwareQueues(MpsIsThere());
  image_to_be_freed.Subscribe([](const Image& image, bool* is_named) {
    ForEachEngine([&](const TaskEngine& engine) { *is_named |= engine.Serves(&image); });
  });
  if (PreemptionOn()) streams_share_queues.Subscribe(&AwaitHeldWhereQueuesAreShared);
  resident.tasks = {.are_on = &IsResidentOn,
                    .have_work_on = &HasWorkOn,
                    .ask_to_leave = &AskToLeave,
                    .hold = &Hold,
                    .go_on = &GoOn};
  static std::atomic_flag says_counts;
  if (!says_counts.test_and_set()) atexit(&EndTasksAtExit);
  makes_tasks.store(true);
}

void ForgetTasksAfterFork() noexcept {
  std::construct_at(&task_counters);
  if (!TasksOn() || internal::engine_count.load() == 0) return;
  ForEachEngine([](TaskEngine& engine) { engine.Close(); });
  makes_tasks.store(false);
}

void EndTasksAtExit() noexcept {
  const auto number = [](const std::atomic<uint64_t>& counter) {
    return Decimal(counter.load(std::memory_order_relaxed));
  };
  if (!TasksOn()) return;
  KeepTooManyStreamsForLaterRuns();
  CountPassedBy();
  if (task_counters.tasks.load() != 0 || task_counters.starts.load() != 0) {
    Say(Level::kInfo,
        {"tasks: ", number(task_counters.tasks), " launches, ", number(task_counters.copies), " copies, ",
         number(task_counters.starts), " starts of the MasterKernel, ", number(task_counters.turns),
         " turns to another module, ", number(task_counters.holds), " holds, ", number(task_counters.flushes),
         " flushes, ", number(task_counters.waits), " waits, ", number(task_counters.queries), " queries"});
  }
  if (task_counters.stuck.load() != 0) {
    Say(Level::kInfo, {"tasks: ", number(task_counters.stuck), " waits ended though none went on"});
  }
  for (size_t i = 0; i < kReasons; ++i) {
    if (task_counters.plain[i].load() == 0) continue;
    Say(Level::kInfo, {"tasks: ", number(task_counters.plain[i]), " launches plain: ", kReasonTexts[i].words});
  }
}

}  // namespace cupola::intercept::tasks
