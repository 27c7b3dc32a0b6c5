#include "intercept/process/thread_state.h"

#include <atomic>
#include <cerrno>

#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cupola::intercept {

thread_local constinit ThreadState this_thread = {};

uint32_t ThreadId() noexcept {
  if (this_thread.thread_id == 0) [[unlikely]] {
    this_thread.thread_id = static_cast<uint32_t>(syscall(SYS_gettid));
  }
  return this_thread.thread_id;
}

thread_local constinit ThreadMemory* thread_memory = nullptr;

namespace {

pthread_key_t thread_key;
std::atomic<int> key_state{0};  // 0 = none, 1 = being made, 2 = there, 3 = cannot be had

void GiveBack(void* memory) {
  thread_memory = nullptr;
  munmap(memory, sizeof(ThreadMemory));
}

// Whether there is a key, whose destructor frees the memory. A thread that comes while the key is being made
// never frees its memory, and no thread does if no key can be made.
bool HasKey() {
  int none = 0;
  if (key_state.compare_exchange_strong(none, 1)) {
    key_state.store(pthread_key_create(&thread_key, &GiveBack) == 0 ? 2 : 3);
  }
  return key_state.load() == 2;
}

}  // namespace

ThreadMemory* MakeThreadMemory() noexcept {
  const int saved_errno = errno;
  void* const memory = mmap(nullptr, sizeof(ThreadMemory), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED) {
    thread_memory = static_cast<ThreadMemory*>(memory);
    if (HasKey()) pthread_setspecific(thread_key, memory);
  }
  errno = saved_errno;
  return thread_memory;
}

}  // namespace cupola::intercept
