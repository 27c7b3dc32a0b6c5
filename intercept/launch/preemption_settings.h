// The settings of preemption, read from the environment once, when the driver is opened. Read-only from then on; any
// thread.
#pragma once

#include <cstdint>
#include <optional>

#include "base/settings/variables.h"
#include "intercept/launch/ask_choice.h"

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

/// What the variables mean stands in base/settings/table.h, as their defaults do.
struct PreemptionSettings {
  PreemptMode mode = PreemptMode::kAuto;
  bool allow_inexact = false;  ///< CUPOLA_INEXACT
  uint64_t threshold_ns = settings::Fallback("CUPOLA_PREEMPT_ABOVE_US") * 1000;
  uint64_t equals_threshold_ns = settings::Fallback("CUPOLA_PREEMPT_EQUALS_ABOVE_US") * 1000;
  uint32_t batch = 0;               ///< CUPOLA_BATCH: L of every kernel; 0 = chosen by kernel
  uint32_t turns[kMostTurns] = {};  ///< CUPOLA_TURNS, for kTurns: words of profiles/claim_word.h, 0 = plain
  uint32_t turn_count = 0;          ///< number of entries in `turns`
  uint32_t poll_period_ns = settings::Fallback("CUPOLA_POLL_NS");  ///< PreemptParams::poll_period_ns
  uint32_t watch_from = settings::Fallback("CUPOLA_WATCH_FROM");
  uint32_t look_after_ns = settings::Fallback("CUPOLA_LOOK_AFTER_NS");    ///< PreemptParams::look_after_ns
  uint32_t fresh_after_ns = settings::Fallback("CUPOLA_FRESH_AFTER_NS");  ///< PreemptParams::fresh_after_ns
  uint64_t hot_ns = settings::Fallback("CUPOLA_AGENT_HOT_US") * 1000;
  /// If a process usually begins a new burst within this time, it keeps the GPU in between, because to
  /// stop and resume another process would cost more (two changes of context, or none under MPS).
  /// Otherwise it gives the GPU up at once. 20 us where there is no change of context.
  uint64_t short_gap_ns = 60'000;
  uint64_t demand_limit_ns = settings::Fallback("CUPOLA_DEMAND_LIMIT_MS") * 1'000'000;
  uint64_t wait_limit_ns = settings::Fallback("CUPOLA_WAIT_LIMIT_MS") * 1'000'000;  ///< see wait_net.h
  /// graphs/pieces.h. Where there is no change of context and CUPOLA_PIECE_US is not set, longer by 100 us: who asks waits
  /// no longer then than it would otherwise, and there are fewer gates.
  uint64_t piece_ns = settings::Fallback("CUPOLA_PIECE_US") * 1000;
  std::optional<AskAt> ask_at;  ///< CUPOLA_ASK_AT; none: by AskChoice
  uint32_t gate_every = settings::Fallback("CUPOLA_GATE_EVERY");
};
extern PreemptionSettings preemption_settings;

/// Reads the environment. False: CUPOLA_PREEMPT=off.
bool ReadPreemptionSettings() noexcept;
/// Called after it where processes are on the GPU at once (MPS), so that to stop one and let another go on takes no change of
/// context.
void AdaptToSharedContext() noexcept;

}  // namespace cupola::intercept
