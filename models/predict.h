// Predicts how long a launch will run. DurationModel is the interface of every model. Cupola has two: PlanPredictor, by
// a plan (ridge regression as in FLEP section 4.2, or the history of exact configurations, whichever cross-validation
// preferred), and HistoryModel (models/history.h), which learns while the program runs. Any thread may predict; a
// prediction makes no allocation, lock or system call and takes at most 50 ns.
#pragma once

#include <cstdint>

#include "models/features.h"
#include "models/plan.h"

namespace cupola::models {

struct Prediction {
  uint64_t ns = 0;            ///< 0 = the model has no prediction
  uint64_t spread_ns = 0;     ///< about one standard deviation
  bool extrapolated = false;  ///< the launch lies outside of what the model has seen
};

/// A model of one kernel's durations.
class DurationModel {
 public:
  virtual ~DurationModel() = default;
  /// The model's name in tables: "ridge", "history".
  virtual const char* name() const noexcept = 0;
  virtual Prediction Predict(const LaunchFeatures& launch) const noexcept = 0;
  /// Tells the model that a launch took `ns`. A model that does not learn does nothing.
  virtual void Observe(const LaunchFeatures& /*launch*/, uint64_t /*ns*/) noexcept {}
};

/// The prediction of a plan: the history where it is preferred and knows the configuration, else the ridge regression,
/// with the input size where that is known. `kernel` belongs to `plan`.
Prediction Predict(const PlanView& plan, const PlanKernel& kernel,
                   const LaunchFeatures& launch) noexcept;

/// The prediction of the ridge regression alone.
Prediction PredictRidge(const PlanView& plan, const PlanModel& model, const KernelNeeds& needs,
                        const LaunchFeatures& launch) noexcept;

/// Fills in the integers of `launch` that `kernel` names, from the arguments of the launch: `params` as cuLaunchKernel
/// takes them, `param_count` of them, or, where that is null, the packed block of `packed_bytes` that came through `extra`.
/// An integer that lies outside of what was given counts as 0.
void ReadIntegers(const PlanKernel& kernel, void* const* params, uint32_t param_count, const void* packed,
                  uint64_t packed_bytes, LaunchFeatures* launch) noexcept;

/// The predictions of a plan for one kernel, as a DurationModel. It refers to the plan, which must outlive it.
class PlanPredictor final : public DurationModel {
 public:
  /// `fallback` (may be null) predicts where the plan cannot, and is told what launches took; it must outlive this
  /// object.
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
