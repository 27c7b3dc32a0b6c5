// A process whose thread is held up, with the watchdog beside it.
#include "sched/daemon/watchdog.h"

#include <gtest/gtest.h>

#include <cerrno>

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cupola::sched {
namespace {

/// Runs `work` in a child with SIGTERM blocked, sends it that signal once it has begun, and returns its wait status.
template <typename Work>
int StatusOfChild(Work work) {
  int begun[2];
  EXPECT_EQ(pipe(begun), 0);
  const pid_t child = fork();
  if (child == 0) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, nullptr);
    alarm(20);  // a limit for a watchdog that does nothing
    work(begun[1]);
    _exit(7);
  }
  char word = 0;
  EXPECT_EQ(read(begun[0], &word, 1), 1);
  kill(child, SIGTERM);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  close(begun[0]);
  close(begun[1]);
  return status;
}

TEST(Watchdog, OneThatIsHeldUpEndsWhenTold) {
  const int status = StatusOfChild([](int begun) {
    Watchdog watchdog([begun] { (void)!write(begun, "w", 1); });
    watchdog.Begin();
    (void)!write(begun, "b", 1);
    for (;;) poll(nullptr, 0, -1);  // whatever interrupts it
  });
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
}

TEST(Watchdog, AWaitThatASignalEndsIsEnded) {
  const int status = StatusOfChild([](int begun) {
    Watchdog watchdog([] {});
    watchdog.Begin();
    (void)!write(begun, "b", 1);
    const bool is_interrupted = poll(nullptr, 0, -1) < 0 && errno == EINTR;
    watchdog.Rest();
    _exit(is_interrupted ? 5 : 6);
  });
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 5);
}

TEST(Watchdog, OneThatRestsIsLeftAlone) {
  const int status = StatusOfChild([](int begun) {
    {
      Watchdog watchdog([] {});
      watchdog.Begin();
      watchdog.Rest();
      (void)!write(begun, "b", 1);
      poll(nullptr, 0, 2500);  // a signal would end it too early
    }
    sigset_t pending;
    sigpending(&pending);
    _exit(sigismember(&pending, SIGTERM) == 1 ? 5 : 6);
  });
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 5);
}

}  // namespace
}  // namespace cupola::sched
