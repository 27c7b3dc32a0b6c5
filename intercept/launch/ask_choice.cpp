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
  if (asked == AskAt::kFirstLaunch) first_tried_at_ = bursts_;
  now_ = Decide();
}

/// How much of the time the others lose, as a part: while they are held and this process does not use the GPU. What a burst
/// that holds them from its first launch on waits for is its own work.
double AskChoice::LossOf(AskAt at) const noexcept {
  if (period_ns_ == 0) return 1;
  const uint64_t own_ns = way(AskAt::kFirstLaunch).wait_ns;
  uint64_t lost_ns = 0;
  if (at == AskAt::kFirstLaunch) lost_ns = issue_.ns();
  if (at == AskAt::kWait) lost_ns = std::max(way(at).wait_ns, own_ns) - own_ns;
  return static_cast<double>(lost_ns) / static_cast<double>(period_ns_);
}

/// Whether it pays to ask as `more`, by which the others lose more than by `less`.
bool AskChoice::Pays(AskAt more, AskAt less) const noexcept {
  const uint64_t more_ns = way(more).wait_ns, less_ns = way(less).wait_ns;
  if (more_ns >= less_ns || LossOf(more) > kMostLoss) return false;
  return static_cast<double>(less_ns - more_ns) >= kLeastGain * static_cast<double>(issue_.ns() + less_ns) ||
         LossOf(more) - LossOf(less) <= kSmallLoss;
}

AskAt AskChoice::Decide() noexcept {
  const Way& first = way(AskAt::kFirstLaunch);
  Way& wait = way(AskAt::kWait);
  Way& never = way(AskAt::kNever);
  if (first.bursts < kTrials) return AskAt::kFirstLaunch;
  // The GPU, not the host, takes the burst's time, so all of the hold is used; or the hold ends before it has begun.
  const uint64_t short_ns = std::max(first.wait_ns, kShortIssueNs);
  chooses_ = issue_.ns() > (chooses_ || LossOf(AskAt::kFirstLaunch) > kMostLoss ? short_ns : 2 * short_ns);
  if (!chooses_) {
    wait = never = {};  // the program is another one than when these were learnt
    chosen_ = AskAt::kFirstLaunch;
    return AskAt::kFirstLaunch;
  }
  if (wait.bursts < kTrials) return AskAt::kWait;
  if (never.bursts < kTrials) return AskAt::kNever;
  chosen_ = Pays(AskAt::kWait, AskAt::kNever) ? AskAt::kWait : AskAt::kNever;
  if (Pays(AskAt::kFirstLaunch, chosen_)) chosen_ = AskAt::kFirstLaunch;
  if (bursts_ % kTryAgainAfter != 0) return chosen_;
  const auto step = static_cast<uint32_t>(1 + bursts_ / kTryAgainAfter % 2);
  const auto again = static_cast<AskAt>((static_cast<uint32_t>(chosen_) + step) % kAskTimes);
  const bool is_dear = again == AskAt::kFirstLaunch && LossOf(again) > kMostLoss;
  return is_dear && bursts_ - first_tried_at_ < kTryDearAfter ? chosen_ : again;
}

}  // namespace cupola::intercept
