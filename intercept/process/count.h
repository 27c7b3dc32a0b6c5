// Counts events for the log, with relaxed order. Any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace cupola::intercept {

inline void Count(std::atomic<uint64_t>& counter) noexcept { counter.fetch_add(1, std::memory_order_relaxed); }

}  // namespace cupola::intercept
