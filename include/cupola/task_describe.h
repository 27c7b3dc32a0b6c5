// How a TaskSystem puts its errors into words, with what it knows of them itself (task_error.h has
// the words of each error). cupola/task.h includes this header behind its declarations; programs call Describe
// only. Host code; any thread.
#pragma once

#include "cupola/task.h"

namespace cupola::task {

template <Registers kRegisters, auto... Functions>
std::string TaskSystemOf<kRegisters, Functions...>::DescribeUnknown() const {
  const std::lock_guard lock(mutex_);
  const std::string text = "no task of this system has that id: ";
  if (!is_open_) return text + "none was put in yet";
  if (unknown_.sequence == 0) return text + "sequence 0 is that of no task";
  if (unknown_.table != table_->number()) {
    return text + "it is of table " + std::to_string(unknown_.table) + ", and this is table " +
           std::to_string(table_->number());
  }
  if (unknown_.column >= columns_) {
    return text + "column " + std::to_string(unknown_.column) + " of " + std::to_string(columns_);
  }
  return text + "number " + std::to_string(unknown_.sequence) + " of column " +
         std::to_string(unknown_.column) + ", which has had " +
         std::to_string(table_->Tail(unknown_.column));
}

template <Registers kRegisters, auto... Functions>
std::string TaskSystemOf<kRegisters, Functions...>::DescribeRefused(Error error) const {
  const std::lock_guard lock(mutex_);
  const auto asked = [](uint32_t value) {
    return ", and Spawn asked for " + std::to_string(value);
  };
  if (error == Error::kTooManyBlocks) return internal::What(error) + asked(refused_.blocks);
  if (error == Error::kTooMuchShared) return internal::What(error) + asked(refused_.shared_bytes);
  return "a block has 1 to " + std::to_string(kThreads) + " threads" + asked(refused_.threads);
}

template <Registers kRegisters, auto... Functions>
std::string TaskSystemOf<kRegisters, Functions...>::Describe(Error error) const {
  std::string text = internal::What(error);
  switch (error) {
    case Error::kTooManyThreads:
    case Error::kTooManyBlocks:
    case Error::kTooMuchShared:
      text = DescribeRefused(error);
      break;
    case Error::kUnknownTask:
      text = DescribeUnknown();
      break;
    case Error::kDevice:
    case Error::kNoMemory:
      if (cuda_error_ == cudaSuccess) break;
      text += std::string(": ") + failed_call_.load() + ": " + cudaGetErrorString(cuda_error_);
      break;
    case Error::kTimedOut:
      text +=
          ", " +
          std::to_string(
              std::chrono::duration_cast<std::chrono::microseconds>(time_limit_.load()).count()) +
          " us";
      break;
    default:
      break;
  }
  return text + internal::Remedy(error);
}

}  // namespace cupola::task
