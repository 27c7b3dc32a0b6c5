// What the daemon reads of processes, which may end at any moment.
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <thread>

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sched/daemon/process_facts.h"

namespace cupola::sched {
namespace {

TEST(ProcessFacts, AProcessHasAStart) {
  const std::optional<uint64_t> start = ProcessStart(static_cast<uint32_t>(getpid()));
  ASSERT_TRUE(start);
  EXPECT_GT(*start, 0U);
  EXPECT_EQ(start, ProcessStart(static_cast<uint32_t>(getpid())));
}

TEST(ProcessFacts, NoProcessHasNone) { EXPECT_FALSE(ProcessStart(0)); }

TEST(ProcessFacts, TheUserIsTheEffectiveOne) {
  EXPECT_EQ(ProcessUser(static_cast<uint32_t>(getpid())), geteuid());
  EXPECT_FALSE(ProcessUser(0));
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  int go[2], ready[2];
  ASSERT_EQ(pipe(go) | pipe(ready), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  char word = 0;
  if (child == 0) {  // most of its files in /proc are root's then
    const bool became = setresuid(0, 65534, 0) == 0 && write(ready[1], "r", 1) == 1;
    _exit(became && read(go[0], &word, 1) == 1 ? 0 : 1);
  }
  EXPECT_EQ(read(ready[0], &word, 1), 1);
  EXPECT_EQ(ProcessUser(static_cast<uint32_t>(child)), 65534U);
  EXPECT_EQ(write(go[1], "g", 1), 1);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  for (const int fd : {go[0], go[1], ready[0], ready[1]}) close(fd);
}

// What is left of its main thread is a zombie, and so it says of itself; the others go on.
TEST(ProcessFacts, AProcessWhoseMainThreadHasEndedLives) {
  int go[2], ready[2];
  ASSERT_EQ(pipe(go) | pipe(ready), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  char word = 0;
  if (child == 0) {
    std::thread([&] {
      for (std::string state; state != "Z"; std::this_thread::yield()) {
        std::ifstream("/proc/self/stat") >> state >> state >> state;
      }
      if (write(ready[1], "r", 1) == 1 && read(go[0], &word, 1) == 1) _exit(0);
    }).detach();
    syscall(SYS_exit, 0);
  }
  EXPECT_EQ(read(ready[0], &word, 1), 1);
  const auto pid = static_cast<uint32_t>(child);
  const std::optional<uint64_t> start = ProcessStart(pid);
  EXPECT_TRUE(start);
  EXPECT_FALSE(HasEnded(pid, start.value_or(0)));
  EXPECT_EQ(ProcessExecutable(pid), ProcessExecutable(static_cast<uint32_t>(getpid())));
  EXPECT_EQ(write(go[1], "g", 1), 1);
  siginfo_t end{};
  EXPECT_EQ(waitid(P_PID, pid, &end, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(ProcessStart(pid)) << "nobody has asked how it ended";
  EXPECT_TRUE(HasEnded(pid, start.value_or(0)));
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(HasEnded(pid, start.value_or(0)));
  for (const int fd : {go[0], go[1], ready[0], ready[1]}) close(fd);
}

TEST(ProcessFacts, AnotherProcessOfItsNumberIsAnother) {
  const auto pid = static_cast<uint32_t>(getpid());
  EXPECT_FALSE(HasEnded(pid, *ProcessStart(pid)));
  EXPECT_TRUE(HasEnded(pid, *ProcessStart(pid) + 1));
}

// It goes while its file is open, which can be neither forced nor foreseen: so many of them.
TEST(ProcessFacts, AProcessThatEndsMeanwhileHasNone) {
  for (int i = 0; i < 1000; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(0);
    std::thread reaper([child] { waitpid(child, nullptr, 0); });
    for (int look = 0; look < 20; ++look) (void)ProcessStart(static_cast<uint32_t>(child));
    reaper.join();
    EXPECT_FALSE(ProcessStart(static_cast<uint32_t>(child)));
  }
}

}  // namespace
}  // namespace cupola::sched
