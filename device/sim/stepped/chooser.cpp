#include "device/sim/stepped/chooser.h"

#include <algorithm>

namespace cupola::sim {

uint32_t RandomChooser::Choose(ChoiceKind, std::span<const uint64_t> options) {
  return static_cast<uint32_t>(random_.Below(options.size()));
}

PctChooser::PctChooser(uint64_t seed, uint32_t depth, uint64_t steps)
    : random_(seed), lowest_(depth) {
  for (uint32_t i = 1; i < depth; ++i)
    changes_.push_back(random_.Below(std::max<uint64_t>(steps, 1)));
  std::ranges::sort(changes_);
}

uint32_t PctChooser::Choose(ChoiceKind kind, std::span<const uint64_t> options) {
  if (kind != ChoiceKind::kActor) return static_cast<uint32_t>(random_.Below(options.size()));
  const auto highest = [&] {
    uint32_t best = 0;
    for (uint32_t i = 0; i < options.size(); ++i) {
      const auto [it, fresh] = priorities_.try_emplace(options[i], 0);
      // A first priority is above every priority that a change can assign.
      if (fresh) it->second = (random_.Next() >> 1) + changes_.size() + 1;
      if (it->second > priorities_[options[best]]) best = i;
    }
    return best;
  };
  uint32_t best = highest();
  while (next_change_ < changes_.size() && step_ >= changes_[next_change_]) {
    ++next_change_;
    priorities_[options[best]] = --lowest_;
    best = highest();
  }
  ++step_;
  return best;
}

uint32_t ReplayChooser::Choose(ChoiceKind, std::span<const uint64_t> options) {
  const uint32_t answer = next_ < answers_.size() ? answers_[next_++] : 0;
  if (answer < options.size()) return answer;
  faithful_ = false;
  return 0;
}

uint32_t RecordingChooser::Choose(ChoiceKind kind, std::span<const uint64_t> options) {
  answers_.push_back(chooser_->Choose(kind, options));
  return answers_.back();
}

}  // namespace cupola::sim
