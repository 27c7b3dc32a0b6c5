// Watchdog: a thread that sees to it that the daemon's own thread is not held up for good. Almost nothing that it
// does can wait; what still can is up to others (the last close of a descriptor that a peer has sent waits for what
// is in it). A daemon that stays in one such place gets a signal that ends the wait, and one that does not come to
// its SIGTERM or SIGINT is ended all the same.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

#include <pthread.h>

#include "sched/board/yield_protocol.h"

namespace cupola::sched {

class Watchdog {
 public:
  /// Watches the calling thread, which has blocked SIGTERM and SIGINT, as all others have. `last_words` is called on
  /// the watchdog's thread before it ends the process.
  explicit Watchdog(std::function<void()> last_words);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  /// From here on the thread may take its time.
  ~Watchdog();

  /// The watched thread begins to work on something, or waits for what comes next.
  void Begin() { busy_since_ns_.store(BoardClockNs()); }
  void Rest() { busy_since_ns_.store(0); }

 private:
  void Watch();

  std::function<void()> last_words_;
  pthread_t watched_;
  int end_ = -1;  ///< readable when it is to stop
  std::atomic<uint64_t> busy_since_ns_{0};
  std::thread thread_;
};

}  // namespace cupola::sched
