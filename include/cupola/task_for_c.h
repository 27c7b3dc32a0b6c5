/// @file
/// The CUDA C++ side of cupola/task_c.h: makes a TaskSystem whose bodies C finds by name. Sources
/// of a program that nvcc compiles include it with cupola/cupola.h. Each of them defines the
/// functions of C as weak symbols, so that several sources of one program may include it. The
/// thread rule is that of cupola/task_c.h.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "cupola/task.h"
#include "cupola/task_c.h"

/// @cond
/// What a handle of C points to. ForC creates it; cupola_tasks_destroy deletes it.
struct cupola_tasks {
  using Error = cupola::task::Error;
  using TaskId = cupola::task::TaskId;

  virtual ~cupola_tasks() = default;
  virtual Error Find(const char* name, uint32_t* body) const = 0;
  virtual Error Spawn(uint32_t body, const cupola::task::TaskShape& shape, void* const* arguments,
                      uint32_t count, TaskId* id) = 0;
  virtual Error Wait(const TaskId& id) = 0;
  virtual Error Check(const TaskId& id, bool* is_done) = 0;
  virtual Error WaitAll() = 0;
  virtual Error Leave() = 0;
  virtual Error LeaveNow() = 0;
  virtual void SetTimeLimit(std::chrono::nanoseconds limit) = 0;
  virtual std::string Describe(Error error) const = 0;
};
/// @endcond

namespace cupola::task {

/// A body and its name in C.
/// @tparam Function  pointer to the `__device__` function, as for TaskSystemOf
template <auto Function>
struct Named {
  const char* name;  ///< must live as long as the program
};

namespace internal {

template <auto... Functions>
class TasksForC final : public cupola_tasks {
 public:
  explicit TasksForC(const Named<Functions>&... bodies) : names_{bodies.name...} {}

  Error Find(const char* name, uint32_t* body) const override {
    for (uint32_t i = 0; i < names_.size(); ++i) {
      if (std::strcmp(names_[i], name) != 0) continue;
      *body = i;
      return Error::kNone;
    }
    return Error::kUnknownBody;
  }
  Error Spawn(uint32_t body, const TaskShape& shape, void* const* arguments, uint32_t count,
              TaskId* id) override {
    return tasks_.SpawnBody(body, shape, id, arguments, count);
  }
  Error Wait(const TaskId& id) override { return tasks_.Wait(id); }
  Error Check(const TaskId& id, bool* is_done) override { return tasks_.Check(id, is_done); }
  Error WaitAll() override { return tasks_.WaitAll(); }
  Error Leave() override { return tasks_.Leave(); }
  Error LeaveNow() override { return tasks_.LeaveNow(); }
  void SetTimeLimit(std::chrono::nanoseconds limit) override { tasks_.set_time_limit(limit); }

  std::string Describe(Error error) const override {
    std::string text = tasks_.Describe(error);
    if (error != Error::kUnknownBody && error != Error::kBadArguments) return text;
    for (uint32_t i = 0; i < names_.size(); ++i) {
      text += (i == 0 ? ": " : ", ") + std::string(names_[i]);
      if (error == Error::kBadArguments) text += " has " + std::to_string(tasks_.parameters(i));
    }
    return text;
  }

