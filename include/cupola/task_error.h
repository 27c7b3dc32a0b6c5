// The errors that functions of the task API return, and the limits that they are about. Host code;
// everything here is pure and may be called by any thread.
#pragma once

#include <cstdint>
#include <string>

#include "device/runtime/task_record.h"

namespace cupola::task {

enum class Error {
  kNone,
  kTooManyThreads,  ///< more threads of a block than TaskSystemOf::kThreads, or none
  kTooManyBlocks,   ///< more than kMostBlocks blocks, or none
  kTooMuchShared,   ///< more shared memory of a block than kMostSharedBytes
  kUnknownTask,     ///< an id that this system has not given
  kTimedOut,        ///< TaskSystem::set_time_limit passed: a task takes longer, or never ends
  kNoMemory,        ///< tables could not be allocated
  kDevice,          ///< CUDA failed, now or before; TaskSystem::cuda_error says how
  kUnknownBody,     ///< no function of that name or number
  kBadArguments,    ///< another number of arguments than the function has parameters
  kForked,          ///< this process is a fork of the one that has used this system
};

/// The most threads of a block; with 128 registers a thread it is TaskSystemOf::kThreads.
inline constexpr uint32_t kMostThreads = runtime::kMostExecutors * 32;
/// The most blocks of a task.
inline constexpr uint32_t kMostBlocks = runtime::kMostTaskBlocks;
/// A block gets shared memory as a power of two of units of this many bytes.
inline constexpr uint32_t kUnitBytes = 512;
/// The most shared memory of a block, in bytes.
inline constexpr uint32_t kMostSharedBytes = runtime::kArenaUnits * kUnitBytes;

/// What an error means, with the limit that it is about. TaskSystem::Describe also knows the limits
/// and errors of its own system.
inline std::string Describe(Error error) {
  switch (error) {
    case Error::kNone:
      return "no error";
    case Error::kTooManyThreads:
      return "a block has 1 to " + std::to_string(kMostThreads) + " threads";
    case Error::kTooManyBlocks:
      return "a task has 1 to " + std::to_string(kMostBlocks) + " blocks";
    case Error::kTooMuchShared:
      return "a block has at most " + std::to_string(kMostSharedBytes) + " bytes of shared memory";
    case Error::kUnknownTask:
      return "no task has that id";
    case Error::kTimedOut:
      return "the task has not run within the time limit";
    case Error::kNoMemory:
      return "no memory for the tables of tasks";
    case Error::kDevice:
      return "CUDA failed";
    case Error::kUnknownBody:
      return "no body has that name or number";
    case Error::kBadArguments:
      return "not as many arguments as the body has parameters";
    case Error::kForked:
      return "tasks stay with the process that put them in; this is a fork of it";
  }
  return "no error of tasks: " + std::to_string(static_cast<int>(error));
}

}  // namespace cupola::task
