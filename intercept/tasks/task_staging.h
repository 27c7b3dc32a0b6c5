// Pinned memory that small copies from and to pageable memory go through on their way to and from a
// task, as they do inside the driver. docs/launches-as-tasks.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/runtime/task_table.h"
#include "intercept/tasks/task_engine.h"

namespace cupola::intercept::tasks {

/// A place for one copy of up to Settings::most_copied bytes, from when it is taken until it is
/// given back; then it is free again as soon as the task that uses it has run. Any thread; waits
/// for none.
class StagingPlace {
 public:
  /// For a task of that engine. May allocate, the first time. Empty where all places are in use.
  explicit StagingPlace(const TaskEngine& engine) noexcept;
  ~StagingPlace();
  StagingPlace(const StagingPlace&) = delete;
  StagingPlace& operator=(const StagingPlace&) = delete;

  explicit operator bool() const noexcept { return host_ != nullptr; }
  void* host() const noexcept { return host_; }
  uint64_t device() const noexcept { return device_; }

  /// A task reads or writes it from now on.
  void Use(const runtime::TaskId& by) noexcept;

 private:
  void* host_ = nullptr;
  uint64_t device_ = 0;
  const uint32_t area_;
  uint32_t index_ = 0;
};

}  // namespace cupola::intercept::tasks
