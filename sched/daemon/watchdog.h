// Watchdog: a thread that keeps the daemon's own thread from being held up for good. Almost nothing that the daemon
// does can wait, but some of it depends on others: the last close of a file descriptor that a peer has sent waits for
// the file behind it. A daemon that stays in one such call gets a signal that ends the wait. A daemon that does not
// come to handle its SIGTERM or SIGINT is ended. Server::Run owns the Watchdog.
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
  /// Watches the calling thread. All threads have blocked SIGTERM and SIGINT. `last_words` is called on the watchdog's
  /// thread before it ends the process.
  explicit Watchdog(std::function<void()> last_words);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  /// Ends the watch: from here on the thread may take its time.
  ~Watchdog();

  /// Begin: the watched thread begins to work on something. Rest: it waits for what comes next.
  void Begin() { busy_since_ns_.store(BoardClockNs()); }
  void Rest() { busy_since_ns_.store(0); }

 private:
  void Watch();

  std::function<void()> last_words_;
  pthread_t watched_;
  int end_ = -1;  ///< eventfd, readable when the watchdog is to stop
  std::atomic<uint64_t> busy_since_ns_{0};  ///< of the watched thread; 0 = it rests
  std::thread thread_;
};

}  // namespace cupola::sched
