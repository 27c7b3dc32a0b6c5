// LaunchTrace: writes launches as a Chrome JSON trace, the format that ui.perfetto.dev and
// chrome://tracing open ("Trace Event Format", Google). The trace has a row for each process and
// stream, with what ran there, and a row for each thread, with the calls that launched it.
//
// One thread owns it. Events go to a temporary file next to the final one. The final file appears,
// whole and valid, at Finish(); without Finish() it never appears.
#pragma once

#include <cstdio>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/strong_id.h"
#include "profiles/launch_ring_reader.h"

namespace cupola {

/// The number of the format, in the head of each trace. The head also names the writer ("cupola run", or "cupola serve"
/// for the arbiter's trace) and the CLOCK_MONOTONIC time that is 0 in the trace. Each event is a line of its own.
/// `cupola report` reads both.
inline constexpr int kTraceFormat = 1;

struct TraceProcessTag;
/// Names one process of a trace.
using TraceProcessId = StrongId<TraceProcessTag>;

class LaunchTrace {
 public:
  /// Opens a temporary file next to `path`, or next to its target where it is a link. `base_ns` is
  /// the CLOCK_MONOTONIC time that becomes 0 in the trace. kInvalidArgument: `path` exists and is
  /// not a regular file. kIo: the file cannot be written there.
  static Result<std::unique_ptr<LaunchTrace>> Create(const std::string& path, uint64_t base_ns);

  /// Removes the temporary file unless Finish() succeeded.
  ~LaunchTrace();
  LaunchTrace(const LaunchTrace&) = delete;
  LaunchTrace& operator=(const LaunchTrace&) = delete;

  /// Adds a process, as a new group of rows. A pid that was seen before (a program that replaced
  /// another by exec) gets a new group too.
  TraceProcessId AddProcess(uint32_t pid, const std::string& executable);

  /// Adds one launch of `process`: kernels and graphs as slices, captured and failed launches as
  /// instants. Times that were not taken on the device are those of the call (`"timed": "host"`).
  void Add(TraceProcessId process, const Launch& launch);

  /// The number of launches added so far, of every kind.
  uint64_t count() const { return count_; }

  /// Ends the JSON text and puts the file in place. kIo: something could not be written; the file
  /// that was at `path` before is untouched.
  Status Finish(const LaunchTotals& totals);

 private:
  /// The rows of one stream. The slices of one row must not overlap, so launches that overlap
  /// others get a second row.
  struct StreamRows {
    std::string label;
    std::vector<uint64_t> tids;      ///< one for each row
    std::vector<uint64_t> end_ns;    ///< end of the last slice of each row
  };
  struct Process {
    uint64_t pid = 0;                                             ///< as the trace shows it
    std::vector<uint64_t> contexts;                               ///< in order of appearance
    std::map<std::pair<uint64_t, uint64_t>, StreamRows> streams;  ///< by context, stream
    std::set<uint32_t> threads;                                   ///< threads that have a row
    std::unordered_map<std::string, std::string> kernels;  ///< symbol -> JSON text of its name
    uint64_t next_row = 0;
  };

  LaunchTrace(std::string path, std::string temporary, std::FILE* file, uint64_t base_ns);
  void Write(const std::string& event);
  void NameRow(uint64_t pid, uint64_t tid, const std::string& name, uint64_t order);
  uint64_t RowFor(Process& process, const Launch& launch, uint64_t start_ns, uint64_t end_ns);
  const std::string& KernelName(Process& process, const Launch& launch);
  void AddCall(Process& process, const Launch& launch, const std::string& name, uint64_t flow);
  std::string Micros(uint64_t ns) const;

  std::string path_;
  std::string temporary_;
  std::FILE* file_;
  uint64_t base_ns_;
  std::vector<Process> processes_;
  uint64_t count_ = 0;
  bool first_ = true;
  bool finished_ = false;
};

}  // namespace cupola
