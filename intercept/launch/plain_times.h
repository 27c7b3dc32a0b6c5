// Times of plain launches, learnt in this process: for kernels without PTX no plan knows them. The first launches of each
// shape (kernel, grid, block, shared memory; or a whole graph) are measured by a pair of events each
// (record/device_timing.h), and now and then a later one, by which the prediction is also judged. Gates are put by these
// times (gates.h), and they tell how much of the process's time on the GPU can be stopped (stoppable_time.h). Only launches
// that a gate may hold are measured: nothing is done while nobody may ask the process to yield. Any thread; no lock; no
// allocation but that of the events, once a context.
#pragma once

#include <cstdint>

#include "intercept/facts/streams.h"
#include "intercept/launch/launch.h"
#include "intercept/record/device_timing.h"

namespace cupola::intercept {

/// One launch that goes out plain: what is expected of it, and its measurement, if it is to have one.
class PlainTime {
 public:
  /// Looks the launch's shape up. `stream` is that of ResolveStream.
  PlainTime(const Launch& launch, const StreamKey& stream) noexcept;

  /// The expected time in nanoseconds; 0 = not known yet.
  uint64_t ns() const noexcept { return ns_; }

  /// Around the driver's call that makes the launch: Begin records the first event, End the second. Both do nothing where the
  /// launch is not to be measured or a capture is open.
  void Begin() noexcept;
  void End(CUresult result) noexcept;

 private:
  const Launch& launch_;
  uint64_t context_;
  uint32_t index_ = 0;  ///< of the shape in the table
  uint64_t ns_ = 0;
  bool is_wanted_ = false;
  TimedLaunch timed_;
};

/// How well launches are predicted: over the shapes of at least `least_ns`, the mean of each shape's mean error.
struct PlainTimesQuality {
  uint32_t shapes = 0;        ///< shapes that were predicted and then measured
  double mean_error = 0;      ///< |predicted - measured| / measured
};
PlainTimesQuality JudgePlainTimes(uint64_t least_ns) noexcept;

/// Handles of kernels or graphs may mean others from now on, as when a module is unloaded: all shapes are learnt anew.
void ForgetPlainTimes() noexcept;
void ForgetPlainTimesAfterFork() noexcept;

}  // namespace cupola::intercept
