// Says once of a task that does not end which kernel's it is: a program that waits for it waits as
// it would for the kernel, and whoever looks at it is to know for what. One of each engine; any
// thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "device/runtime/task_table.h"
#include "intercept/images/images.h"

namespace cupola::intercept::tasks {

class TaskWatch {
 public:
  /// Somebody waits for a task of that column, or has asked about one; `image` is what the
  /// MasterKernel serves, or null. Of a task that has been the oldest one there for
  /// settings.notice_ns, between two such looks, a notice is said. It follows one task at a time:
  /// until that has run others are not looked at. No CUDA call, no lock that is waited for.
  void Look(const runtime::TaskTable& table, uint32_t column, const Image* image) noexcept;

 private:
  std::atomic_flag taken_;
  runtime::TaskId followed_{};  ///< sequence 0: none
  uint64_t since_ns_ = 0;
  bool was_said_ = false;
};

}  // namespace cupola::intercept::tasks
