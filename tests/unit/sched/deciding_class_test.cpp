// The scheduling class of the threads that decide: what it is where it is allowed and where it is not, its guards, and
// the mutex that lends a priority. Facts of the scheduler and counts, no times: a busy machine changes nothing.
#include "sched/daemon/deciding_class.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sched/board/yield_protocol.h"
#include "sched/daemon/decision_times.h"
#include "sched/daemon/pi_mutex.h"

namespace cupola::sched {
namespace {

constexpr int kSkipped = 77;

int PolicyOf(pid_t thread) { return sched_getscheduler(thread) & ~SCHED_RESET_ON_FORK; }

/// Of a thread of this process as the scheduler has it now, also when it is lent: 20 and the nice value where that is
/// ordinary, -2 at the lowest of real time (proc(5), "priority").
int KernelPriority(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  std::string field;
  for (int number = 3; number <= 18; ++number) fields >> field;
  return std::stoi(field);
}

/// The exit code of a child process that does this; a signal that ends it: 128 and more.
int CodeOfChild(const std::function<int()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(work());
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool MayBeRealTime() {
  return CodeOfChild([] {
           sched_param lowest{.sched_priority = 1};
           return sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &lowest) == 0 ? 0 : 1;
         }) == 0;
}

#define NEEDS_REAL_TIME() \
  if (!MayBeRealTime()) GTEST_SKIP() << "no real-time priority is allowed here"

/// Nothing that is not allowed to all.
void LoseRights() {
  const rlimit none{0, 0};
  setrlimit(RLIMIT_RTPRIO, &none);
  setrlimit(RLIMIT_NICE, &none);
  if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) _exit(kSkipped);
}

TEST(DecidingClass, IsRealTimeWhereThatIsAllowedAndNothingInheritsIt) {
  NEEDS_REAL_TIME();
  EXPECT_EQ(CodeOfChild([] {
    DecidingClass deciding;
    if (deciding.Probe().name != "real-time") return 1;
    if (PolicyOf(0) != SCHED_OTHER) return 2;  // who asks stays as it was
    DecidingClass::Thread thread(deciding);
    thread.Begin();
    if (PolicyOf(0) != SCHED_FIFO || thread.status().policy != "SCHED_FIFO" || thread.status().priority != 1) return 3;
    if (!thread.status().why.empty()) return 4;
    rlimit limit{};
    getrlimit(RLIMIT_RTTIME, &limit);
    if (limit.rlim_cur > DecidingClass::kLongestRunUs || limit.rlim_max > DecidingClass::kMostRunUs) return 5;
    int policy = -1;
    std::thread([&policy] { policy = PolicyOf(0); }).join();
    return policy == SCHED_OTHER ? 0 : 6;
  }), 0);
}

TEST(DecidingClass, IsWhatIsAllowedElseAndSaysWhy) {
  const int code = CodeOfChild([] {
    LoseRights();
    DecidingClass deciding;
    DecidingClass::Thread thread(deciding);
    thread.Begin();
    const ClassStatus& status = thread.status();
    if (PolicyOf(0) != SCHED_OTHER || status.name == "real-time" || status.priority != 0) return 1;
    if (status.why.find("RLIMIT_RTPRIO") == std::string::npos) return 2;
    if (status.why.find("RLIMIT_NICE") == std::string::npos) return 3;
    return DecidingClass::Describe(status).find(status.why) != std::string::npos ? 0 : 4;
  });
  if (code == kSkipped) GTEST_SKIP() << "this user's rights cannot be given up";
  EXPECT_EQ(code, 0);
}

TEST(DecidingClass, OrdinaryIsAsTheDaemonWasStarted) {
  EXPECT_EQ(CodeOfChild([] {
    const int started = std::min(getpriority(PRIO_PROCESS, 0) + 3, 19);
    if (setpriority(PRIO_PROCESS, 0, started) != 0) return 1;
    DecidingClass deciding(ClassChoice::kOrdinary);
    DecidingClass::Thread thread(deciding);
    thread.Begin();
    return PolicyOf(0) == SCHED_OTHER && getpriority(PRIO_PROCESS, 0) == started && thread.status().name == "ordinary"
               ? 0
               : 2;
  }), 0);
}

TEST(DecidingClass, AnotherChoiceCountsAtTheNextWork) {
  NEEDS_REAL_TIME();
  EXPECT_EQ(CodeOfChild([] {
    const int started = getpriority(PRIO_PROCESS, 0);
    DecidingClass deciding(ClassChoice::kOrdinary);
    DecidingClass::Thread thread(deciding);
    thread.Begin();
    if (PolicyOf(0) != SCHED_OTHER) return 1;
    (void)thread.End(BoardClockNs());
    deciding.Choose(ClassChoice::kAuto);
    thread.Begin();
    if (PolicyOf(0) != SCHED_FIFO) return 2;
    deciding.Choose(ClassChoice::kNice);
    thread.Begin();
    if (PolicyOf(0) != SCHED_OTHER || getpriority(PRIO_PROCESS, 0) > -10) return 3;
    deciding.Choose(ClassChoice::kOrdinary);
    thread.Begin();
    return PolicyOf(0) == SCHED_OTHER && getpriority(PRIO_PROCESS, 0) == started ? 0 : 4;
  }), 0);
}

TEST(DecidingClass, OneThatNeverRestsLosesTheClassAndLives) {
  NEEDS_REAL_TIME();
  EXPECT_EQ(CodeOfChild([] {
    DecidingClass deciding;
    DecidingClass::Thread thread(deciding);
    thread.Begin();
    if (PolicyOf(0) != SCHED_FIFO) return 1;
    // The mistake: a review that never ends. Without the guard: SIGKILL; without a limit: the alarm.
    while (DecidingClass::Stops() == 0) {
    }
    if (PolicyOf(0) != SCHED_OTHER || !deciding.was_stopped()) return 2;
    (void)thread.End(BoardClockNs());
    thread.Begin();
    if (PolicyOf(0) != SCHED_OTHER) return 3;  // for good
    deciding.Choose(ClassChoice::kAuto);       // but for an operator's word
    thread.Begin();
    return PolicyOf(0) == SCHED_FIFO && !deciding.was_stopped() ? 0 : 4;
  }), 0);
}

/// Gives the calling thread a real-time priority other than Cupola's own, as an operator may start the whole daemon.
bool StartAtRealTime() {
  const sched_param wanted{.sched_priority = 3};
  return sched_setscheduler(0, SCHED_FIFO, &wanted) == 0;
}

// A mistake that keeps a processor at that priority is as bad as one at Cupola's own.
TEST(DecidingClass, OneThatNeverRestsLosesTheClassOfTheWholeDaemonToo) {
  NEEDS_REAL_TIME();
  for (const ClassChoice choice : kClassChoices) {
    EXPECT_EQ(CodeOfChild([choice] {
      if (!StartAtRealTime()) return 1;
      DecidingClass deciding(choice);
      DecidingClass::Thread thread(deciding);
      thread.Begin();
      if (PolicyOf(0) != SCHED_FIFO || thread.status().priority != 3 || thread.status().name != "real-time") return 2;
      while (DecidingClass::Stops() == 0) {
      }
      (void)thread.End(BoardClockNs());
      thread.Begin();
      if (PolicyOf(0) != SCHED_OTHER) return 3;
      const ClassStatus& status = thread.status();
      if (status.name != "ordinary" || status.priority != 0 || status.why.empty()) return 4;
      deciding.Choose(choice);
      thread.Begin();
      return PolicyOf(0) == SCHED_FIFO && status.name == "real-time" && status.priority == 3 && status.why.empty() ? 0 : 5;
    }), 0) << DecidingClass::NameOf(choice);
  }
}

TEST(DecidingClass, SaysThatTheClassOfTheWholeDaemonCannotBeTakenBack) {
  NEEDS_REAL_TIME();
  const int code = CodeOfChild([] {
    if (!StartAtRealTime()) return 1;
    DecidingClass deciding;
    DecidingClass::Thread thread(deciding);
    thread.Begin();
    const sched_param none{};
    if (sched_setscheduler(0, SCHED_OTHER, &none) != 0) return 2;
    LoseRights();
    deciding.Choose(ClassChoice::kAuto);
    thread.Begin();
    const ClassStatus& status = thread.status();
    if (PolicyOf(0) != SCHED_OTHER || status.name != "ordinary" || status.priority != 0) return 3;
    return status.why.find("RLIMIT_RTPRIO") != std::string::npos ? 0 : 4;
  });
  if (code == kSkipped) GTEST_SKIP() << "this user's rights cannot be given up";
  EXPECT_EQ(code, 0);
}

TEST(DecidingClass, OneThatIsRungForWithoutAPauseRestsAndKeepsTheClass) {
  NEEDS_REAL_TIME();
  EXPECT_EQ(CodeOfChild([] {
    DecidingClass deciding;
    DecidingClass::Thread thread(deciding);
    const auto used_ns = [] {
      timespec used{};
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
      return static_cast<uint64_t>(used.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(used.tv_nsec);
    };
    // Longer than a thread may run without a sleep.
    const uint64_t begun_ns = BoardClockNs(), before_ns = used_ns();
    uint64_t now_ns = begun_ns;
    while (now_ns - begun_ns < 3 * DecidingClass::kLongestRunUs * 1000) {
      thread.Begin();
      while (BoardClockNs() < now_ns + 50'000) {
      }
      const uint64_t rest_ns = thread.End(BoardClockNs());
      if (rest_ns != 0) {
        const timespec rest{0, static_cast<long>(rest_ns)};
        nanosleep(&rest, nullptr);
      }
      now_ns = BoardClockNs();
    }
    if (DecidingClass::Stops() != 0 || PolicyOf(0) != SCHED_FIFO) return 1;
    if (deciding.rests() == 0) return 2;
    // Half of the time, and what may be spent in one go.
    return used_ns() - before_ns < (now_ns - begun_ns) / 100 * 55 + 15'000'000 ? 0 : 3;
  }), 0);
}

TEST(RealTimeBudget, IsHalfAProcessorOfAllTogether) {
  RealTimeBudget budget;
  uint64_t now_ns = 1'000'000'000'000, worked_ns = 0;
  const uint64_t begun_ns = now_ns;
  EXPECT_EQ(budget.Spend(30'000, now_ns), 0U);  // now and then is nothing
  for (int i = 0; i < 10'000; ++i) {
    // Two threads that work at the same time.
    now_ns += 30'000;
    worked_ns += 60'000;
    const uint64_t first_ns = budget.Spend(30'000, now_ns);
    now_ns += std::max(first_ns, budget.Spend(30'000, now_ns));
  }
  const auto share = static_cast<double>(worked_ns) / static_cast<double>(now_ns - begun_ns);
  EXPECT_GT(share, 0.45);
  EXPECT_LT(share, 0.55);
  now_ns += 100'000'000;  // nothing is saved up beyond one burst
  worked_ns = 0;
  while (budget.Spend(30'000, now_ns) == 0) worked_ns += 30'000;
  EXPECT_LE(worked_ns, 10'000'000U);
}

TEST(PiMutex, LendsThePriorityOfWhoWaits) {
  NEEDS_REAL_TIME();
  EXPECT_EQ(CodeOfChild([] {
    PiMutex mutex;
    mutex.lock();
    if (mutex.try_lock()) return 1;
    const auto holder = static_cast<pid_t>(syscall(SYS_gettid));
    const int own = KernelPriority(holder);
    if (own < 0) return 2;
    std::thread waiter([&mutex] {
      const sched_param lowest{.sched_priority = 1};
      sched_setscheduler(0, SCHED_FIFO, &lowest);
      mutex.lock();
      mutex.unlock();
    });
    while (KernelPriority(holder) == own) sched_yield();  // an ordinary mutex: until the alarm
    const int lent = KernelPriority(holder);
    mutex.unlock();
    waiter.join();
    return lent == -2 && KernelPriority(holder) == own ? 0 : 3;
  }), 0);
}

TEST(DecisionTimes, PercentilesAreAtMostAQuarterTooLong) {
  DecisionTimes times;
  EXPECT_EQ(times.Percentile(0.5), 0U);
  for (uint64_t us = 1; us <= 1000; ++us) times.Add(us * 1000);
  EXPECT_EQ(times.total(), 1000U);
  for (const double part : {0.01, 0.5, 0.9, 0.99}) {
    EXPECT_GE(static_cast<double>(times.Percentile(part)), part * 1e6);
    EXPECT_LE(static_cast<double>(times.Percentile(part)), part * 1e6 * 1.26 + 1000);
  }
  times.Add(UINT64_MAX);
  times.Add(0);
  EXPECT_GT(times.Percentile(1), 1'000'000U);
}

}  // namespace
}  // namespace cupola::sched
