#include "tests/unit/passes/stop_chooser.h"

#include "device/sim/stepped/step.h"

namespace cupola::passes {
namespace {

// The number of an option that `accepts` says yes to, each as likely; of any where there is none.
template <typename Accepts>
uint32_t Among(Prng& random, std::span<const uint64_t> options, Accepts accepts) {
  std::vector<uint32_t> accepted;
  for (uint32_t i = 0; i < options.size(); ++i) {
    if (accepts(options[i])) accepted.push_back(i);
  }
  if (accepted.empty()) return static_cast<uint32_t>(random.Below(options.size()));
  return accepted[random.Below(accepted.size())];
}

bool IsOf(sim::ActorKind kind, uint64_t key) {
  constexpr uint32_t kKindShift = 62;  // of ActorId::Key
  return key >> kKindShift == static_cast<uint64_t>(kind);
}

}  // namespace

uint32_t StopChooser::ChooseActor(std::span<const uint64_t> keys) {
  for (uint32_t i = 0; i < keys.size(); ++i) {
    if (IsOf(sim::ActorKind::kHost, keys[i])) return i;
  }
  return Among(random_, keys, [this](uint64_t key) {
    return !IsLate() || !IsOf(sim::ActorKind::kBlockStart, key);
  });
}

uint32_t StopChooser::ChooseSm(std::span<const uint64_t> fitting) {
  const uint32_t turn = choices_.spread ? starts_++ : *resumes_;
  const uint32_t half = choices_.sm_count / 2;
  const uint32_t chosen =
      Among(random_, fitting, [&](uint64_t sm) { return (sm >= half) == (turn % 2 != 0); });
  sms_.resize(std::max<size_t>(sms_.size(), *resumes_ + 1));
  sms_[*resumes_].insert(fitting[chosen]);
  return chosen;
}

uint32_t StopChooser::Choose(sim::ChoiceKind kind, std::span<const uint64_t> options) {
  switch (kind) {
    case sim::ChoiceKind::kActor:
      return ChooseActor(options);
    case sim::ChoiceKind::kSm:
      return ChooseSm(options);
    case sim::ChoiceKind::kBlock:
      if (IsLate()) return 0;
      [[fallthrough]];
    case sim::ChoiceKind::kValue:
      return static_cast<uint32_t>(random_.Below(options.size()));
  }
  return 0;
}

}  // namespace cupola::passes
