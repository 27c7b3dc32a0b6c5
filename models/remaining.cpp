#include "models/remaining.h"

#include <algorithm>

namespace cupola::models {

RemainingTime::RemainingTime(uint64_t expected_ns, uint64_t now_ns)
    : expected_ns_(expected_ns), since_ns_(now_ns) {}

void RemainingTime::Account(uint64_t now_ns) {
  const uint64_t passed = now_ns > since_ns_ ? now_ns - since_ns_ : 0;
  (running_ ? ran_ns_ : waited_ns_) += passed;
  since_ns_ = std::max(since_ns_, now_ns);
}

void RemainingTime::Run(uint64_t now_ns) {
  Account(now_ns);
  running_ = true;
}

void RemainingTime::Stop(uint64_t now_ns) {
  Account(now_ns);
  running_ = false;
}

void RemainingTime::Progress(uint64_t completed, uint64_t total, uint64_t now_ns) {
  if (total == 0) return;
  const double fraction =
      static_cast<double>(std::min(completed, total)) / static_cast<double>(total);
  if (fraction <= fraction_) return;
  fraction_ = fraction;
  ran_at_fraction_ = ran_ns(now_ns);
}

uint64_t RemainingTime::waited_ns(uint64_t now_ns) const {
  return waited_ns_ + (!running_ && now_ns > since_ns_ ? now_ns - since_ns_ : 0);
}

uint64_t RemainingTime::ran_ns(uint64_t now_ns) const {
  return ran_ns_ + (running_ && now_ns > since_ns_ ? now_ns - since_ns_ : 0);
}

uint64_t RemainingTime::remaining_ns(uint64_t now_ns) const {
  const uint64_t ran = ran_ns(now_ns);
  uint64_t left = expected_ns_;
  uint64_t ran_since = ran;
  if (fraction_ > 0) {
    const double pace = static_cast<double>(ran_at_fraction_) / fraction_;
    const double duration =
        (1 - fraction_) * static_cast<double>(expected_ns_) + fraction_ * pace;
    left = static_cast<uint64_t>((1 - fraction_) * duration);
    ran_since = ran - ran_at_fraction_;
    if (fraction_ >= 1) return 0;
  }
  return ran_since <= left ? left - ran_since : (ran_since - left) / 2;
}

}  // namespace cupola::models
