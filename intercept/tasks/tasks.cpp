#include "intercept/tasks/tasks.h"

#include <cstdlib>
#include <cstring>
#include <memory>

#include "intercept/facts/live_streams.h"
#include "intercept/images/images.h"
#include "intercept/launch/hardware_queues.h"
#include "intercept/launch/resident.h"
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

uint32_t Number(const char* name, uint32_t fallback) {
  const char* text = getenv(name);
  if (text == nullptr || *text < '0' || *text > '9') return fallback;
  return static_cast<uint32_t>(strtoul(text, nullptr, 10));
}

uint64_t Nanoseconds(const char* milliseconds, uint64_t fallback) {
  constexpr uint64_t kNsPerMs = 1'000'000;
  return Number(milliseconds, static_cast<uint32_t>(fallback / kNsPerMs)) * kNsPerMs;
}

// Under MPS without an arbiter other processes may share the GPU, and nobody asks them to yield.
// The blocks of a MasterKernel are large: while a neighbour's blocks follow each other they wait
// long for half an SM [measured: docs/results/narrow-tasks.md, "Beside a batch process"].
bool MayWaitForNeighbours() {
  if (PreemptionOn() || !MpsIsThere()) return false;
  Say(Level::kInfo, {"launches do not become tasks: MPS is there, and no arbiter"});
  return true;
}

// False: launches do not become tasks.
bool ReadSettings() {
  task_settings.most_warps = Number("CUPOLA_TASK_WARPS", task_settings.most_warps);
  task_settings.after_launches = Number("CUPOLA_TASKS_AFTER", task_settings.after_launches);
  if (getenv("CUPOLA_TASKS_AFTER") != nullptr) task_settings.ripe_launches = 0;
  task_settings.most_copied = Number("CUPOLA_TASK_COPY_BYTES", task_settings.most_copied);
  task_settings.notice_ns = Nanoseconds("CUPOLA_TASK_NOTICE_MS", task_settings.notice_ns);
  task_settings.patience_ns = Nanoseconds("CUPOLA_TASK_PATIENCE_MS", task_settings.patience_ns);
  task_settings.wait_limit_ns = Nanoseconds("CUPOLA_WAIT_LIMIT_MS", task_settings.wait_limit_ns);
  const uint32_t most_us = Number("CUPOLA_TASK_US", UINT32_MAX);
  if (most_us != UINT32_MAX) worth.SetLimit(uint64_t{most_us} * 1000);
  worth.SetFirstQuiet(Nanoseconds("CUPOLA_TASK_QUIET_MS", TaskWorth::kFirstQuietNs));
  if (Number("CUPOLA_TASK_TRIALS", 1) == 0) worth.SkipTrials();
  task_settings.allow_inexact = Number("CUPOLA_INEXACT", 0) != 0;
  const char* mode = getenv("CUPOLA_TASKS");
  if (mode == nullptr || *mode == '\0' || strcmp(mode, "auto") == 0) return !MayWaitForNeighbours();
  if (strcmp(mode, "off") == 0) return false;
  if (strcmp(mode, "always") == 0) {
    task_settings.after_launches = task_settings.ripe_launches = 0;
    task_settings.patience_ns = Nanoseconds("CUPOLA_TASK_PATIENCE_MS", 100'000'000);
    if (most_us == UINT32_MAX) worth.SetLimit(0);
  } else {
    Say(Level::kWarn, {"CUPOLA_TASKS=", mode, " is not known: use auto, always or off"});
  }
  return true;
}

}  // namespace

void StartTasks() noexcept {
  if (!ReadSettings()) return;
  OpenVariantStore();
  if (!HasVariantStore() || ToolAtWork()) return;
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
  for (size_t i = 0; i < static_cast<size_t>(NoTask::kCount); ++i) {
    if (task_counters.plain[i].load() == 0) continue;
    Say(Level::kInfo, {"tasks: ", number(task_counters.plain[i]), " launches plain: ", kNoTaskWords[i]});
  }
}

}  // namespace cupola::intercept::tasks
