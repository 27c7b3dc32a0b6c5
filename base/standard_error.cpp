#include "base/standard_error.h"

#include <cerrno>
#include <ctime>
#include <initializer_list>

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace cupola {
namespace {

constexpr int kFullPipeMs = 100;

FileIdentity at_start;
bool is_noted = false;

// A late constructor of another object may have called already, and then has noted it.
__attribute__((constructor)) void NoteAtLoad() {
  if (!is_noted) TakeStandardError(IdentityOf(STDERR_FILENO));
}

}  // namespace

WithoutWriteSignals::WithoutWriteSignals() noexcept {
  sigset_t pending;
  sigemptyset(&signals_);
  sigpending(&pending);
  for (const int one : {SIGPIPE, SIGXFSZ}) {
    if (sigismember(&pending, one) == 0) sigaddset(&signals_, one);
  }
  pthread_sigmask(SIG_BLOCK, &signals_, &before_);
}

WithoutWriteSignals::~WithoutWriteSignals() {
  const int saved_errno = errno;
  constexpr timespec kNow = {};
  while (sigtimedwait(&signals_, nullptr, &kNow) > 0) {
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  errno = saved_errno;
}

FileIdentity IdentityOf(int descriptor) noexcept {
  const int saved_errno = errno;
  struct statx facts {};
  FileIdentity identity;
  if (statx(descriptor, "", AT_EMPTY_PATH, STATX_TYPE | STATX_INO | STATX_BTIME, &facts) == 0) {
    identity.device = makedev(facts.stx_dev_major, facts.stx_dev_minor);
    identity.inode = facts.stx_ino;
    identity.type = facts.stx_mode & S_IFMT;
    if ((facts.stx_mask & STATX_BTIME) != 0) {
      identity.born_ns = facts.stx_btime.tv_sec * 1'000'000'000 + facts.stx_btime.tv_nsec;
    }
  } else if (struct stat old {}; fstat(descriptor, &old) == 0) {  // a sandbox without statx(2)
    identity.device = old.st_dev;
    identity.inode = old.st_ino;
    identity.type = old.st_mode & S_IFMT;
  }
  errno = saved_errno;
  return identity;
}

bool WriteToStandardError(const char* text, size_t bytes) noexcept {
  if (!is_noted) NoteAtLoad();
  if (at_start.type == 0 || IdentityOf(STDERR_FILENO) != at_start) return false;
  const int saved_errno = errno;
  pollfd output{STDERR_FILENO, POLLOUT, 0};
  bool is_written = false;
  if (poll(&output, 1, kFullPipeMs) == 1) {
    const WithoutWriteSignals quiet;
    is_written = write(STDERR_FILENO, text, bytes) == static_cast<ssize_t>(bytes);
  }
  errno = saved_errno;
  return is_written;
}

const FileIdentity& StandardErrorAtStart() noexcept { return at_start; }

void TakeStandardError(const FileIdentity& identity) noexcept {
  at_start = identity;
  is_noted = true;
}

}  // namespace cupola
