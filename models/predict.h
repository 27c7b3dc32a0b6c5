// Predicts how long a launch will run. DurationModel is what a model must offer to be plugged in;
// ours are PlanPredictor (ridge regression, FLEP section 4.2, and what was seen of exact
// configurations, whichever cross-validation preferred) and HistoryModel (models/history.h), which
// learns while the program runs. Prediction: any thread, no allocation, no lock, no call of the
// system; <= 50 ns.
#pragma once

#include <cstdint>

#include "models/features.h"
#include "models/plan.h"

namespace cupola::models {

struct Prediction {
  uint64_t ns = 0;            ///< 0 = no idea
  uint64_t spread_ns = 0;     ///< one standard deviation, about
  bool extrapolated = false;  ///< the launch is outside of what the model has seen
};

/// A model of one kernel's durations.
class DurationModel {
 public:
  virtual ~DurationModel() = default;
  /// A word for tables: "ridge", "history".
  virtual const char* name() const noexcept = 0;
  virtual Prediction Predict(const LaunchFeatures& launch) const noexcept = 0;
  /// A launch took `ns`. A model that does not learn does nothing.
  virtual void Observe(const LaunchFeatures& /*launch*/, uint64_t /*ns*/) noexcept {}
};

/// The prediction of a plan: history where it is preferred and knows the configuration, else ridge,
/// with the input size where it is known. `kernel` is of `plan`.
Prediction Predict(const PlanView& plan, const PlanKernel& kernel,
                   const LaunchFeatures& launch) noexcept;

/// The ridge regression alone.
Prediction PredictRidge(const PlanView& plan, const PlanModel& model, const KernelNeeds& needs,
                        const LaunchFeatures& launch) noexcept;

/// Fills the integers of `launch` that `kernel` names from the launch call's arguments: `params` as
/// cuLaunchKernel takes them, else (null) the packed block of `packed_bytes` that came through
/// `extra`. What lies outside of the block counts as 0.
void ReadIntegers(const PlanKernel& kernel, void* const* params, const void* packed,
                  uint64_t packed_bytes, LaunchFeatures* launch) noexcept;

/// One kernel of a plan as a plug-in. Keeps views: the plan must outlive it.
class PlanPredictor final : public DurationModel {
 public:
  /// `fallback` (may be null) answers where the plan has no idea, and is told what launches took; it
  /// must outlive this.
  PlanPredictor(const PlanView& plan, const PlanKernel& kernel, DurationModel* fallback = nullptr)
      : plan_(plan), kernel_(kernel), fallback_(fallback) {}
  const char* name() const noexcept override;
  Prediction Predict(const LaunchFeatures& launch) const noexcept override;
  void Observe(const LaunchFeatures& launch, uint64_t ns) noexcept override;

 private:
  const PlanView& plan_;
  const PlanKernel& kernel_;
  DurationModel* fallback_;
};

}  // namespace cupola::models