 private:
  TaskSystem<Functions...> tasks_;
  const std::array<const char*, sizeof...(Functions)> names_;
};

inline TaskId FromC(cupola_task_id id) { return {id.column, id.table, id.sequence}; }
inline cupola_tasks_error ToC(Error error) { return static_cast<cupola_tasks_error>(error); }

static_assert(static_cast<int>(Error::kNone) == CUPOLA_TASKS_OK &&
              static_cast<int>(Error::kTooManyThreads) == CUPOLA_TASKS_TOO_MANY_THREADS &&
              static_cast<int>(Error::kTooManyBlocks) == CUPOLA_TASKS_TOO_MANY_BLOCKS &&
              static_cast<int>(Error::kTooMuchShared) == CUPOLA_TASKS_TOO_MUCH_SHARED &&
              static_cast<int>(Error::kUnknownTask) == CUPOLA_TASKS_UNKNOWN_TASK &&
              static_cast<int>(Error::kTimedOut) == CUPOLA_TASKS_TIMED_OUT &&
              static_cast<int>(Error::kNoMemory) == CUPOLA_TASKS_NO_MEMORY &&
              static_cast<int>(Error::kDevice) == CUPOLA_TASKS_DEVICE &&
              static_cast<int>(Error::kUnknownBody) == CUPOLA_TASKS_UNKNOWN_BODY &&
              static_cast<int>(Error::kBadArguments) == CUPOLA_TASKS_BAD_ARGUMENTS &&
              static_cast<int>(Error::kForked) == CUPOLA_TASKS_FORKED &&
              static_cast<int>(Error::kVersionMismatch) == CUPOLA_TASKS_VERSION_MISMATCH);
static_assert(sizeof(TaskId) == sizeof(cupola_task_id) &&
                  sizeof(TaskShape) == sizeof(cupola_task_shape),
              "the ABI of tasks");

}  // namespace internal

/// Makes a handle for C over a TaskSystem of these bodies. The tasks run on the device that is
/// current when the first one is put in. cupola_tasks_destroy deletes the handle. Makes no CUDA
/// call.
/// @tparam Functions  pointers to the bodies, as for TaskSystemOf
/// @param bodies      the bodies with their names
/// @return the handle; nullptr where there is no memory
template <auto... Functions>
cupola_tasks* ForC(const Named<Functions>&... bodies) {
  return new (std::nothrow) internal::TasksForC<Functions...>(bodies...);
}

/// @cond
namespace internal {

// The functions of cupola/task_c.h.
#define CUPOLA_TASKS_DEFINITION extern "C" __attribute__((weak))

CUPOLA_TASKS_DEFINITION cupola_tasks_error cupola_tasks_find(const cupola_tasks* tasks,
                                                             const char* name, uint32_t* body) {
  return ToC(tasks->Find(name, body));
}

CUPOLA_TASKS_DEFINITION cupola_tasks_error cupola_tasks_spawn(cupola_tasks* tasks, uint32_t body,
                                                              const cupola_task_shape* shape,
                                                              void* const* arguments,
                                                              uint32_t argument_count,
                                                              cupola_task_id* id) {
  const TaskShape of_cpp{.threads = shape->threads,
                         .blocks = shape->blocks,
                         .shared_bytes = shape->shared_bytes,
                         .uses_barrier = shape->uses_barrier,
                         .after = FromC(shape->after)};
  TaskId given{};
  const Error error = tasks->Spawn(body, of_cpp, arguments, argument_count, &given);
  if (error == Error::kNone) *id = {given.column, given.table, given.sequence};
  return ToC(error);
}

CUPOLA_TASKS_DEFINITION cupola_tasks_error cupola_tasks_wait(cupola_tasks* tasks,
                                                             cupola_task_id id) {
  return ToC(tasks->Wait(FromC(id)));
}

CUPOLA_TASKS_DEFINITION cupola_tasks_error cupola_tasks_check(cupola_tasks* tasks,
                                                              cupola_task_id id, bool* is_done) {
  return ToC(tasks->Check(FromC(id), is_done));
}

CUPOLA_TASKS_DEFINITION cupola_tasks_error cupola_tasks_wait_all(cupola_tasks* tasks) {
  return ToC(tasks->WaitAll());
}

CUPOLA_TASKS_DEFINITION cupola_tasks_error cupola_tasks_leave(cupola_tasks* tasks) {
  return ToC(tasks->Leave());
}

CUPOLA_TASKS_DEFINITION cupola_tasks_error cupola_tasks_leave_now(cupola_tasks* tasks) {
  return ToC(tasks->LeaveNow());
}

CUPOLA_TASKS_DEFINITION void cupola_tasks_set_time_limit(cupola_tasks* tasks, uint64_t limit_ns) {
  constexpr uint64_t kMost = std::chrono::nanoseconds::max().count();
  tasks->SetTimeLimit(std::chrono::nanoseconds(std::min(limit_ns, kMost)));
}

CUPOLA_TASKS_DEFINITION size_t cupola_tasks_error_text(const cupola_tasks* tasks,
                                                       cupola_tasks_error error, char* text,
                                                       size_t size) {
  const Error of_cpp = static_cast<Error>(error);
  const std::string found = tasks != nullptr ? tasks->Describe(of_cpp) : Describe(of_cpp);
  if (size > 0) {
    const size_t kept = std::min(size - 1, found.size());
    std::memcpy(text, found.data(), kept);
    text[kept] = '\0';
  }
  return found.size();
}

CUPOLA_TASKS_DEFINITION const char* cupola_tasks_error_name(cupola_tasks_error error) {
  switch (error) {
#define CUPOLA_TASKS_NAME(value) \
  case value:                    \
    return #value
    CUPOLA_TASKS_NAME(CUPOLA_TASKS_OK);
    CUPOLA_TASKS_NAME(CUPOLA_TASKS_TOO_MANY_THREADS);
    CUPOLA_TASKS_NAME(CUPOLA_TASKS_TOO_MANY_BLOCKS);
    CUPOLA_TASKS_NAME(CUPOLA_TASKS_TOO_MUCH_SHARED);
    CUPOLA_TASKS_NAME(CUPOLA_TASKS_UNKNOWN_TASK);
    CUPOLA_TASKS_NAME(CUPOLA_TASKS_TIMED_OUT);
    CUPOLA_TASKS_NAME(CUPOLA_TASKS_NO_MEMORY);
    CUPOLA_TASKS_NAME(CUPOLA_TASKS_DEVICE);
    CUPOLA_TASKS_NAME(CUPOLA_TASKS_UNKNOWN_BODY);
    CUPOLA_TASKS_NAME(CUPOLA_TASKS_BAD_ARGUMENTS);
    CUPOLA_TASKS_NAME(CUPOLA_TASKS_FORKED);
    CUPOLA_TASKS_NAME(CUPOLA_TASKS_VERSION_MISMATCH);
#undef CUPOLA_TASKS_NAME
  }
  return "?";
}

CUPOLA_TASKS_DEFINITION void cupola_tasks_destroy(cupola_tasks* tasks) { delete tasks; }

#undef CUPOLA_TASKS_DEFINITION

}  // namespace internal
/// @endcond
}  // namespace cupola::task
