// Says once which kernel a task belongs to that does not end. A program that waits for such a task
// hangs as it would for the kernel itself, and the notice tells its user what it waits for. Each
// engine has one TaskWatch; any thread may call it.
#pragma once

#include <atomic>
#include <cstdint>

#include "device/runtime/task_table.h"
#include "intercept/images/images.h"

namespace cupola::intercept::tasks {

class TaskWatch {
 public:
  /// Of the calls by which a thread asks whether a stream's tasks or an event have come, each so-many-th has the
  /// TaskWatch look at a task.
  static constexpr uint32_t kLookEvery = 64;

  /// Called while a thread waits for a task of the column, or has asked about one. `image`: what
  /// the MasterKernel serves, or null. Follows the column's oldest task, and gives a notice if a
  /// call at least task_settings.notice_ns later finds that it still has not run. Follows one task
  /// at a time: others are ignored until that one has run. Makes no CUDA call and waits for no
  /// lock.
  void Look(const runtime::TaskTable& table, uint32_t column, const Image* image) noexcept;

 private:
  std::atomic_flag taken_;      ///< held during Look; a thread that finds it held does nothing
  runtime::TaskId followed_{};  ///< sequence 0: none
  uint64_t since_ns_ = 0;       ///< when it was first followed
  bool was_said_ = false;       ///< the notice about it was given
};

}  // namespace cupola::intercept::tasks
