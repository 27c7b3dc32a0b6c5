#include "intercept/process/own_stack.h"

#include <cerrno>
#include <cstddef>

#include <sys/mman.h>

extern "C" __attribute__((visibility("hidden"))) void cupola_call_on_stack(
    void* top, void (*work)(void* data) noexcept, void* data) noexcept;

namespace cupola::intercept {

void RunOnOwnStack(void (*work)(void* data) noexcept, void* data) noexcept {
  constexpr size_t kGuardBytes = 4096, kBytes = (size_t{1} << 20) + kGuardBytes;
  const int saved_errno = errno;
  void* const memory = mmap(nullptr, kBytes, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  const bool is_mapped = memory != MAP_FAILED;
  char* const low = static_cast<char*>(memory);
  if (is_mapped && mprotect(low + kGuardBytes, kBytes - kGuardBytes, PROT_READ | PROT_WRITE) == 0) {
    errno = saved_errno;
    cupola_call_on_stack(low + kBytes, work, data);
  } else {
    errno = saved_errno;
    work(data);
  }
  const int after = errno;
  if (is_mapped) munmap(memory, kBytes);
  errno = after;
}

}  // namespace cupola::intercept
