#include "intercept/tasks/tasks.h"

#include <cstdlib>
#include <cstring>
#include <memory>

#include "intercept/facts/live_streams.h"
#include "intercept/images/images.h"
#include "intercept/preempt/hardware_queues.h"
#include "intercept/preempt/preemption.h"
#include "intercept/process/fast_clock.h"
#include "intercept/process/notice.h"
#include "intercept/tasks/task_demand.h"
#include "intercept/tasks/task_engines.h"
#include "intercept/tasks/task_launch.h"
#include "intercept/tasks/task_worth.h"

namespace cupola::intercept::tasks {

Settings settings;
Counters counters;
TaskWorth worth;
std::atomic<bool> is_on{false};

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

// Others may be there whom nobody asks to yield. The blocks of a MasterKernel are large, and where
// such a neighbour's blocks follow each other they wait long for half an SM [measured:
// docs/results/narrow-tasks.md, "Beside a batch process"].
bool MayWaitForNeighbours() {
  if (preempt::PreemptionOn() || !preempt::MpsIsThere()) return false;
  Say(Level::kInfo, {"launches do not become tasks: MPS is there, and no arbiter"});
  return true;
}

// False: off.
bool ReadSettings() {
  settings.most_warps = Number("CUPOLA_TASK_WARPS", settings.most_warps);
  settings.after_launches = Number("CUPOLA_TASKS_AFTER", settings.after_launches);
  if (getenv("CUPOLA_TASKS_AFTER") != nullptr) settings.ripe_launches = 0;
  settings.most_copied = Number("CUPOLA_TASK_COPY_BYTES", settings.most_copied);
  settings.notice_ns = Nanoseconds("CUPOLA_TASK_NOTICE_MS", settings.notice_ns);
  settings.patience_ns = Nanoseconds("CUPOLA_TASK_PATIENCE_MS", settings.patience_ns);
  settings.wait_limit_ns = Nanoseconds("CUPOLA_WAIT_LIMIT_MS", settings.wait_limit_ns);
  const uint32_t most_us = Number("CUPOLA_TASK_US", UINT32_MAX);
  if (most_us != UINT32_MAX) worth.SetLimit(uint64_t{most_us} * 1000);
  worth.SetFirstQuiet(Nanoseconds("CUPOLA_TASK_QUIET_MS", TaskWorth::kFirstQuietNs));
  if (Number("CUPOLA_TASK_TRIALS", 1) == 0) worth.SkipTrials();
  settings.allow_inexact = Number("CUPOLA_INEXACT", 0) != 0;
  const char* mode = getenv("CUPOLA_TASKS");
  if (mode == nullptr || *mode == '\0' || strcmp(mode, "auto") == 0) return !MayWaitForNeighbours();
  if (strcmp(mode, "off") == 0) return false;
  if (strcmp(mode, "always") == 0) {
    settings.after_launches = settings.ripe_launches = 0;
    settings.patience_ns = Nanoseconds("CUPOLA_TASK_PATIENCE_MS", 100'000'000);
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
  if (!HasVariantStore() || preempt::ToolAtWork()) return;
  StartFastClock();
  preempt::ChooseHardwareQueues(preempt::MpsIsThere());
  image_to_be_freed.Subscribe([](const Image& image, bool* is_named) {
    ForEachEngine([&](const TaskEngine& engine) { *is_named |= engine.Serves(&image); });
  });
  if (preempt::PreemptionOn()) streams_share_queues.Subscribe(&AwaitHeldWhereQueuesAreShared);
  preempt::watched.fetch_or(preempt::kTakesPartBit);
  static std::atomic_flag says_counts;
  if (!says_counts.test_and_set()) atexit(&EndTasksAtExit);
  is_on.store(true);
}

void ForgetTasksAfterFork() noexcept {
  std::construct_at(&counters);
  if (!TasksOn() || internal::engine_count.load() == 0) return;
  ForEachEngine([](TaskEngine& engine) { engine.Close(); });
  is_on.store(false);
}

void EndTasksAtExit() noexcept {
  const auto number = [](const std::atomic<uint64_t>& counter) {
    return Decimal(counter.load(std::memory_order_relaxed));
  };
  if (!TasksOn()) return;
  preempt::RememberStreamsExceedQueues();
  CountPassedBy();
  if (counters.tasks.load() != 0 || counters.starts.load() != 0) {
    Say(Level::kInfo,
        {"tasks: ", number(counters.tasks), " launches, ", number(counters.copies), " copies, ",
         number(counters.starts), " starts of the MasterKernel, ", number(counters.turns),
         " turns to another module, ", number(counters.holds), " holds, ", number(counters.flushes),
         " flushes, ", number(counters.waits), " waits, ", number(counters.queries), " queries"});
  }
  if (counters.stuck.load() != 0) {
    Say(Level::kInfo, {"tasks: ", number(counters.stuck), " waits ended though none went on"});
  }
  for (size_t i = 0; i < static_cast<size_t>(Plain::kCount); ++i) {
    if (counters.plain[i].load() == 0) continue;
    Say(Level::kInfo, {"tasks: ", number(counters.plain[i]), " launches plain: ", kPlainWords[i]});
  }
}

}  // namespace cupola::intercept::tasks
