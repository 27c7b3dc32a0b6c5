// LaunchCollector: drains the launch records of all processes of a run while they run, into a
// trace, a summary, or both. Create it, start the program, Start(), wait for the program, Finish().
// A thread of its own reads from Start() on; the public functions are for the thread that made it.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "base/result.h"
#include "profiles/launch_ring_reader.h"
#include "profiles/launch_summary.h"
#include "profiles/launch_trace.h"

namespace cupola {

/// Makes a new folder that only this user can enter: in XDG_RUNTIME_DIR, which is memory, TMPDIR, /tmp, or where those
/// cannot be written, as in a container with a read-only root, in /dev/shm or /var/tmp. kIo.
Result<std::string> MakePrivateFolder();

/// The folder for launch records of the `cupola run` or `cupola profile` that this process runs below; "": none.
std::string OuterRecords();

/// Is told of all that a collector reads, by its thread.
class LaunchObserver {
 public:
  virtual ~LaunchObserver() = default;
  virtual void Add(const LaunchRingReader& source, const Launch& launch) = 0;
  /// All of the process's launches have come; `folder` still has what else it left there.
  virtual void Close(const LaunchRingReader& source, const std::string& folder) = 0;
};

class LaunchCollector {
 public:
  /// Makes the private folder for the records and opens the trace (`trace_file` "" = none). kIo,
  /// kInvalidArgument: one of them cannot be made; nothing is left behind.
  /// `observer` (may be null) must outlive it.
  static Result<std::unique_ptr<LaunchCollector>> Create(const std::string& trace_file,
                                                         LaunchObserver* observer = nullptr);

  /// Ends the thread and removes the folder.
  ~LaunchCollector();
  LaunchCollector(const LaunchCollector&) = delete;
  LaunchCollector& operator=(const LaunchCollector&) = delete;

  /// The folder for CUPOLA_RECORDS.
  const std::string& folder() const { return folder_; }

  /// Begins to read. Call after fork(): the thread would not exist in the child.
  void Start();

  /// Reads what is left, also of processes that outlive the program, and puts the trace in place.
  /// Call once, after the program ended. kIo: the trace could not be written.
  Status Finish();

  /// The rest is valid after Finish().
  const LaunchSummary& summary() const { return summary_; }
  const LaunchTotals& totals() const { return totals_; }
  /// Launches of every kind that were read.
  uint64_t read() const { return read_; }
  /// Whether a `cupola run` below this one took the launches of what it started for itself.
  bool is_taken_within() const;
  /// Files that could not be read, one line each.
  const std::vector<Error>& problems() const { return problems_; }

 private:
  struct Source {
    std::unique_ptr<LaunchRingReader> reader;
    TraceProcessId process;
  };

  explicit LaunchCollector(std::string folder) : folder_(std::move(folder)) {}
  void Loop();
  /// Opens new files and drains all. Returns how many records were read.
  size_t Poll(bool last);
  void OpenNewFiles(bool last);
  size_t DrainSource(Source& source, WriterState state);
  void Close(const std::string& name, Source& source);

  std::string folder_;
  std::unique_ptr<LaunchTrace> trace_;
  LaunchObserver* observer_ = nullptr;
  LaunchSummary summary_;
  LaunchTotals totals_;
  uint64_t read_ = 0;
  std::vector<Error> problems_;
  std::map<std::string, Source> sources_;  ///< by file name
  std::set<std::string> closed_;           ///< files that are done with
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
};

}  // namespace cupola
