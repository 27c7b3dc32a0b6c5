// LaunchCollector: reads the launch records of all processes of a run while they run, and makes a trace of them, a
// summary, or both. The command creates it, starts the program, calls Start(), waits for the program and calls
// Finish(). From Start() on, a thread of its own reads; the public functions are for the thread that created it.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "base/private_folder.h"
#include "base/result.h"
#include "profiles/launch_ring_reader.h"
#include "profiles/launch_summary.h"
#include "profiles/launch_trace.h"

namespace cupola {

/// If this process runs below a `cupola run` or `cupola profile`: the folder for launch records of that command; else
/// "".
std::string OuterRecords();

/// Gets everything that a collector reads. The collector's thread makes the calls, and Finish() the last ones.
class LaunchObserver {
 public:
  virtual ~LaunchObserver() = default;
  virtual void Add(const LaunchRingReader& source, const Launch& launch) = 0;
  /// Called when all launches of a process have come. Other files that the process left are still in `folder`.
  virtual void Close(const LaunchRingReader& source, const std::string& folder) = 0;
};

class LaunchCollector {
 public:
  /// Makes the private folder for the records and opens the trace (`trace_file` "": none). `observer` (may be null)
  /// must outlive the collector. Errors: kIo or kInvalidArgument when one of the two cannot be made; nothing is left
  /// behind then.
  static Result<std::unique_ptr<LaunchCollector>> Create(const std::string& trace_file,
                                                         LaunchObserver* observer = nullptr);

  /// Ends its thread and removes the folder.
  ~LaunchCollector();
  LaunchCollector(const LaunchCollector&) = delete;
  LaunchCollector& operator=(const LaunchCollector&) = delete;

  /// The value for CUPOLA_RECORDS: the folder for the records.
  const std::string& folder() const { return folder_.path(); }

  /// Starts the thread that reads. To be called after fork(), because a thread would not exist in the child.
  void Start();

  /// Reads the records that are left, also those of processes that outlive the program, and puts the trace in place.
  /// To be called once, after the program has ended. Error: kIo when the trace could not be written.
  Status Finish();

  // What follows is valid after Finish().

  const LaunchSummary& summary() const { return summary_; }
  const LaunchTotals& totals() const { return totals_; }
  /// Number of launches of all kinds that were read.
  uint64_t read() const { return read_; }
  /// Whether a `cupola run` below this one collected the launches of the programs that it started itself.
  bool is_taken_within() const;
  /// The files that could not be read, each with the reason.
  const std::vector<Error>& problems() const { return problems_; }

 private:
  struct Source {
    std::unique_ptr<LaunchRingReader> reader;
    TraceProcessId process;
  };

  explicit LaunchCollector(PrivateFolder folder) : folder_(std::move(folder)) {}
  void Loop();
  void EndThread();
  /// Opens new files and reads all records that are there. Returns their number.
  size_t Poll(bool last);
  void OpenNewFiles(bool last);
  size_t DrainSource(Source& source, WriterState state);
  void Close(const std::string& name, Source& source);

  PrivateFolder folder_;  ///< for the records
  std::unique_ptr<LaunchTrace> trace_;
  LaunchObserver* observer_ = nullptr;
  LaunchSummary summary_;
  LaunchTotals totals_;
  uint64_t read_ = 0;
  std::vector<Error> problems_;
  std::map<std::string, Source> sources_;  ///< by file name
  std::set<std::string> closed_;           ///< names of the files that are not read any more
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
};

}  // namespace cupola
