// ChildProcess: runs a program as if its caller had started it, for the time that its launches are
// collected. Same process group, streams and terminal; signals sent to us reach it; its stops are
// ours, so that a shell's job control works. One at a time in a process, used from the main thread,
// which must create it before any other thread: it blocks the signals that it passes on.
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
  /// kNotFound or kIo: it could not be executed; there is no child then.
  static Result<ChildProcess> Start(char** argv, const std::vector<std::string>& environment);

  /// Waits for the child to end and returns its wait status (wait(2)).
  ///
  /// SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2 and SIGTSTP sent to this process by another
  /// one are passed on; those that the terminal sends reach the child by themselves.
  int Wait();

 private:
  ChildProcess(pid_t pid, const sigset_t& signals) : pid_(pid), signals_(signals) {}
  /// Takes note of changes of the child; true = it ended.
  bool Reap(int& status);

  pid_t pid_;
  sigset_t signals_;
  bool stopped_ = false;
};

/// Ends this process as a child with wait status `status` ended: by the same signal (without a
/// second core file), or returns its exit code for main() to return.
int EndLike(int status);

/// Replaces this process by `argv`, with `environment`. Returns only when that fails.
Error ExecProgram(char** argv, const std::vector<std::string>& environment);

}  // namespace cupola
