// RunWithin: asks a question whose answer may never come, such as a file on a server that is down or a directory of
// users, on a thread of its own, and gives up after a time.
#pragma once

#include <chrono>
#include <future>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

namespace cupola::sched {

/// Returns what `work()` returns; nothing where that takes longer than `limit`. In that case `work` goes on by itself
/// and may use only what it owns. Where the system has no thread, `work` runs on the calling thread, without a limit.
/// Any thread.
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
