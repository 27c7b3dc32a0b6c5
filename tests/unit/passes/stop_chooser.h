// Chooses in a run that is stopped at one block: the host's thread goes before all others, so that a
// request is there before anything else happens, and a resume comes to other SMs than those that were
// left. All other choices are by seed. One thread.
#pragma once

#include <set>
#include <vector>

#include "device/sim/stepped/chooser.h"

namespace cupola::passes {

struct StopChoices {
  uint32_t sm_count = 4;
  /// While there were fewer resumes than this, workers start late: a worker starts only when no other
  /// can go on. Worker 0, which hears of a request, is the first; the others start when those before
  /// them have left.
  uint32_t late_until = 0;
  /// True: workers start on the two halves of the SMs in turn; false: physical launches do.
  bool spread = false;
};

class StopChooser final : public sim::Chooser {
 public:
  /// `resumes`: the number of resumes in the run so far; read at each choice.
  StopChooser(uint64_t seed, const StopChoices& choices, const uint32_t* resumes)
      : random_(seed), choices_(choices), resumes_(resumes) {}
  uint32_t Choose(sim::ChoiceKind kind, std::span<const uint64_t> options) override;

  /// The SMs that workers were given, indexed by the number of resumes before.
  const std::vector<std::set<uint64_t>>& sms() const { return sms_; }

 private:
  bool IsLate() const { return *resumes_ < choices_.late_until; }
  uint32_t ChooseActor(std::span<const uint64_t> keys);
  uint32_t ChooseSm(std::span<const uint64_t> fitting);

  Prng random_;
  StopChoices choices_;
  const uint32_t* resumes_;
  uint32_t starts_ = 0;
  std::vector<std::set<uint64_t>> sms_;
};

}  // namespace cupola::passes
