#include "intercept/launch/preemption_settings.h"

#include <cstdlib>
#include <string_view>

#include "base/settings/variables.h"
#include "intercept/process/notice.h"
#include "profiles/claim_word.h"

namespace cupola::intercept {

PreemptionSettings preemption_settings;

namespace {

// Reads CUPOLA_TURNS: numbers separated by commas. Behind a number, g means claims in the order of the grid,
// w one worker less on each SM, and x4 four eighths of the workers. False: the list is empty, malformed or too
// long.
bool ReadTurns(const char* text) {
  while (text != nullptr && *text >= '0' && *text <= '9' && preemption_settings.turn_count < kMostTurns) {
    char* end = nullptr;
    uint32_t& turn = preemption_settings.turns[preemption_settings.turn_count++];
    turn = static_cast<uint32_t>(strtoul(text, &end, 10));
    if (*end == 'g') {
      turn |= profiles::kClaimsInGridOrder;
      ++end;
    }
    if (*end == 'w') {
      turn |= profiles::kOneWorkerLess;
      ++end;
    }
    if (end[0] == 'x' && end[1] >= '1' && end[1] <= '8') {
      turn |= profiles::WorkerEighths(static_cast<uint32_t>(end[1] - '0'));
      end += 2;
    }
    if (*end == '\0') return true;
    text = *end == ',' ? end + 1 : nullptr;
  }
  Say(Level::kWarn, {"CUPOLA_PREEMPT=turns wants CUPOLA_TURNS=0,1,1w,1x4,4,4g: plain is 0, g in the "
                     "order of the grid, w with one worker less on each SM, x4 with half of them"});
  return false;
}

}  // namespace

bool ReadPreemptionSettings() noexcept {
  using settings::Flag, settings::Number;
  PreemptionSettings& to = preemption_settings;
  const std::string_view mode = settings::Word("CUPOLA_PREEMPT");
  if (mode == "off") return false;
  if (mode == "never") to.mode = PreemptMode::kNever;
  if (mode == "always") to.mode = PreemptMode::kAlways;
  if (mode == "turns" && ReadTurns(settings::Text("CUPOLA_TURNS"))) to.mode = PreemptMode::kTurns;
  to.allow_inexact = Flag("CUPOLA_INEXACT");
  to.threshold_ns = Number("CUPOLA_PREEMPT_ABOVE_US") * 1000;
  to.equals_threshold_ns = Number("CUPOLA_PREEMPT_EQUALS_ABOVE_US") * 1000;
  to.piece_ns = Number("CUPOLA_PIECE_US") * 1000;
  const std::string_view ask = settings::Word("CUPOLA_ASK_AT");
  if (ask == "first") to.ask_at = AskAt::kFirstLaunch;
  if (ask == "wait") to.ask_at = AskAt::kWait;
  if (ask == "never") to.ask_at = AskAt::kNever;
  to.gate_every = static_cast<uint32_t>(Number("CUPOLA_GATE_EVERY"));
  to.batch = static_cast<uint32_t>(Number("CUPOLA_BATCH"));
  to.poll_period_ns = static_cast<uint32_t>(Number("CUPOLA_POLL_NS"));
  to.watch_from = static_cast<uint32_t>(Number("CUPOLA_WATCH_FROM"));
  to.look_after_ns = static_cast<uint32_t>(Number("CUPOLA_LOOK_AFTER_NS"));
  to.fresh_after_ns = static_cast<uint32_t>(Number("CUPOLA_FRESH_AFTER_NS"));
  to.demand_limit_ns = Number("CUPOLA_DEMAND_LIMIT_MS") * 1'000'000;
  to.wait_limit_ns = Number("CUPOLA_WAIT_LIMIT_MS") * 1'000'000;
  to.hot_ns = Number("CUPOLA_AGENT_HOT_US") * 1000;
  return true;
}

void AdaptToSharedContext() noexcept {
  preemption_settings.short_gap_ns = 20'000;
  if (!settings::NumberIfSet("CUPOLA_PIECE_US")) preemption_settings.piece_ns += 100'000;
}

}  // namespace cupola::intercept
