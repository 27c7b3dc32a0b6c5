#include "base/standard_error.h"

#include <cerrno>
#include <ctime>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cupola {
namespace {

constexpr int kFullPipeMs = 100;

FileIdentity at_start;
bool is_noted = false;

// A constructor of another object may have called this file's functions before, and they have taken the identity then.
__attribute__((constructor)) void NoteAtLoad() {
  if (!is_noted) TakeStandardError(IdentityOf(STDERR_FILENO));
}

constexpr uint64_t BitOf(int signal) { return uint64_t{1} << (signal - 1); }

}  // namespace

WithoutWriteSignals::WithoutWriteSignals() noexcept {
  const int saved_errno = errno;
  uint64_t pending = 0;
  syscall(SYS_rt_sigpending, &pending, sizeof(pending));
  signals_ = (BitOf(SIGPIPE) | BitOf(SIGXFSZ)) & ~pending;
  syscall(SYS_rt_sigprocmask, SIG_BLOCK, &signals_, &before_, sizeof(signals_));
  errno = saved_errno;
}

WithoutWriteSignals::~WithoutWriteSignals() {
  const int saved_errno = errno;
  constexpr timespec kNow = {};
  while (syscall(SYS_rt_sigtimedwait, &signals_, nullptr, &kNow, sizeof(signals_)) > 0) {
  }
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before_, nullptr, sizeof(before_));
  errno = saved_errno;
}

// A sandbox may forbid statx(2). Then nothing is known of the file, and nothing is written.
FileIdentity IdentityOf(int descriptor) noexcept {
  const int saved_errno = errno;
  struct statx facts {};
  FileIdentity identity;
  if (syscall(SYS_statx, descriptor, "", AT_EMPTY_PATH, STATX_TYPE | STATX_INO | STATX_BTIME, &facts) == 0) {
    identity.device = uint64_t{facts.stx_dev_major} << 32 | facts.stx_dev_minor;
    identity.inode = facts.stx_ino;
    identity.type = facts.stx_mode & S_IFMT;
    if ((facts.stx_mask & STATX_BTIME) != 0) {
      identity.born_ns = facts.stx_btime.tv_sec * 1'000'000'000 + facts.stx_btime.tv_nsec;
    }
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
