// RunWithin: a question whose answer may never come (a file of a server that is down, a directory of users) is asked
// on a thread of its own, and given up after a time.
#pragma once

#include <chrono>
#include <future>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

namespace cupola::sched {

/// What `work()` returns; nothing where that takes longer than `limit`: then it goes on by itself, and may use only
/// what it owns. Where the system has no thread it runs on this one. Any thread.
template <typename Work>
auto RunWithin(std::chrono::milliseconds limit, Work work) -> std::optional<decltype(work())> {
  std::packaged_task<decltype(work())()> task(work);
  auto answer = task.get_future();
  try {
    std::thread(std::move(task)).detach();
  } catch (const std::system_error&) {
    return work();
  }
  if (answer.wait_for(limit) != std::future_status::ready) return std::nullopt;
  return answer.get();
}

}  // namespace cupola::sched
