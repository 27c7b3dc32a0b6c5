#include "cli/end_signals.h"

#include <csignal>
#include <cstdint>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "cli/commands.h"

namespace cupola {
namespace {

constexpr int kRestoreMs = 500, kFlushMs = 50, kFlushes = 40;

void Raise(int event) {
  const uint64_t one = 1;
  (void)!write(event, &one, sizeof(one));
}

bool IsReadable(int fd, int timeout_ms) {
  pollfd wanted{fd, POLLIN, 0};
  return poll(&wanted, 1, timeout_ms) > 0;
}

}  // namespace

EndSignals::EndSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signals_ = signalfd(-1, &signals, SFD_CLOEXEC);
  ended_ = eventfd(0, EFD_CLOEXEC);
  done_ = eventfd(0, EFD_CLOEXEC);
  // The new thread blocks all signals, so the others go to the first thread: a changed size of the
  // terminal must wake that one.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  thread_ = std::thread([this] { Wait(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

EndSignals::~EndSignals() {
  Raise(done_);
  thread_.join();
  for (const int fd : {signals_, ended_, done_}) close(fd);
}

void EndSignals::Wait() {
  pollfd wanted[2] = {{signals_, POLLIN, 0}, {done_, POLLIN, 0}};
  while (poll(wanted, 2, -1) < 0) {
  }
  if (wanted[1].revents != 0) return;
  Raise(ended_);
  if (IsReadable(done_, kRestoreMs)) return;
  tcflow(STDOUT_FILENO, TCOON);  // the user may have stopped the output by Ctrl-S
  if (IsReadable(done_, kFlushMs)) return;
  // Nobody reads the output, so it is discarded. That is repeated, because each further write may
  // wait again.
  for (int i = 0; i < kFlushes; ++i) {
    tcflush(STDOUT_FILENO, TCOFLUSH);
    if (IsReadable(done_, kFlushMs)) return;
  }
  _exit(kExitBadInput);
}

}  // namespace cupola
