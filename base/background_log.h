// BackgroundLog: the log of a daemon. spdlog's default logger hands its lines to a thread of its own, by way of a
// bounded queue, so that whatever becomes of standard error (nobody reads it, its reader is gone, its disk is full)
// holds up nobody who has something to say. Lines for which there is no room are dropped, the oldest first, and
// counted; the next line that gets through is followed by their number.
#pragma once

#include <cstdint>
#include <memory>

namespace spdlog::details {
class thread_pool;
}

namespace cupola {

class BackgroundLog {
 public:
  /// Replaces the default logger; its level and pattern stay those of InitLog. The thread has the calling thread's
  /// signals blocked. Where the system has no thread for it the log stays as it was.
  BackgroundLog();
  BackgroundLog(const BackgroundLog&) = delete;
  BackgroundLog& operator=(const BackgroundLog&) = delete;
  /// Waits for what is queued, for at most 300 ms; what has not been written by then is lost. Nobody may log any
  /// more while this runs; afterwards lines go out as before the constructor.
  ~BackgroundLog();

  /// Lines that were dropped or could not be written, of this process. Any thread.
  static uint64_t LostLines();

 private:
  std::shared_ptr<spdlog::details::thread_pool> pool_;
};

}  // namespace cupola
