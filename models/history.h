// HistoryModel: predicts a launch's duration by a moving average of what launches of exactly the same configuration
// took before. For configurations that it has not seen it asks another model. Its size is fixed. Several threads may
// call Observe at once: then a sample may be lost, but no value is torn. Any thread may call Predict.
#pragma once

#include <atomic>
#include <cstdint>

#include "models/predict.h"

namespace cupola::models {

class HistoryModel final : public DurationModel {
 public:
  static constexpr uint32_t kConfigurations = 64;  ///< configurations that it remembers; a power of two

  /// `fallback` (may be null) predicts for configurations that were not seen; it must outlive this object. `integers`:
  /// how many integer arguments belong to the configuration.
  explicit HistoryModel(const DurationModel* fallback, uint32_t integers = kMostIntegers)
      : fallback_(fallback), integers_(integers) {}

  const char* name() const noexcept override { return "history"; }
  Prediction Predict(const LaunchFeatures& launch) const noexcept override;
  /// The new duration has the weight 1/n up to n = 8, then 1/8. Where four neighbouring places hold other
  /// configurations, the first of them is replaced.
  void Observe(const LaunchFeatures& launch, uint64_t ns) noexcept override;

 private:
  // Mean and mean absolute deviation, both in ns, and a tag of the configuration that they belong to share the word
  // `value`. It is read and written whole, so that the words need no order among them.
  struct Place {
    std::atomic<uint64_t> number{0};  // 0 = free
    std::atomic<uint64_t> value{0};
    std::atomic<uint32_t> seen{0};
  };
  static constexpr uint32_t kProbes = 4;
  Place* PlaceOf(uint64_t number) const noexcept;

  const DurationModel* fallback_;
  uint32_t integers_;
  mutable Place places_[kConfigurations];
};

}  // namespace cupola::models
