// What is kept of a thread: its own, zero at first, given back at its end, there for destructors that run later.
#include "intercept/process/thread_state.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cupola::intercept {
namespace {

// Pages that the process has mapped.
size_t Pages() {
  std::ifstream statm("/proc/self/statm");
  size_t pages = 0;
  statm >> pages;
  return pages;
}

// Runs `work` in as many threads, one after the other; how many pages more are mapped after all but the first.
template <typename Work>
size_t PagesKept(int threads, Work work) {
  std::thread(work).join();
  const size_t before = Pages();
  for (int i = 0; i < threads; ++i) std::thread(work).join();
  const size_t after = Pages();
  return after > before ? after - before : 0;
}

bool IsZero(const ThreadMemory& memory) {
  const auto is_zero = [](std::byte one) { return one == std::byte{0}; };
  return std::ranges::all_of(memory.allocations, is_zero) && std::ranges::all_of(memory.ranges, is_zero);
}

TEST(ThreadMemory, IsTheThreadsOwnAndGivenBack) {
  ThreadMemory* const own = MemoryOfThread();
  ASSERT_NE(own, nullptr);
  EXPECT_EQ(MemoryOfThread(), own);
  own->ranges[0] = std::byte{1};
  std::thread([&] { EXPECT_NE(MemoryOfThread(), own); }).join();
  constexpr int kThreads = 2000;
  EXPECT_LT(PagesKept(kThreads, [] {
    ThreadMemory* const memory = MemoryOfThread();
    EXPECT_TRUE(IsZero(*memory));
    memory->ranges[17] = memory->allocations[3] = std::byte{9};
  }), kThreads / 2);
  EXPECT_EQ(own->ranges[0], std::byte{1});
}

bool late_was_good = false;

// A destructor of a key that was made later runs later, when the memory has been given back.
TEST(ThreadMemory, IsMadeAgainForALateDestructor) {
  std::thread([] { MemoryOfThread(); }).join();
  pthread_key_t key;
  ASSERT_EQ(pthread_key_create(&key, [](void*) {
    late_was_good = thread_memory == nullptr && MemoryOfThread() != nullptr && IsZero(*thread_memory);
  }), 0);
  constexpr int kThreads = 2000;
  int good = 0;
  const size_t kept = PagesKept(kThreads, [&] {
    good += late_was_good;
    late_was_good = false;
    pthread_setspecific(key, &key);
    MemoryOfThread()->ranges[0] = std::byte{1};
  });
  EXPECT_EQ(good, kThreads);  // each thread looks at the one before; the first has none
  EXPECT_LT(kept, kThreads / 2);
  pthread_key_delete(key);
}

TEST(ThreadMemory, StaysInAForkedChild) {
  MemoryOfThread()->ranges[1] = std::byte{5};
  const pid_t child = fork();
  if (child == 0) _exit(MemoryOfThread()->ranges[1] == std::byte{5} ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace cupola::intercept
