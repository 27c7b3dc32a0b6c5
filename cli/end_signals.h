// EndSignals: a command that has the terminal ends in order at SIGINT, SIGTERM, SIGHUP or SIGQUIT, and ends also where
// the terminal takes nothing any more (nobody reads it, or it was stopped): what waits to be written is thrown away
// then.
#pragma once

#include <thread>

namespace cupola {

class EndSignals {
 public:
  /// Blocks the signals in the calling thread and those that it starts, and waits for them on a thread of its own.
  EndSignals();
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;
  /// The command has given the terminal back. The signals stay blocked.
  ~EndSignals();

  /// Readable once it is to end. Not to be read.
  int fd() const { return ended_; }

 private:
  void Wait();

  int signals_ = -1, ended_ = -1, done_ = -1;
  std::thread thread_;
};

}  // namespace cupola
