// LaunchReport: what Cupola did for one process: in which ways the launches of each kernel went out, how much GPU time
// that was, and why launches did not go a better way. The preloaded library makes it at exit (intercept/record/
// launch_uses.h), as text for people or as one line of JSON; `cupola run --report` and `cupola why` read that line and
// print the same text. Uses nothing that a loaded library may not have. Plain values and pure functions; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/reasons.h"

namespace cupola {

/// How a launch went out, the better ways first.
enum class Way : uint8_t {
  kTask,         ///< as a task of the MasterKernel
  kPreemptible,  ///< as its preemptible variant
  kSliced,       ///< as its sliced variant
  kBatched,      ///< with others as one graph
  kGated,        ///< as the program made it, behind gates
  kPlain,        ///< as the program made it
  kCaptured,     ///< the driver recorded it into a graph of the program; nothing ran
  kCount
};
inline constexpr size_t kWays = static_cast<size_t>(Way::kCount);

/// For text and JSON, indexed by Way.
inline constexpr std::string_view kWayWords[kWays] = {"task",  "preemptible", "sliced",  "batched",
                                                      "gated", "plain",       "captured"};

/// Where a GPU time comes from.
enum class TimeSource : uint8_t {
  kNone,       ///< nothing is known
  kEstimated,  ///< from the mean of those launches of the kernel that were timed
  kMeasured,   ///< the sum over all launches, each timed by events
  kCount
};
inline constexpr std::string_view kTimeSourceWords[] = {"unknown", "estimated", "measured"};

struct WayUse {
  uint64_t launches = 0;
  uint64_t gpu_ns = 0;  ///< 0 where `source` is kNone
  TimeSource source = TimeSource::kNone;
};

/// Launches of a kernel that did not go a better way, for one reason.
struct ReasonUse {
  Way better = Way::kTask;  ///< kTask or kPreemptible
  Reason reason = Reason::kNone;
  uint64_t launches = 0;
  std::string detail;  ///< what the build said of the kernel; "": nothing
};

struct KernelUse {
  std::string name;                   ///< mangled; "(graph)" for launches of graphs
  std::array<WayUse, kWays> ways;     ///< indexed by Way
  uint64_t failed = 0;                ///< launches that the driver refused; they are in no way
  std::vector<ReasonUse> reasons;     ///< those of one better way together, the most frequent first
};

struct LaunchReport {
  int64_t pid = 0;
  std::string program;             ///< path of the executable
  std::vector<KernelUse> kernels;  ///< the one with the most GPU time first
};

/// The sum over all ways.
WayUse TotalOf(const KernelUse& kernel);

/// Lines for people, each beginning with "cupola PID: " and ending in a newline.
std::string ReportText(const LaunchReport& report);

/// The lines about one kernel alone, each beginning with `indent`.
std::string KernelUseText(const KernelUse& kernel, std::string_view indent);

/// One JSON object in one line, without a newline (docs/reports.md has its members). Bytes of names that
/// are not UTF-8 are replaced by U+FFFD.
std::string ReportJson(const LaunchReport& report);

}  // namespace cupola
