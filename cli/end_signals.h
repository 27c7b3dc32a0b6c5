// EndSignals: lets a command that has taken over the terminal end in order at SIGINT, SIGTERM, SIGHUP or SIGQUIT. Where
// the terminal accepts no more output, because nobody reads it or it was stopped, the command still ends, and output
// that waits is discarded. `cupola top` creates one, on its main thread.
#pragma once

#include <thread>

namespace cupola {

class EndSignals {
 public:
  /// Blocks the signals in the calling thread and in threads that it starts later, and starts a thread that waits for
  /// them.
  EndSignals();
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;
  /// To be called when the command has given the terminal back. The signals stay blocked.
  ~EndSignals();

  /// A file descriptor that becomes readable when the command is to end. To be polled only, not read.
  int fd() const { return ended_; }

 private:
  void Wait();

  int signals_ = -1;  ///< signalfd
  int ended_ = -1;    ///< eventfd: a signal came
  int done_ = -1;     ///< eventfd: the destructor runs
  std::thread thread_;
};

}  // namespace cupola
