#include "models/history.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace cupola::models {
namespace {

constexpr uint32_t kMostWeighed = 8;

// The mean as a float, the deviation as the upper half of a float, and 16 bits of the
// configuration's number. So a value of another configuration that had or took the same place is
// not mistaken for this one's.
uint64_t Pack(float mean, float deviation, uint64_t number) {
  return (uint64_t{std::bit_cast<uint32_t>(mean)} << 32) |
         (std::bit_cast<uint32_t>(deviation) & 0xFFFF0000u) | (number >> 48);
}

float Mean(uint64_t value) { return std::bit_cast<float>(static_cast<uint32_t>(value >> 32)); }
float Deviation(uint64_t value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value) & 0xFFFF0000u);
}
bool IsOf(uint64_t value, uint64_t number) {
  return value >> 32 != 0 && (value & 0xFFFF) == number >> 48;
}

}  // namespace

HistoryModel::Place* HistoryModel::PlaceOf(uint64_t number) const noexcept {
  for (uint32_t i = 0; i < kProbes; ++i) {
    Place& place = places_[(number + i) % kConfigurations];
    if (place.number.load(std::memory_order_relaxed) == number) return &place;
  }
  return nullptr;
}

Prediction HistoryModel::Predict(const LaunchFeatures& launch) const noexcept {
  const uint64_t number = ConfigurationOf(launch, integers_) | 1;  // 0 marks a free place
  if (const Place* place = PlaceOf(number)) {
    const uint64_t value = place->value.load(std::memory_order_relaxed);
    if (IsOf(value, number)) {
      return {static_cast<uint64_t>(Mean(value)), static_cast<uint64_t>(Deviation(value) * 1.25f),
              false};  // mean absolute deviation to standard deviation: sqrt(pi / 2)
    }
  }
  return fallback_ != nullptr ? fallback_->Predict(launch) : Prediction{};
}

void HistoryModel::Observe(const LaunchFeatures& launch, uint64_t ns) noexcept {
  const uint64_t number = ConfigurationOf(launch, integers_) | 1;
  Place* place = PlaceOf(number);
  if (place == nullptr) {
    place = &places_[number % kConfigurations];
    for (uint32_t i = 0; i < kProbes; ++i) {
      Place& candidate = places_[(number + i) % kConfigurations];
      if (candidate.number.load(std::memory_order_relaxed) == 0) {
        place = &candidate;
        break;
      }
    }
    place->number.store(number, std::memory_order_relaxed);
  }
  const uint64_t before = place->value.load(std::memory_order_relaxed);
  const uint32_t seen_before =
      IsOf(before, number) ? place->seen.load(std::memory_order_relaxed) : 0;
  const uint32_t seen = std::min(seen_before + 1, kMostWeighed);
  const float weight = 1.0f / static_cast<float>(seen);
  const float sample = static_cast<float>(std::max<uint64_t>(ns, 1));
  const float off = seen == 1 ? 0 : std::fabs(sample - Mean(before));
  const float mean = seen == 1 ? sample : Mean(before) + weight * (sample - Mean(before));
  const float deviation = seen == 1 ? 0 : Deviation(before) + weight * (off - Deviation(before));
  place->value.store(Pack(mean, deviation, number), std::memory_order_relaxed);
  place->seen.store(seen, std::memory_order_relaxed);
}

}  // namespace cupola::models
