// The settings of preemption, read from the environment once, when the driver is opened. Read-only from then on; any
// thread.
#pragma once

#include <cstdint>

namespace cupola::intercept {

/// CUPOLA_PREEMPT: which launches of kernels that have a variant are made preemptible.
enum class PreemptMode : uint8_t {
  kNever,   ///< none: only demand and launch priorities
  kAuto,    ///< those that are predicted to be long enough
  kAlways,  ///< all: for tests
  kTurns,   ///< each shape by turns, plain and with each L of `turns`: to compare within one process
};

/// The most turns that launches of one shape take before the first turn comes again.
inline constexpr uint32_t kMostTurns = 128;  // 15 L in both orders, with all and three parts of the workers

struct PreemptionSettings {
  PreemptMode mode = PreemptMode::kAuto;
  bool allow_inexact = false;       ///< CUPOLA_INEXACT=1: use variants that are not bit-exact too
  uint64_t threshold_ns = 150'000;  ///< CUPOLA_PREEMPT_ABOVE_US: shorter launches go out plain
  uint64_t equals_threshold_ns = 1'000'000;  ///< CUPOLA_PREEMPT_EQUALS_ABOVE_US: the threshold if only
                                             ///< processes of the same priority may ask
  uint32_t batch = 0;               ///< CUPOLA_BATCH: L of every kernel; 0 = chosen by kernel
  uint32_t turns[kMostTurns] = {};  ///< CUPOLA_TURNS, for kTurns: words of profiles/claim_word.h, 0 = plain
  uint32_t turn_count = 0;          ///< number of entries in `turns`
  uint32_t poll_period_ns = 2'000;  ///< CUPOLA_POLL_NS: PreemptParams::poll_period_ns
  uint32_t watch_from = 512;         ///< CUPOLA_WATCH_FROM: with at least so many workers, one only watches
  uint32_t look_after_ns = 18'000;  ///< CUPOLA_LOOK_AFTER_NS: PreemptParams::look_after_ns
  uint32_t fresh_after_ns = 4'500;  ///< CUPOLA_FRESH_AFTER_NS: PreemptParams::fresh_after_ns
  uint64_t hot_ns = 6'000'000;      ///< CUPOLA_AGENT_HOT_US: for how long the agent does not sleep after
                                    ///< a request has come or gone
  /// If a process usually begins a new burst within this time, it keeps the GPU in between, because to
  /// stop and resume another process would cost more (two changes of context, or none under MPS).
  /// Otherwise it gives the GPU up at once.
  uint64_t short_gap_ns = 60'000;
  uint64_t demand_limit_ns = 10'000'000'000;  ///< CUPOLA_DEMAND_LIMIT_MS: a burst without a launch for
                                              ///< longer loses its demand although work is under way
  uint64_t wait_limit_ns = 20'000'000;  ///< CUPOLA_WAIT_LIMIT_MS: a wait of ours ends when its launches
                                        ///< make no progress for so long (wait_net.h); 0: never
  uint32_t gate_every = 8;          ///< CUPOLA_GATE_EVERY: plain launches between gates; 0 = no gates
};
extern PreemptionSettings preemption_settings;

/// Reads the environment and logs values that it does not know. False: CUPOLA_PREEMPT=off.
bool ReadPreemptionSettings() noexcept;

}  // namespace cupola::intercept
