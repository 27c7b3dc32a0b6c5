#include "cli/child_process.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

namespace cupola {
namespace {

constexpr int kPassedOn[] = {SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP};

Error ExecError(const char* program, int failure) {
  return MakeError(failure == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                   fmt::format("{}: cannot be executed: {}", program, std::strerror(failure)));
}

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& text : strings) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

Error ExecProgram(char** argv, const std::vector<std::string>& environment) {
  const std::vector<char*> pointers = Pointers(environment);
  execvpe(argv[0], argv, pointers.data());
  return ExecError(argv[0], errno);
}

Result<ChildProcess> ChildProcess::Start(char** argv, const std::vector<std::string>& environment) {
  int report[2];  // carries the child's errno when it cannot execute; a successful exec closes it
  if (pipe2(report, O_CLOEXEC) != 0) return ExecError(argv[0], errno);
  const std::vector<char*> pointers = Pointers(environment);

  sigset_t signals;
  sigset_t before;
  sigemptyset(&signals);
  for (const int signal : kPassedOn) sigaddset(&signals, signal);
  sigaddset(&signals, SIGCHLD);
  sigaddset(&signals, SIGCONT);
  sigprocmask(SIG_BLOCK, &signals, &before);
  // Our caller may have left SIGCHLD ignored, and then wait() would return no status.
  struct sigaction default_action {};
  struct sigaction before_action {};
  default_action.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &default_action, &before_action);

  const pid_t pid = fork();
  if (pid == 0) {
    sigaction(SIGCHLD, &before_action, nullptr);
    sigprocmask(SIG_SETMASK, &before, nullptr);
    execvpe(argv[0], argv, pointers.data());
    const int failure = errno;
    (void)!write(report[1], &failure, sizeof(failure));
    _exit(127);
  }
  int failure = pid < 0 ? errno : 0;
  close(report[1]);
  if (pid > 0) {
    ssize_t got = 0;
    do {
      got = read(report[0], &failure, sizeof(failure));
    } while (got < 0 && errno == EINTR);
  }
  close(report[0]);
  if (failure == 0) return ChildProcess(pid, signals);
  if (pid > 0) waitpid(pid, nullptr, 0);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  return ExecError(argv[0], failure);
}

bool ChildProcess::Reap(int& status) {
  pid_t got = 0;
  while ((got = waitpid(pid_, &status, WNOHANG | WUNTRACED | WCONTINUED)) == pid_) {
    if (WIFCONTINUED(status)) {
      stopped_ = false;
    } else if (WIFSTOPPED(status)) {
      stopped_ = true;
      // Stop as well, so that the shell that waits for us sees its job stopped. Without a terminal
      // do not stop: nobody would continue us there, but somebody may continue the child.
      const int terminal = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
      if (terminal >= 0) {
        close(terminal);
        raise(SIGSTOP);
      }
    } else {
      return true;
    }
  }
  return got < 0 && errno != EINTR;
}

int ChildProcess::Wait() {
  int status = 0;
  while (!Reap(status)) {
    siginfo_t info{};
    const int signal = sigwaitinfo(&signals_, &info);
    if (signal < 0 || signal == SIGCHLD) continue;
    if (signal == SIGCONT) {
      if (stopped_) kill(pid_, SIGCONT);
      continue;
    }
    const bool sent_by_process = info.si_code <= 0;  // SI_USER, SI_QUEUE, SI_TKILL
    if (sent_by_process && info.si_pid != pid_) kill(pid_, signal);
  }
  return status;
}

int EndLike(int status) {
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  const int number = WTERMSIG(status);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  signal(number, SIG_DFL);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, number);
  sigprocmask(SIG_UNBLOCK, &one, nullptr);
  raise(number);
  return 128 + number;  // reached only for a signal that does not end a process
}

}  // namespace cupola
