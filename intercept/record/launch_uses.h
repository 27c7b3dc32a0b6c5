// Launch uses: what a report says of the launches of this process, counted by kernel while the process runs
// (profiles/report/launch_report.h). Only in a process that writes a report at its end (CUPOLA_REPORT); the launch path
// (path/report_launch.cpp) adds each launch. Takes a mutex; any thread.
#pragma once

#include <cstdint>

#include "profiles/report/launch_report.h"

namespace cupola::intercept {

/// A kernel's place in the table of uses, for as long as the process runs.
using UseIndex = uint32_t;

/// How one launch went out.
struct LaunchUse {
  Way way = Way::kPlain;
  bool has_failed = false;                        ///< then the other members do not count
  Reason against_task = Reason::kNone;            ///< why it did not become a task
  Reason against_preemptible = Reason::kNone;     ///< why it did not go out preemptible
  const char* task_detail = "";                   ///< what the build said of the kernel as a task
  const char* preemptible_detail = "";            ///< and as a preemptible one
};

/// The place of the kernel of `function`, CUfunction or CUkernel; null stands for graphs. Asks the driver for the name
/// of a handle that was not seen before.
UseIndex UseOf(const void* function) noexcept;

/// Whether the next launch of the kernel is to be timed: its first ones are, and then each kTimedEvery-th.
bool IsToBeTimed(UseIndex kernel) noexcept;

void AddLaunch(UseIndex kernel, const LaunchUse& use) noexcept;

/// For StartTimingFor (device_timing.h): `ticket` is TimeTicket of the launch.
void AddTime(uint64_t ticket, uint64_t ns) noexcept;
constexpr uint64_t TimeTicket(UseIndex kernel, Way way) { return uint64_t{kernel} * kWays + static_cast<uint64_t>(way); }

/// Handles may mean other kernels from now on.
void ForgetHandlesOfUses() noexcept;

/// Everything that was counted so far.
LaunchReport MakeReport() noexcept;

void ForgetUsesAfterFork() noexcept;

}  // namespace cupola::intercept
