// Counters of what preemption did, and of launches that went out plain, by reason. Any thread adds
// to them, with relaxed order; the process logs them at exit.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/reasons.h"
#include "intercept/process/count.h"

namespace cupola::intercept {

struct LaunchCounters {
  std::atomic<uint64_t> preemptible{0};
  std::atomic<uint64_t> sliced{0};  ///< launches that went out in slices because a rule says so
  std::atomic<uint64_t> sliced_unasked{0};  ///< launches sliced for want of a preemptible variant
  std::atomic<uint64_t> plain[kReasons] = {};  ///< launches that went out plain, by Reason
  std::atomic<uint64_t> preemptions{0};  ///< launches that yielded with blocks left
  std::atomic<uint64_t> resumes{0};
  std::atomic<uint64_t> stops{0};    ///< launches stopped because the whole GPU was asked for
  std::atomic<uint64_t> stop_ns{0};  ///< sum over `stops`: from the request until all workers left
  std::atomic<uint64_t> waits{0};   ///< calls that waited in our code
  std::atomic<uint64_t> stuck{0};   ///< how many of these waits ended because nothing went on
  std::atomic<uint64_t> scopes{0};  ///< scopes: calls during which launches went out plain
  std::atomic<uint64_t> demands{0};     ///< how often demand began
  std::atomic<uint64_t> late_demands{0};  ///< of these: not with the first launch of a burst
  std::atomic<uint64_t> unasked{0};     ///< bursts that ended without demand
  std::atomic<uint64_t> markers{0};     ///< how often the streams of a burst got markers
  std::atomic<uint64_t> gates{0};       ///< put into streams
  std::atomic<uint64_t> graphs_in_pieces{0};  ///< launches of graphs that went out in pieces
  std::atomic<uint64_t> deferred{0};          ///< of these, the ones whose call did not wait for room
  std::atomic<uint64_t> feed_ns{0};           ///< processor time of the thread that puts their pieces into a stream
  std::atomic<uint64_t> pieces_built{0};
  std::atomic<uint64_t> piece_build_ns{0};  ///< what it took to build them, all together
  std::atomic<uint64_t> priorities{0};  ///< launches given the highest priority
};

extern LaunchCounters launch_counters;

inline void CountPlain(Reason why) noexcept { Count(launch_counters.plain[static_cast<size_t>(why)]); }

/// From exit(): logs what was counted (CUPOLA_LOG=info).
void SayLaunchCounts() noexcept;

}  // namespace cupola::intercept
