// What the daemon reads of processes, which may end at any moment.
#include <gtest/gtest.h>

#include <thread>

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
