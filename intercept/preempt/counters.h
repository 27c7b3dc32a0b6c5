// What preemption did and did not do, counted. Written by any thread, relaxed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace cupola::intercept::preempt {

/// Why a launch went out as the program made it.
enum class Plain : uint8_t {
  kNoVariant,   ///< no bundle, or the kernel was refused, or its handle is not known
  kShort,       ///< predicted to be shorter than what stopping it would gain
  kInexact,     ///< the variant is not bit-exact and was not asked for
  kConfigured,  ///< the configuration wants the original
  kCapturing,   ///< the stream captures
  kCooperative,
  kAttribute,       ///< a launch attribute that a variant cannot carry: cluster, PDL, ...
  kShape,           ///< grid or block that the variant cannot take
  kShared,          ///< more shared memory than original or variant may have
  kArguments,       ///< not as the kernel's parameters are
  kResident,        ///< blocks may wait on one another and all are resident at once
  kRingFull,        ///< no control slot came free
  kScopeOpen,       ///< another thread is in a call that may wait
  kTooManyStreams,  ///< more live streams than hardware queues
  kNoContext,       ///< preemption could not be set up in the context
  kRefused,         ///< the driver refused the variant's launch
  kNobodyAsks,      ///< nobody may ask this process to yield: neither slices nor a variant pay
  kTool,            ///< a tool is at work in the process
  kHeld,            ///< the stream, or to prepare it any, waits for what the program is to release
  kGreen,           ///< of a green context: it would be resumed on other SMs than its own
  kCount
};

/// For the log, indexed by Plain.
inline constexpr const char* kPlainWords[static_cast<size_t>(Plain::kCount)] = {
    "no variant",     "short",
    "not bit-exact",  "configured",
    "capturing",      "cooperative",
    "attribute",      "shape",
    "shared memory",  "arguments",
    "all resident",   "ring full",
    "waiting scope",  "too many streams",
    "no context",     "refused",
    "nobody may ask", "a tool is at work",
    "held by the program", "green context"};

struct Counters {
  std::atomic<uint64_t> preemptible{0};
  std::atomic<uint64_t> sliced{0};  ///< launches that went out in slices, as a rule says
  std::atomic<uint64_t> sliced_unasked{0};  ///< the same, for want of a preemptible variant
  std::atomic<uint64_t> plain[static_cast<size_t>(Plain::kCount)] = {};
  std::atomic<uint64_t> preemptions{0};  ///< launches that yielded with blocks left
  std::atomic<uint64_t> resumes{0};
  std::atomic<uint64_t> stops{0}, stop_ns{0};  ///< of the whole GPU: from being asked to all workers gone
  std::atomic<uint64_t> waits{0};   ///< calls that waited in our code
  std::atomic<uint64_t> stuck{0};   ///< of these waits, that were ended since nothing went on
  std::atomic<uint64_t> scopes{0};  ///< calls during which launches went out plain
  std::atomic<uint64_t> demands{0};
  std::atomic<uint64_t> markers{0};     ///< of bursts that nobody waited for
  std::atomic<uint64_t> gates{0};       ///< put into streams
  std::atomic<uint64_t> priorities{0};  ///< launches given the highest priority
};

extern Counters counters;

inline void Count(std::atomic<uint64_t>& counter) noexcept {
  counter.fetch_add(1, std::memory_order_relaxed);
}
inline void CountPlain(Plain why) noexcept { Count(counters.plain[static_cast<size_t>(why)]); }

}  // namespace cupola::intercept::preempt
