// How one run of a scenario is judged. Internal to the folder.
#pragma once

#include <string>

#include "device/sim/stepped/search.h"

namespace cupola::sim {

/// Drives a device through a scenario and says what went wrong.
class Judge {
 public:
  Judge(const Scenario& scenario, SteppedDevice& device) : scenario_(scenario), device_(device) {}
  /// After a step: whether the run may go on.
  bool AfterStep();
  /// After the last step. `end`: how the run ended, when AfterStep did not stop it.
  void AfterRun(RunEnd end);
  /// "" while nothing is wrong.
  const std::string& wrong() const { return wrong_; }

 private:
  bool CheckRaces();

  const Scenario& scenario_;
  SteppedDevice& device_;
  size_t races_seen_ = 0;
  std::string wrong_;
};

}  // namespace cupola::sim
