// Counters of what preemption did, and of launches that went out plain, by reason. Any thread adds
// to them, with relaxed order; the process logs them at exit.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "intercept/process/count.h"

namespace cupola::intercept {

/// Why a launch went out as the program made it.
enum class PlainReason : uint8_t {
  kNoVariant,   ///< no bundle, or the kernel was refused, or its handle is not known
  kShort,       ///< predicted to be shorter than what stopping it would gain
  kInexact,     ///< the variant is not bit-exact and was not asked for
  kConfigured,  ///< the configuration wants the original
  kCapturing,   ///< the stream captures
  kCooperative,
  kAttribute,       ///< a launch attribute that a variant cannot carry: cluster, PDL, ...
  kShape,           ///< grid or block that the variant cannot take
  kShared,          ///< more shared memory than original or variant may have
  kArguments,       ///< the arguments do not match the kernel's parameters
  kResident,        ///< blocks may wait for one another and all are resident at once
  kRingFull,        ///< no control slot came free
  kScopeOpen,       ///< another thread is in a call that may wait
  kTooManyStreams,  ///< more live streams than hardware queues
  kNoContext,       ///< preemption could not be set up in the context
  kRefused,         ///< the driver refused the variant's launch
  kNobodyAsks,      ///< nobody may ask this process to yield: neither slices nor a variant pay
  kTool,            ///< a tool is at work in the process
  kHeld,            ///< the stream waits for a hold of the program; or some stream of the context
                    ///< does, and the variant would have to be loaded first
  kGreen,           ///< a green context: a resume would run on other SMs than those of the context
  kCount
};

/// For the log, indexed by PlainReason.
inline constexpr const char* kPlainReasonWords[static_cast<size_t>(PlainReason::kCount)] = {
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

struct LaunchCounters {
  std::atomic<uint64_t> preemptible{0};
  std::atomic<uint64_t> sliced{0};  ///< launches that went out in slices because a rule says so
  std::atomic<uint64_t> sliced_unasked{0};  ///< launches sliced for want of a preemptible variant
  std::atomic<uint64_t> plain[static_cast<size_t>(PlainReason::kCount)] = {};
  std::atomic<uint64_t> preemptions{0};  ///< launches that yielded with blocks left
  std::atomic<uint64_t> resumes{0};
  std::atomic<uint64_t> stops{0};    ///< launches stopped because the whole GPU was asked for
  std::atomic<uint64_t> stop_ns{0};  ///< sum over `stops`: from the request until all workers left
  std::atomic<uint64_t> waits{0};   ///< calls that waited in our code
  std::atomic<uint64_t> stuck{0};   ///< how many of these waits ended because nothing went on
  std::atomic<uint64_t> scopes{0};  ///< scopes: calls during which launches went out plain
  std::atomic<uint64_t> demands{0};     ///< how often demand began
  std::atomic<uint64_t> markers{0};     ///< how often the streams of a burst got markers
  std::atomic<uint64_t> gates{0};       ///< put into streams
  std::atomic<uint64_t> priorities{0};  ///< launches given the highest priority
};

extern LaunchCounters launch_counters;

inline void CountPlain(PlainReason why) noexcept { Count(launch_counters.plain[static_cast<size_t>(why)]); }


/// From exit(): logs what was counted (CUPOLA_LOG=info).
void SayLaunchCounts() noexcept;

}  // namespace cupola::intercept
