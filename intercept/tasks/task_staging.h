// Pinned memory through which small copies from and to pageable memory pass when a task makes them,
// as they do inside the driver. task_copies.cpp takes a place for each such copy. The memory is
// allocated once for each engine and ends with its context. docs/task-order.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/runtime/task_table.h"
#include "intercept/tasks/task_engine.h"

namespace cupola::intercept::tasks {

/// A place for one copy of up to TaskSettings::most_copied bytes. The constructor takes it, the
/// destructor gives it back; after that it is free as soon as the task that uses it has run. Any
/// thread; never waits for a place.
class StagingPlace {
 public:
  /// Takes a place for a task of that engine. Allocates the engine's places the first time. Empty
  /// if all places are in use, or if they cannot be allocated or the engine's context is not
  /// current then.
  explicit StagingPlace(const TaskEngine& engine) noexcept;
  ~StagingPlace();
  StagingPlace(const StagingPlace&) = delete;
  StagingPlace& operator=(const StagingPlace&) = delete;

  explicit operator bool() const noexcept { return host_ != nullptr; }
  void* host() const noexcept { return host_; }
  uint64_t device() const noexcept { return device_; }

  /// Records the task that reads or writes the place.
  void Use(const runtime::TaskId& by) noexcept;

 private:
  void* host_ = nullptr;  ///< null: no place was free
  uint64_t device_ = 0;   ///< the same memory's address on the device
  const uint32_t area_;   ///< index of the engine
  uint32_t index_ = 0;    ///< of the place among those of the engine
};

}  // namespace cupola::intercept::tasks
