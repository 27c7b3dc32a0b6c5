#include "intercept/launch/ask_choice.h"

namespace cupola::intercept {

// A burst that takes many times as long as usual, because a thread was not woken or a machine was busy, counts as one
// of four times the usual length.
void AskChoice::Learn(uint64_t* mean_ns, uint64_t ns, bool is_first, uint32_t weight) noexcept {
  if (is_first) {
    *mean_ns = ns;
    return;
  }
  *mean_ns = ((weight - 1) * *mean_ns + std::min(ns, 4 * *mean_ns + kShortIssueNs)) / weight;
}

void AskChoice::Note(AskAt asked, uint64_t begun_ns, uint64_t waits_ns, uint64_t ended_ns) noexcept {
  if (waits_ns < begun_ns || ended_ns < waits_ns) return;  // another thread began the burst after this one had waited
  issue_.Learn(waits_ns - begun_ns);
  if (begun_ns > last_begun_ns_ && last_begun_ns_ != 0) {
    Learn(&period_ns_, begun_ns - last_begun_ns_, period_ns_ == 0);
  }
  last_begun_ns_ = begun_ns;
  // What is seldom tried is to be learnt from few bursts.
  Learn(&way(asked).wait_ns, ended_ns - waits_ns, way(asked).bursts == 0, asked == chosen_ ? 8 : 4);
  ++way(asked).bursts;
  ++bursts_;
  now_ = Decide();
}

/// Whether it pays to hold the others for `more_held_ns` a burst, not `less_held_ns`.
bool AskChoice::Pays(const Way& more, uint64_t more_held_ns, const Way& less, uint64_t less_held_ns) const noexcept {
  if (more.wait_ns >= less.wait_ns) return false;
  const auto gain_ns = static_cast<double>(less.wait_ns - more.wait_ns);
  const auto loss_ns = static_cast<double>(more_held_ns > less_held_ns ? more_held_ns - less_held_ns : 0);
  return gain_ns >= kLeastGain * static_cast<double>(issue_.ns() + less.wait_ns) ||
         loss_ns <= kMostLoss * static_cast<double>(period_ns_);
}

AskAt AskChoice::Decide() noexcept {
  const Way& first = way(AskAt::kFirstLaunch);
  Way& wait = way(AskAt::kWait);
  Way& never = way(AskAt::kNever);
  if (first.bursts < kTrials) return AskAt::kFirstLaunch;
  // The GPU, not the host, takes the burst's time, so all of the hold is used; or the hold ends before it has begun.
  const uint64_t short_ns = std::max(first.wait_ns, kShortIssueNs);
  chooses_ = issue_.ns() > (chooses_ ? short_ns : 2 * short_ns);
  if (!chooses_) {
    wait = never = {};  // the program is another one than when these were learnt
    chosen_ = AskAt::kFirstLaunch;
    return AskAt::kFirstLaunch;
  }
  if (wait.bursts < kTrials) return AskAt::kWait;
  if (never.bursts < kTrials) return AskAt::kNever;
  AskAt chosen = AskAt::kNever;
  uint64_t held_ns = 0;
  if (Pays(wait, wait.wait_ns, never, 0)) {
    chosen = AskAt::kWait;
    held_ns = wait.wait_ns;
  }
  if (Pays(first, issue_.ns() + first.wait_ns, way(chosen), held_ns)) chosen = AskAt::kFirstLaunch;
  chosen_ = chosen;
  if (bursts_ % kTryAgainAfter != 0) return chosen;
  const auto step = static_cast<uint32_t>(1 + bursts_ / kTryAgainAfter % 2);
  return static_cast<AskAt>((static_cast<uint32_t>(chosen) + step) % kAskTimes);
}

}  // namespace cupola::intercept
