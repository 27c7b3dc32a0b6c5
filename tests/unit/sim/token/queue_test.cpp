// The queue in shared memory: order, and deaths of those who hold it and of those who wait.
#include "device/sim/token/token_queue.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <memory>
#include <vector>

#include "device/sim/token/gate.h"
#include "tests/unit/sim/token/child.h"

namespace cupola::sim {
namespace {

using Outcome = TokenQueue::Outcome;

using Action = std::function<int(TokenQueue&, const Say&)>;

int LeaveIt(TokenQueue& queue, const Say&) { return queue.Leave() == Outcome::kDone ? 0 : 5; }

// As one that holds the device does, it runs now and then: who is still counts as frozen.
int AwaitUsr1() {
  sigset_t usr1;
  sigemptyset(&usr1);
  sigaddset(&usr1, SIGUSR1);
  constexpr timespec kPause = {.tv_sec = 0, .tv_nsec = 5'000'000};
  int number = -1;
  while (number < 0) number = sigtimedwait(&usr1, nullptr, &kPause);
  return number;
}

class QueueTest : public TokenTest {
 protected:
  /// Until that process waits for another one. It is not stopped before, where it may be within the
  /// queue's lock, which all others need: seen under that lock, so it is outside.
  void AwaitWaiting(pid_t pid) {
    auto mapping = TokenMapping::Open(path_);
    ASSERT_TRUE(mapping);
    SharedToken& shared = *mapping.value().get();
    const uint64_t until_ns = MonotonicNs() + kLimitMs * uint64_t{1'000'000};
    for (bool waits = false; !waits;) {
      ASSERT_LT(MonotonicNs(), until_ns) << "it does not wait";
      ASSERT_EQ(pthread_mutex_lock(&shared.lock), 0);
      for (uint32_t node = 0; node < SharedToken::kNodes; ++node) {
        waits |= shared.pids[node] == pid && shared.tickets[node] != 0 &&
                 shared.waits_for[node] != SharedToken::kNone;
      }
      pthread_mutex_unlock(&shared.lock);
      if (!waits) sched_yield();
    }
  }

