// MpsControl: NVIDIA's MPS control daemon, started and stopped together with `cupola serve`, which owns it. One thread.
// Source: NVIDIA Multi-Process Service documentation, "nvidia-cuda-mps-control".
#pragma once

#include "base/result.h"

namespace cupola::sched {

class MpsControl {
 public:
  MpsControl() = default;
  MpsControl(const MpsControl&) = delete;
  MpsControl& operator=(const MpsControl&) = delete;
  /// Stops what Start started. Waits for at most ten seconds.
  ~MpsControl();

  /// Runs `nvidia-cuda-mps-control -d`, found by PATH, and waits for at most ten seconds until it has gone into the
  /// background. kNotFound: it is not installed. kIo: it failed, as it does where this user may not start it or one
  /// runs already; the one that runs is left alone.
  Status Start();

  /// Whether Start succeeded.
  bool runs() const { return runs_; }

 private:
  bool runs_ = false;
};

}  // namespace cupola::sched
