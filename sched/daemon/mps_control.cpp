#include "sched/daemon/mps_control.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

namespace cupola::sched {
namespace {

constexpr char kProgram[] = "nvidia-cuda-mps-control";
constexpr int kTimeoutMs = 10'000;

/// Runs the control program with one argument, or with `input` on its standard input, and returns its exit code. The
/// program has no signals blocked, and its output goes to the daemon's standard error.
Result<int> RunControl(const char* argument, const char* input) {
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) != 0) return MakeError(ErrorCode::kIo, std::strerror(errno));
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, ends[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  char program[] = "nvidia-cuda-mps-control";
  char* argv[] = {program, const_cast<char*>(argument), nullptr};
  pid_t child = -1;
  const int failed = posix_spawnp(&child, kProgram, &files, &attributes, argv, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  close(ends[0]);
  if (failed == 0 && input != nullptr) {
    // A pipe takes these few bytes at once, whether the child lives or not. Where the child has ended, the write fails
    // with SIGPIPE, which is ignored meanwhile.
    struct sigaction ignore {};
    struct sigaction before {};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &ignore, &before);
    (void)!write(ends[1], input, std::strlen(input));
    sigaction(SIGPIPE, &before, nullptr);
  }
  close(ends[1]);
  if (failed != 0) {
    return MakeError(failed == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                     fmt::format("cannot run {}: {}", kProgram, std::strerror(failed)));
  }
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
  pollfd wanted{pidfd, POLLIN, 0};
  if (pidfd >= 0 && poll(&wanted, 1, kTimeoutMs) == 0) kill(child, SIGKILL);
  if (pidfd >= 0) close(pidfd);
  int status = 0;
  if (waitpid(child, &status, 0) < 0) return MakeError(ErrorCode::kIo, std::strerror(errno));
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  return MakeError(ErrorCode::kIo, fmt::format("{} did not end by itself", kProgram));
}

}  // namespace

Status MpsControl::Start() {
  const Result<int> code = RunControl("-d", nullptr);
  if (!code) return code.error();
  if (*code != 0) {
    return MakeError(ErrorCode::kIo, fmt::format("{} -d failed with code {}: it may run already, or "
                                                 "this user may not start it",
                                                 kProgram, *code));
  }
  runs_ = true;
  return {};
}

MpsControl::~MpsControl() {
  if (!runs_) return;
  const Result<int> code = RunControl(nullptr, "quit\n");
  if (!code || *code != 0) spdlog::warn("{} did not stop when asked to quit", kProgram);
}

}  // namespace cupola::sched
