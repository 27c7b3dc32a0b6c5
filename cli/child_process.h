// ChildProcess: runs a program as if our caller had started it, while `cupola` collects its
// launches. The child has our process group, streams and terminal. Signals sent to us are passed on
// to it, and when it stops we stop too, so that a shell's job control works. `run`, `profile` and
// `tune` use it from the main thread, one at a time. It must be created before any other thread,
// because it blocks the signals that it passes on.
#pragma once

#include <string>
#include <vector>

#include <signal.h>
#include <sys/types.h>

#include "base/result.h"

namespace cupola {

class ChildProcess {
 public:
  /// Starts `argv` (NULL-terminated) as execvp(3) does, with `environment` ("NAME=value" each).
  /// Errors: kNotFound or kIo when it could not be executed; there is then no child.
  static Result<ChildProcess> Start(char** argv, const std::vector<std::string>& environment);

  /// Waits for the child to end and returns its wait status (wait(2)).
  ///
  /// Passes on SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2 and SIGTSTP that another process
  /// sends to this one. Signals from the terminal reach the child without that.
  int Wait();

 private:
  ChildProcess(pid_t pid, const sigset_t& signals) : pid_(pid), signals_(signals) {}
  /// Reads the child's changes of state; true when it has ended.
  bool Reap(int& status);

  pid_t pid_;
  sigset_t signals_;      ///< those that Wait() waits for
  bool stopped_ = false;  ///< whether the child is stopped
};

/// Ends this process in the way in which a child with wait status `status` ended. If a signal ended
/// the child, the same signal ends this process, without a second core file; else returns the exit
/// code that main() must return.
int EndLike(int status);

/// Replaces this process by `argv`, with `environment`. Returns only when that fails.
Error ExecProgram(char** argv, const std::vector<std::string>& environment);

}  // namespace cupola
