// AskChoice: decides for one GPU when the bursts of this process ask others to yield: at the burst's first launch, only
// when the program waits for the burst, or not at all. It learns from the bursts how long the host takes to issue one
// and how long the program then waits. docs/gates.md (Hold only while it pays) has the arithmetic. No CUDA call, no
// clock. Part of DemandState, whose phase lets one thread at a time call it. Times are in nanoseconds.
#pragma once

#include <algorithm>
#include <cstdint>

#include "intercept/launch/usual_time.h"

namespace cupola::intercept {

enum class AskAt : uint8_t {
  kFirstLaunch,  ///< the others are held from the burst's first launch to its end
  kWait,         ///< they are held while the program waits for the burst
  kNever,        ///< they are not held: the GPU's time slices or launch priorities share it
};
inline constexpr uint32_t kAskTimes = 3;

class AskChoice {
 public:
  /// Up to this long a burst's issue holds the others for no longer than a stop takes.
  static constexpr uint64_t kShortIssueNs = 300'000;
  /// Bursts by which each way is tried, and after how many bursts one of the two ways not chosen is tried again.
  static constexpr uint32_t kTrials = 4, kTryAgainAfter = 32;
  /// A way by which the others lose more is chosen where bursts become shorter by kLeastGain, or where the others lose no
  /// more than kSmallLoss of the time on top; never where they lose more than kMostLoss in all.
  static constexpr double kLeastGain = 0.10, kSmallLoss = 0.02, kMostLoss = 0.05;
  /// After how many bursts asking with the first launch is tried again where it costs the others more than kMostLoss.
  static constexpr uint32_t kTryDearAfter = 1024;

  /// When the next burst is to ask.
  AskAt now() const noexcept { return now_; }

  /// How long a program may wait for a burst that has not asked before it asks after all.
  uint64_t patience_ns() const noexcept { return std::max(kLeastPatienceNs, issue_.ns() / 8); }

  /// A burst has ended that asked as now() said when it began. It began at `begun_ns`; the program waited for it from
  /// `waits_ns` to `ended_ns`. Decides about the next one.
  void Note(AskAt asked, uint64_t begun_ns, uint64_t waits_ns, uint64_t ended_ns) noexcept;

  // What was learnt, in nanoseconds; 0 = nothing.
  uint64_t issue_ns() const noexcept { return issue_.ns(); }
  uint64_t period_ns() const noexcept { return period_ns_; }
  uint64_t wait_ns(AskAt at) const noexcept { return ways_[static_cast<uint32_t>(at)].wait_ns; }

 private:
  static constexpr uint64_t kLeastPatienceNs = 2'000'000;

  struct Way {
    uint64_t wait_ns = 0;  ///< moving mean of the waits
    uint32_t bursts = 0;
  };

  static void Learn(uint64_t* mean_ns, uint64_t ns, bool is_first, uint32_t weight = 4) noexcept;
  Way& way(AskAt at) noexcept { return ways_[static_cast<uint32_t>(at)]; }
  const Way& way(AskAt at) const noexcept { return ways_[static_cast<uint32_t>(at)]; }
  double LossOf(AskAt at) const noexcept;
  bool Pays(AskAt more, AskAt less) const noexcept;
  AskAt Decide() noexcept;

  Way ways_[kAskTimes];
  /// From a burst's first launch to the wait. It takes longer where the thread is not given a processor, and that is no
  /// reason to hold nobody: so a shorter time is believed at once.
  UsualTime issue_;
  uint64_t period_ns_ = 0;  ///< moving mean from one burst's beginning to the next one's
  uint64_t last_begun_ns_ = 0;
  uint64_t bursts_ = 0;
  uint64_t first_tried_at_ = 0;  ///< bursts_ when the last one ended that had asked with its first launch
  bool chooses_ = false;  ///< the host issues a burst for so long that there is a choice
  AskAt chosen_ = AskAt::kFirstLaunch;  ///< what is best, by what was learnt
  AskAt now_ = AskAt::kFirstLaunch;     ///< the same, or a way that is tried again
};

}  // namespace cupola::intercept
