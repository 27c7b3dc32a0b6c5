// Why a call of the task API fails, and the limits that this is about. Host code.
#pragma once

#include <cstdint>
#include <string>

#include "device/runtime/task_record.h"

namespace cupola::task {

enum class Error {
  kNone,
  kTooManyThreads,  ///< of a block: more than TaskSystemOf::kThreads, or none
  kTooManyBlocks,   ///< more than kMostBlocks, or none
  kTooMuchShared,   ///< shared memory of a block: more than kMostSharedBytes
  kUnknownTask,     ///< an id that this system has not given
  kTimedOut,        ///< not within TaskSystem::set_time_limit: a task never ends, or needs longer
  kNoMemory,        ///< tables could not be allocated
  kDevice,          ///< CUDA failed, now or before; TaskSystem::cuda_error says how
  kUnknownBody,     ///< no function of that name or number
  kBadArguments,    ///< not as many arguments as the function has parameters
  kForked,          ///< this process is a fork of the one that has used this system
};

/// Threads of a block, at most; TaskSystemOf::kThreads where a thread has 128 registers.
inline constexpr uint32_t kMostThreads = runtime::kMostExecutors * 32;
inline constexpr uint32_t kMostBlocks = runtime::kMostTaskBlocks;
/// Shared memory of a block comes in powers of two of these.
inline constexpr uint32_t kUnitBytes = 512;
inline constexpr uint32_t kMostSharedBytes = runtime::kArenaUnits * kUnitBytes;

/// What an error means, with the limit that it is about. TaskSystem::Describe knows more.
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
