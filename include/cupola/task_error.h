/// @file
/// The errors that functions of the task API return, their names and words, and the limits that
/// they are about. Host code; everything here is pure, waits for nothing and may be called by any
/// thread.
#pragma once

#include <cstdint>
#include <string>

#include "cupola/version.h"
#include "device/runtime/task_record.h"

namespace cupola::task {

/// What went wrong. The values are fixed (docs/task-api.md, "Versions and ABI") and equal to those
/// of cupola_tasks_error.
enum class Error {
  kNone = 0,            ///< nothing
  kTooManyThreads = 1,  ///< more threads of a block than TaskSystemOf::kThreads, or none
  kTooManyBlocks = 2,   ///< more than kMostBlocks blocks, or none
  kTooMuchShared = 3,   ///< more shared memory of a block than kMostSharedBytes
  kUnknownTask = 4,     ///< an id that this system has not given
  kTimedOut = 5,        ///< TaskSystemOf::set_time_limit passed: a task takes longer, or never ends
  kNoMemory = 6,        ///< tables could not be allocated
  kDevice = 7,          ///< CUDA failed, now or before; TaskSystemOf::cuda_error says how
  kUnknownBody = 8,     ///< no function of that name or number
  kBadArguments = 9,    ///< another number of arguments than the function has parameters
  kForked = 10,         ///< this process is a fork of the one that has used this system
  kVersionMismatch =
      11  ///< the program is linked with the library of another version than its headers'
};

/// The most threads of a block; with 128 registers a thread it is TaskSystemOf::kThreads.
inline constexpr uint32_t kMostThreads = runtime::kMostExecutors * 32;
/// The most blocks of a task.
inline constexpr uint32_t kMostBlocks = runtime::kMostTaskBlocks;
/// A block gets shared memory as a power of two of units of this many bytes.
inline constexpr uint32_t kUnitBytes = 512;
/// The most shared memory of a block, in bytes.
inline constexpr uint32_t kMostSharedBytes = runtime::kArenaUnits * kUnitBytes;

/// The name of an error, for logs.
/// @param error any value
/// @return "kTimedOut" and so on, as a string that is never freed; "?" for a value that is no error
inline const char* Name(Error error) {
  constexpr const char* kNames[] = {"kNone",          "kTooManyThreads", "kTooManyBlocks",
                                    "kTooMuchShared", "kUnknownTask",    "kTimedOut",
                                    "kNoMemory",      "kDevice",         "kUnknownBody",
                                    "kBadArguments",  "kForked",         "kVersionMismatch"};
  const auto index = static_cast<uint32_t>(error);
  return index < sizeof kNames / sizeof *kNames ? kNames[index] : "?";
}

namespace internal {

inline std::string VersionText(uint32_t version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

/// What an error means, with the limit that it is about.
inline std::string What(Error error) {
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
    case Error::kVersionMismatch:
      return "compiled with the headers of Cupola " CUPOLA_VERSION_TEXT
             ", linked with the library of " +
             VersionText(cupola_version());
  }
  return "no error of tasks: " + std::to_string(static_cast<int>(error));
}

/// What the program can do about an error, behind What; "" where there is nothing to do.
inline const char* Remedy(Error error) {
  switch (error) {
    case Error::kNone:
      return "";
    case Error::kTooManyThreads:
      return ": use more blocks of fewer threads";
    case Error::kTooManyBlocks:
      return ": put in several tasks";
    case Error::kTooMuchShared:
      return ": use less, or launch this kernel";
    case Error::kUnknownTask:
      return ": pass an id that Spawn of the same system has written";
    case Error::kTimedOut:
      return ": wait again, set a longer limit, or see whether the task ends";
    case Error::kNoMemory:
      return ": free some, of the device and of the process";
    case Error::kDevice:
      return ": all tasks are lost; destroy the system, and see what its functions did";
    case Error::kUnknownBody:
      return ": use one of those that the system was made with";
    case Error::kBadArguments:
      return ": pass a pointer to each parameter";
    case Error::kForked:
      return ": use them in the parent, or start another program";
    case Error::kVersionMismatch:
      return ": compile the program again, or link it with the library of its headers";
  }
  return "";
}

}  // namespace internal

/// What an error means, with the limit that it is about, and what to do. TaskSystemOf::Describe
/// also knows the limits and errors of its own system.
/// @param error any value
/// @return one line without its end: "a task has 1 to 1048576 blocks: put in several tasks"
inline std::string Describe(Error error) { return internal::What(error) + internal::Remedy(error); }

}  // namespace cupola::task
