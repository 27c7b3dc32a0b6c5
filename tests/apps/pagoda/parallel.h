// Loops over many small pieces of work on all processors. Plain host code.
#pragma once

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace pagoda {

/// Calls work(i) for 0 <= i < count, from as many threads as there are processors.
template <class Work>
void ParallelFor(size_t count, const Work& work) {
  std::atomic<size_t> next{0};
  const size_t piece = count < 1024 ? 1 : 16;
  const auto part = [&] {
    for (size_t i; (i = next.fetch_add(piece, std::memory_order_relaxed)) < count;) {
      for (const size_t end = std::min(i + piece, count); i < end; ++i) work(i);
    }
  };
  std::vector<std::thread> threads;
  const size_t most = std::min<size_t>(std::thread::hardware_concurrency(), count);
  for (size_t i = 1; i < most; ++i) threads.emplace_back(part);
  part();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace pagoda
