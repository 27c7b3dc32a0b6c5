// HistoryModel: what launches of exactly the same configuration took before, as a moving average,
// over another model for configurations that it has not seen. Fixed size. One thread may observe,
// or several: what they lose to one another is a sample, never a torn value. Any thread may
// predict.
#pragma once

#include <atomic>
#include <cstdint>

#include "models/predict.h"

namespace cupola::models {

class HistoryModel final : public DurationModel {
 public:
  static constexpr uint32_t kConfigurations = 64;  ///< remembered; a power of two

  /// `fallback` (may be null) answers for what was not seen; it must outlive this. `integers`: how
  /// many integer arguments belong to the configuration.
  explicit HistoryModel(const DurationModel* fallback, uint32_t integers = kMostIntegers)
      : fallback_(fallback), integers_(integers) {}

  const char* name() const noexcept override { return "history"; }
  Prediction Predict(const LaunchFeatures& launch) const noexcept override;
  /// Weight of the new one: 1/n up to n = 8, then 1/8. Where four neighbouring places hold others,
  /// the first of them is replaced.
  void Observe(const LaunchFeatures& launch, uint64_t ns) noexcept override;

 private:
  // Mean and mean absolute deviation in ns, and whose they are, in one word: read and written whole,
  // so that the words need no order among them.
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
