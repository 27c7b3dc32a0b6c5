#include "intercept/record/launch_uses.h"

#include <algorithm>
#include <deque>
#include <string>
#include <unordered_map>

#include <pthread.h>
#include <unistd.h>

#include "intercept/process/mutex_lock.h"
#include "intercept/record/kernel_names.h"
#include "sched/board/executable_path.h"

namespace cupola::intercept {
namespace {

// Of each kernel so many launches are timed, then every so-many-th, because the events around a launch cost the device
// some microseconds.
constexpr uint64_t kTimedFirst = 64, kTimedEvery = 16;

struct CountedWay {
  uint64_t launches = 0;
  uint64_t timed = 0;     ///< launches whose time is in `timed_ns`
  uint64_t timed_ns = 0;
};

struct CountedKernel {
  std::string name;
  CountedWay ways[kWays];
  uint64_t failed = 0;
  uint64_t asked = 0;  ///< calls of IsToBeTimed
  uint64_t against_task[kReasons] = {}, against_preemptible[kReasons] = {};
  std::string task_detail, preemptible_detail;
};

// Made at first use and never destroyed, since threads may launch while the process exits.
struct Table {
  std::deque<CountedKernel> kernels;
  std::unordered_map<std::string, UseIndex> by_name;
  std::unordered_map<const void*, UseIndex> by_handle;
};

pthread_mutex_t launch_uses_mutex = PTHREAD_MUTEX_INITIALIZER;
Table* all_uses = nullptr;

Table& TableLocked() {
  if (all_uses == nullptr) all_uses = new Table;
  return *all_uses;
}

UseIndex IndexOfNameLocked(const std::string& name) {
  Table& all = TableLocked();
  const auto [at, is_new] = all.by_name.emplace(name, static_cast<UseIndex>(all.kernels.size()));
  if (is_new) all.kernels.emplace_back().name = name;
  return at->second;
}

WayUse UseOfWay(const CountedKernel& kernel, const CountedWay& way, const CountedWay& all_timed) {
  WayUse use{.launches = way.launches};
  if (way.launches == 0 || &way == &kernel.ways[static_cast<size_t>(Way::kCaptured)]) return use;
  const CountedWay& known = way.timed != 0 ? way : all_timed;
  if (known.timed == 0) return use;
  use.source = way.timed >= way.launches ? TimeSource::kMeasured : TimeSource::kEstimated;
  use.gpu_ns = use.source == TimeSource::kMeasured
                   ? way.timed_ns
                   : static_cast<uint64_t>(static_cast<double>(known.timed_ns) / static_cast<double>(known.timed) *
                                           static_cast<double>(way.launches));
  return use;
}

void AppendReasons(Way better, const uint64_t (&counts)[kReasons], const std::string& detail, Reason is_of_build,
                   std::vector<ReasonUse>* to) {
  const auto first = static_cast<ptrdiff_t>(to->size());
  for (size_t i = 0; i < kReasons; ++i) {
    const auto reason = static_cast<Reason>(i);
    if (counts[i] == 0) continue;
    to->push_back({.better = better, .reason = reason, .launches = counts[i],
                   .detail = reason == is_of_build || reason == Reason::kInexact ? detail : std::string()});
  }
  std::sort(to->begin() + first, to->end(),
            [](const ReasonUse& a, const ReasonUse& b) { return a.launches > b.launches; });
}

KernelUse ReportOf(const CountedKernel& kernel) {
  KernelUse use{.name = kernel.name, .failed = kernel.failed};
  CountedWay timed;
  for (const CountedWay& way : kernel.ways) {
    timed.timed += way.timed;
    timed.timed_ns += way.timed_ns;
  }
  for (size_t i = 0; i < kWays; ++i) use.ways[i] = UseOfWay(kernel, kernel.ways[i], timed);
  AppendReasons(Way::kTask, kernel.against_task, kernel.task_detail, Reason::kNoBody, &use.reasons);
  AppendReasons(Way::kPreemptible, kernel.against_preemptible, kernel.preemptible_detail, Reason::kNoVariant,
                &use.reasons);
  return use;
}

}  // namespace

UseIndex UseOf(const void* function) noexcept {
  {
    const MutexLock lock(launch_uses_mutex);
    Table& all = TableLocked();
    const auto found = all.by_handle.find(function);
    if (found != all.by_handle.end()) return found->second;
  }
  // Without the mutex, since the driver has locks of its own.
  const char* const name = function == nullptr ? "(graph)" : DriversNameOf(function);
  const MutexLock lock(launch_uses_mutex);
  const UseIndex index = IndexOfNameLocked(name != nullptr ? name : "");
  TableLocked().by_handle[function] = index;
  return index;
}

bool IsToBeTimed(UseIndex kernel) noexcept {
  const MutexLock lock(launch_uses_mutex);
  const uint64_t asked = TableLocked().kernels[kernel].asked++;
  return asked < kTimedFirst || asked % kTimedEvery == 0;
}

void AddLaunch(UseIndex kernel, const LaunchUse& use) noexcept {
  const MutexLock lock(launch_uses_mutex);
  CountedKernel& counted = TableLocked().kernels[kernel];
  if (use.has_failed) {
    ++counted.failed;
    return;
  }
  ++counted.ways[static_cast<size_t>(use.way)].launches;
  if (use.against_task != Reason::kNone) ++counted.against_task[static_cast<size_t>(use.against_task)];
  if (use.against_preemptible != Reason::kNone) {
    ++counted.against_preemptible[static_cast<size_t>(use.against_preemptible)];
  }
  if (counted.task_detail.empty()) counted.task_detail = use.task_detail;
  if (counted.preemptible_detail.empty()) counted.preemptible_detail = use.preemptible_detail;
}

void AddTime(uint64_t ticket, uint64_t ns) noexcept {
  const MutexLock lock(launch_uses_mutex);
  const uint64_t kernel = ticket / kWays;
  if (all_uses == nullptr || kernel >= all_uses->kernels.size()) return;
  CountedWay& way = all_uses->kernels[kernel].ways[ticket % kWays];
  ++way.timed;
  way.timed_ns += ns;
}

void ForgetHandlesOfUses() noexcept {
  const MutexLock lock(launch_uses_mutex);
  if (all_uses != nullptr) all_uses->by_handle.clear();
}

LaunchReport MakeReport() noexcept {
  char program[1024] = "";
  (void)sched::ExecutablePath("/proc/self", program, sizeof program);
  LaunchReport report{.pid = getpid(), .program = program};
  const MutexLock lock(launch_uses_mutex);
  if (all_uses == nullptr) return report;
  for (const CountedKernel& kernel : all_uses->kernels) report.kernels.push_back(ReportOf(kernel));
  std::stable_sort(report.kernels.begin(), report.kernels.end(), [](const KernelUse& a, const KernelUse& b) {
    const WayUse of_a = TotalOf(a), of_b = TotalOf(b);
    return of_a.gpu_ns != of_b.gpu_ns ? of_a.gpu_ns > of_b.gpu_ns : of_a.launches > of_b.launches;
  });
  return report;
}

void ForgetUsesAfterFork() noexcept {
  launch_uses_mutex = PTHREAD_MUTEX_INITIALIZER;
  all_uses = nullptr;  // not freed: another thread of the parent may have been changing it
}

}  // namespace cupola::intercept
