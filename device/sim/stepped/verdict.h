// Judges one run of a scenario. Internal to the folder; the searches create one Judge per run and
// use it from their thread.
#pragma once

#include <string>

#include "device/sim/stepped/search.h"

namespace cupola::sim {

/// Says what went wrong in a run. The search steps the device and calls the Judge.
class Judge {
 public:
  Judge(const Scenario& scenario, SteppedDevice& device) : scenario_(scenario), device_(device) {}
  /// To be called after each step. Returns whether the run may go on.
  bool AfterStep();
  /// To be called after the last step. `end` says how the run ended if AfterStep did not stop it.
  void AfterRun(RunEnd end);
  /// "" while nothing is wrong.
  const std::string& wrong() const { return wrong_; }

 private:
  bool CheckRaces();

  const Scenario& scenario_;
  SteppedDevice& device_;
  size_t races_seen_ = 0;  ///< number of the device's races that were judged
  std::string wrong_;
};

}  // namespace cupola::sim
