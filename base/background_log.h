// BackgroundLog: the log of a daemon, whose main() owns it. spdlog's default logger hands its lines to a thread of its
// own through a bounded queue. So whatever becomes of standard error (nobody reads it, its reader is gone, its disk is
// full), no thread that logs waits for it. Lines for which there is no room are dropped, the oldest first, and counted;
// the next line that gets through is followed by their number.
#pragma once

#include <cstdint>
#include <memory>

namespace spdlog::details {
class thread_pool;
}

namespace cupola {

class BackgroundLog {
 public:
  /// Replaces the default logger; level and pattern stay those of InitLog. The log's thread inherits the calling
  /// thread's blocked signals. Where the system has no thread for it, the log stays as it was.
  BackgroundLog();
  BackgroundLog(const BackgroundLog&) = delete;
  BackgroundLog& operator=(const BackgroundLog&) = delete;
  /// Waits for the lines in the queue, for at most 300 ms; lines that have not been written by then are lost. No thread
  /// may log while this runs; afterwards lines go out as before the constructor.
  ~BackgroundLog();

  /// The number of this process's lines that were dropped or could not be written. Any thread.
  static uint64_t LostLines();

 private:
  std::shared_ptr<spdlog::details::thread_pool> pool_;
};

}  // namespace cupola