  /// A process that enters the queue, says "in", waits, says "has" and how many dead it met, holds
  /// until SIGUSR1, and then acts.
  auto Participant(Action action = LeaveIt) {
    return [path = path_, action](const Say& say) {
      sigset_t usr1;
      sigemptyset(&usr1);
      sigaddset(&usr1, SIGUSR1);
      sigprocmask(SIG_BLOCK, &usr1, nullptr);
      auto mapping = TokenMapping::Open(path);
      if (!mapping) return 2;
      std::atomic<bool> stop{false};
      TokenQueue queue(mapping.value().get(), &stop);
      if (queue.Join() != Outcome::kDone) return 3;
      say("in");
      if (queue.Wait() != Outcome::kDone) return 4;
      say("has " + std::to_string(queue.recoveries()));
      AwaitUsr1();
      return action(queue, say);
    };
  }
};

TEST_F(QueueTest, ServesInOrderOfEntry) {
  Child first(Participant());
  ASSERT_EQ(first.Line(), "in");
  ASSERT_EQ(first.Line(), "has 0");
  Child second(Participant());
  ASSERT_EQ(second.Line(), "in");
  Child third(Participant());
  ASSERT_EQ(third.Line(), "in");
  first.Signal(SIGUSR1);
  EXPECT_EQ(second.Line(), "has 0");
  second.Signal(SIGUSR1);
  EXPECT_EQ(third.Line(), "has 0");
  third.Signal(SIGUSR1);
  EXPECT_EQ(first.End(), 0);
  EXPECT_EQ(second.End(), 0);
  EXPECT_EQ(third.End(), 0);
}

TEST_F(QueueTest, AKilledHolderIsFollowedAtOnce) {
  for (int round = 0; round < 20; ++round) {
    Child first(Participant());
    ASSERT_EQ(first.Line(), "in");
    ASSERT_EQ(first.Line().substr(0, 3), "has");
    Child second(Participant());
    ASSERT_EQ(second.Line(), "in");
    const uint64_t killed_ns = MonotonicNs();
    first.Signal(SIGKILL);
    ASSERT_EQ(second.Line(), "has 1");
    // Only a bound against what is not "at once": a look every 20 ms, a time-out.
    if (round == 0)
      RecordProperty("freed_us", static_cast<int>((MonotonicNs() - killed_ns) / 1000));
    EXPECT_LT(MonotonicNs() - killed_ns, 1'000'000'000u);
    second.Signal(SIGUSR1);
    EXPECT_EQ(second.End(), 0);
  }
}

TEST_F(QueueTest, AKilledWaiterIsPassedOver) {
  Child first(Participant());
  ASSERT_EQ(first.Line(), "in");
  ASSERT_EQ(first.Line(), "has 0");
  Child second(Participant());
  ASSERT_EQ(second.Line(), "in");
  Child third(Participant());
  ASSERT_EQ(third.Line(), "in");
  second.Signal(SIGKILL);
  EXPECT_EQ(second.End(), -SIGKILL);
  first.Signal(SIGUSR1);
  EXPECT_EQ(third.Line(), "has 1");
  third.Signal(SIGUSR1);
  EXPECT_EQ(third.End(), 0);
  EXPECT_EQ(ReadTokenTotals(path_).value().recoveries, 1u);
}

TEST_F(QueueTest, TheLastInTheQueueMayDie) {
  Child first(Participant());
  ASSERT_EQ(first.Line(), "in");
  ASSERT_EQ(first.Line(), "has 0");
  first.Signal(SIGKILL);
  EXPECT_EQ(first.End(), -SIGKILL);
  Child second(Participant());
  ASSERT_EQ(second.Line(), "in");
  EXPECT_EQ(second.Line(), "has 1");
}

TEST_F(QueueTest, WhoExitsHoldingItFreesIt) {
  Child first(Participant([](TokenQueue&, const Say&) -> int { _exit(0); }));
  ASSERT_EQ(first.Line(), "in");
  ASSERT_EQ(first.Line(), "has 0");
  Child second(Participant());
  ASSERT_EQ(second.Line(), "in");
  first.Signal(SIGUSR1);
  EXPECT_EQ(second.Line(), "has 1");
}

TEST_F(QueueTest, WhoExecutesAnotherProgramFreesIt) {
  Child first(Participant([](TokenQueue&, const Say&) {
    execl("/bin/sleep", "sleep", "600", static_cast<char*>(nullptr));
    return 6;
  }));
  ASSERT_EQ(first.Line(), "in");
  ASSERT_EQ(first.Line(), "has 0");
  Child second(Participant());
  ASSERT_EQ(second.Line(), "in");
  first.Signal(SIGUSR1);
  EXPECT_EQ(second.Line(), "has 1");
  EXPECT_EQ(kill(first.pid(), 0), 0) << "the first process still runs";
}

TEST_F(QueueTest, AForkedChildHoldsNothing) {
  Child first(Participant([](TokenQueue& queue, const Say& say) {
    for (const bool is_killed : {false, true}) {
      const pid_t child = fork();
      if (child == 0 && !is_killed) _exit(0);
      if (child == 0) pause();
      if (is_killed) kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
    say("no child is left");
    AwaitUsr1();
    const pid_t orphan = fork();  // outlives the holder and keeps its mapping
    if (orphan == 0) pause();
    say(std::to_string(orphan));
    kill(getpid(), SIGKILL);
    return queue.is_evicted() ? 7 : 8;
  }));
  ASSERT_EQ(first.Line(), "in");
  ASSERT_EQ(first.Line(), "has 0");
  Child second(Participant());
  ASSERT_EQ(second.Line(), "in");
  first.Signal(SIGUSR1);
  ASSERT_EQ(first.Line(), "no child is left");
  EXPECT_EQ(ReadTokenTotals(path_).value().recoveries, 0u);
  first.Signal(SIGUSR1);
  const pid_t orphan = static_cast<pid_t>(std::strtol(first.Line().c_str(), nullptr, 10));
  EXPECT_EQ(second.Line(), "has 1");
  ASSERT_GT(orphan, 0);
  EXPECT_EQ(kill(orphan, SIGKILL), 0) << "the holder's child still ran";
}

TEST_F(QueueTest, AStoppedHolderIsPutOut) {
  Child first(Participant([](TokenQueue& queue, const Say&) {
    const bool is_evicted = queue.is_evicted();
    return queue.Leave() == Outcome::kDone && is_evicted ? 0 : 5;
  }));
  ASSERT_EQ(first.Line(), "in");
  ASSERT_EQ(first.Line(), "has 0");
  first.Signal(SIGSTOP);
  Child second(Participant());
  ASSERT_EQ(second.Line(), "in");
  EXPECT_EQ(second.Line(), "has 0");
  EXPECT_EQ(ReadTokenTotals(path_).value().evictions, 1u);
  first.Signal(SIGCONT);
  first.Signal(SIGUSR1);
  EXPECT_EQ(first.End(), 0);
  second.Signal(SIGUSR1);
  EXPECT_EQ(second.End(), 0);
}

TEST_F(QueueTest, AHolderThatRunsNowAndThenStays) {
  Child first(Participant());
  ASSERT_EQ(first.Line(), "in");
  ASSERT_EQ(first.Line(), "has 0");
  Child second(Participant());
  ASSERT_EQ(second.Line(), "in");
  ASSERT_NO_FATAL_FAILURE(AwaitWaiting(second.pid()));
  const uint64_t until_ns = MonotonicNs() + 400'000'000;  // many looks
  while (MonotonicNs() < until_ns) sched_yield();
  EXPECT_EQ(ReadTokenTotals(path_).value().evictions, 0u);
  first.Signal(SIGUSR1);
  EXPECT_EQ(first.End(), 0);
  EXPECT_EQ(second.Line(), "has 0");
  second.Signal(SIGUSR1);
  EXPECT_EQ(second.End(), 0);
}

// As one in a frozen control group: in no state of a stopped one, and still.
TEST_F(QueueTest, AHolderThatIsStillIsPutOut) {
  Child first([path = path_](const Say& say) {
    auto mapping = TokenMapping::Open(path);
    if (!mapping) return 2;
    std::atomic<bool> stop{false};
    TokenQueue queue(mapping.value().get(), &stop);
    if (queue.Join() != Outcome::kDone || queue.Wait() != Outcome::kDone) return 3;
    sigset_t usr1;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    sigprocmask(SIG_BLOCK, &usr1, nullptr);
    say("has");
    int number = 0;
    sigwait(&usr1, &number);
    const bool is_evicted = queue.is_evicted();
    return queue.Leave() == Outcome::kDone && is_evicted ? 0 : 5;
  });
  ASSERT_EQ(first.Line(), "has");
  Child second(Participant());
  ASSERT_EQ(second.Line(), "in");
  EXPECT_EQ(second.Line(), "has 0");
  EXPECT_EQ(ReadTokenTotals(path_).value().evictions, 1u);
  first.Signal(SIGUSR1);
  EXPECT_EQ(first.End(), 0);
  second.Signal(SIGUSR1);
  EXPECT_EQ(second.End(), 0);
}

TEST_F(QueueTest, AStoppedWaiterIsPutOut) {
  Child first(Participant());
  ASSERT_EQ(first.Line(), "in");
  ASSERT_EQ(first.Line(), "has 0");
  Child second(Participant());
  ASSERT_EQ(second.Line(), "in");
  ASSERT_NO_FATAL_FAILURE(AwaitWaiting(second.pid()));
  second.Signal(SIGSTOP);
  Child third(Participant());
  ASSERT_EQ(third.Line(), "in");
  first.Signal(SIGUSR1);
  EXPECT_EQ(third.Line(), "has 0");
  second.Signal(SIGCONT);
  EXPECT_EQ(second.End(), 4) << "Wait says that the process left the queue";
  third.Signal(SIGUSR1);
  EXPECT_EQ(third.End(), 0);
}

TEST_F(QueueTest, AFullQueueSaysSo) {
  std::vector<std::unique_ptr<Child>> all;
  for (uint32_t i = 0; i < TokenQueue::kMostEntries; ++i) {
    all.push_back(std::make_unique<Child>(Participant()));
    ASSERT_EQ(all.back()->Line(), "in");
  }
  Child surplus(Participant());
  EXPECT_EQ(surplus.End(), 3);
  // All die, the last first: none of them is left to free another's place.
  for (auto child = all.rbegin(); child != all.rend(); ++child) {
    (*child)->Signal(SIGKILL);
    EXPECT_EQ((*child)->End(), -SIGKILL);
  }
  Child next(Participant());
  ASSERT_EQ(next.Line(), "in");
  EXPECT_EQ(next.Line().substr(0, 3), "has");
}

}  // namespace
}  // namespace cupola::sim
