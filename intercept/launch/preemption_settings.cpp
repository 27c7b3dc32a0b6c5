#include "intercept/launch/preemption_settings.h"

#include <cstdlib>
#include <cstring>

#include "intercept/process/notice.h"
#include "profiles/claim_word.h"

namespace cupola::intercept {

PreemptionSettings preemption_settings;

namespace {

uint64_t Number(const char* name, uint64_t fallback) {
  const char* text = getenv(name);
  if (text == nullptr || *text < '0' || *text > '9') return fallback;
  return strtoull(text, nullptr, 10);
}

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
  const char* mode = getenv("CUPOLA_PREEMPT");
  if (mode != nullptr && *mode != '\0') {
    if (strcmp(mode, "off") == 0) return false;
    if (strcmp(mode, "never") == 0) {
      preemption_settings.mode = PreemptMode::kNever;
    } else if (strcmp(mode, "always") == 0) {
      preemption_settings.mode = PreemptMode::kAlways;
    } else if (strcmp(mode, "turns") == 0) {
      preemption_settings.mode = ReadTurns(getenv("CUPOLA_TURNS")) ? PreemptMode::kTurns : PreemptMode::kAuto;
    } else if (strcmp(mode, "auto") != 0) {
      Say(Level::kWarn, {"CUPOLA_PREEMPT=", mode, " is not known: use auto, always, turns, never or off"});
    }
  }
  preemption_settings.allow_inexact = Number("CUPOLA_INEXACT", 0) != 0;
  preemption_settings.threshold_ns = Number("CUPOLA_PREEMPT_ABOVE_US", preemption_settings.threshold_ns / 1000) * 1000;
  preemption_settings.equals_threshold_ns =
      Number("CUPOLA_PREEMPT_EQUALS_ABOVE_US", preemption_settings.equals_threshold_ns / 1000) * 1000;
  preemption_settings.gate_every = static_cast<uint32_t>(Number("CUPOLA_GATE_EVERY", preemption_settings.gate_every));
  preemption_settings.batch = static_cast<uint32_t>(Number("CUPOLA_BATCH", 0));
  preemption_settings.poll_period_ns =
      static_cast<uint32_t>(Number("CUPOLA_POLL_NS", preemption_settings.poll_period_ns));
  preemption_settings.watch_from = static_cast<uint32_t>(Number("CUPOLA_WATCH_FROM", preemption_settings.watch_from));
  preemption_settings.look_after_ns =
      static_cast<uint32_t>(Number("CUPOLA_LOOK_AFTER_NS", preemption_settings.look_after_ns));
  preemption_settings.fresh_after_ns =
      static_cast<uint32_t>(Number("CUPOLA_FRESH_AFTER_NS", preemption_settings.fresh_after_ns));
  preemption_settings.demand_limit_ns =
      Number("CUPOLA_DEMAND_LIMIT_MS", preemption_settings.demand_limit_ns / 1'000'000) * 1'000'000;
  preemption_settings.wait_limit_ns =
      Number("CUPOLA_WAIT_LIMIT_MS", preemption_settings.wait_limit_ns / 1'000'000) * 1'000'000;
  preemption_settings.hot_ns = Number("CUPOLA_AGENT_HOT_US", preemption_settings.hot_ns / 1000) * 1000;
  return true;
}

}  // namespace cupola::intercept
