#include "intercept/process/thread_state.h"

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

}  // namespace cupola::intercept
