#include "sched/daemon/watchdog.h"

#include <system_error>
#include <utility>

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace cupola::sched {
namespace {

constexpr uint64_t kLongNs = 300'000'000, kTooLongNs = 1'500'000'000;
constexpr int kLookMs = 250;
constexpr int kNudge = SIGURG;  // ignored where nobody handles it, should one come too late

bool IsToldToEnd() {
  sigset_t pending;
  return sigpending(&pending) == 0 && (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1);
}

}  // namespace

Watchdog::Watchdog(std::function<void()> last_words)
    : last_words_(std::move(last_words)), watched_(pthread_self()), end_(eventfd(0, EFD_CLOEXEC)) {
  // The handler does nothing, but without a handler the signal would end no wait.
  struct sigaction nothing {};
  nothing.sa_handler = [](int) {};
  sigaction(kNudge, &nothing, nullptr);
  if (end_ < 0) return;
  try {
    thread_ = std::thread([this] { Watch(); });
  } catch (const std::system_error&) {
    // The daemon works without a watchdog.
  }
}

Watchdog::~Watchdog() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    (void)!write(end_, &one, sizeof(one));
    thread_.join();
  }
  if (end_ >= 0) close(end_);
}

void Watchdog::Watch() {
  pollfd end{end_, POLLIN, 0};
  while (poll(&end, 1, kLookMs) <= 0) {
    const uint64_t since = busy_since_ns_.load();
    const uint64_t busy_ns = since != 0 ? BoardClockNs() - since : 0;
    if (busy_ns > kTooLongNs && IsToldToEnd()) {
      last_words_();
      _exit(1);
    }
    if (busy_ns > kLongNs) pthread_kill(watched_, kNudge);
  }
}

}  // namespace cupola::sched
