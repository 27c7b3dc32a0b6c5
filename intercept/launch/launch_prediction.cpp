#include "intercept/launch/launch_prediction.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <span>

#include "intercept/facts/allocations.h"
#include "intercept/images/variant.h"
#include "intercept/launch/launch.h"
#include "intercept/launch/launch_slots.h"
#include "intercept/launch/packed_launch.h"
#include "models/history.h"

namespace cupola::intercept {
namespace {

// The features of a Launch, or of a LaunchSlot, which has the same members.
template <typename AnyLaunch>
models::LaunchFeatures FeaturesOf(const AnyLaunch& launch) {
  return {.grid = {launch.grid[0], launch.grid[1], launch.grid[2]},
          .block = {launch.block[0], launch.block[1], launch.block[2]},
          .dynamic_shared = launch.shared_bytes};
}

// Sums the input bytes as a profile does (record/launch_features.cpp).
[[gnu::noinline]] void ReadInputBytes(const Variant& variant, void* const* params,
                                      const std::byte* packed, size_t packed_bytes,
                                      models::LaunchFeatures* features) {
  InputBytes input;
  const size_t count = std::min<size_t>(variant.entry->parameters, InputBytes::kMost);
  for (const store::ParameterEntry& parameter : std::span(variant.parameters, count)) {
    uint64_t address = 0;
    if (parameter.bytes != sizeof(address)) continue;
    const void* from = nullptr;
    if (params != nullptr) {
      from = params[&parameter - variant.parameters];
    } else if (packed != nullptr && parameter.offset + sizeof(address) <= packed_bytes) {
      from = packed + parameter.offset;
    }
    if (from != nullptr) memcpy(&address, from, sizeof(address));
    if (address == 0) continue;
    if (const Allocation found = AllocationOf(address); found.bytes != 0) input.Add(found);
  }
  features->has_input_bytes = true;
  features->input_bytes = input.sum();
}

models::LaunchFeatures FeaturesOf(const Variant& variant, const Launch& launch,
                                  void* const* params, void** extra) {
  models::LaunchFeatures features = FeaturesOf(launch);
  if (variant.plan_kernel == nullptr) return features;
  const std::byte* packed = nullptr;
  size_t packed_bytes = 0;
  if (params == nullptr && extra != nullptr) (void)UnpackExtra(extra, &packed, &packed_bytes);
  models::ReadIntegers(*variant.plan_kernel, params, variant.entry->parameters, packed, packed_bytes, &features);
  if (variant.plan_kernel->model_input != 0) [[unlikely]] {
    ReadInputBytes(variant, params, packed, packed_bytes, &features);
  }
  return features;
}

}  // namespace

models::DurationModel* MakeModel(const models::PlanView* plan, const models::PlanKernel* kernel,
                                 models::DurationModel** fallback) noexcept {
  auto* const history = new (std::nothrow) models::HistoryModel(nullptr, 0);
  *fallback = history;
  if (plan == nullptr || kernel == nullptr) return history;
  auto* const planned = new (std::nothrow) models::PlanPredictor(*plan, *kernel, history);
  return planned != nullptr ? static_cast<models::DurationModel*>(planned) : history;
}

uint64_t PredictByPlan(const Variant& variant, const Launch& launch, void* const* params,
                       void** extra) noexcept {
  if (!variant.settled.load(std::memory_order_acquire) || variant.plan_kernel == nullptr) return 0;
  const models::LaunchFeatures features = FeaturesOf(variant, launch, params, extra);
  return models::Predict(*variant.plan, *variant.plan_kernel, features).ns;
}

ExpectedTime Predict(const Variant& variant, const Launch& launch, uint32_t total_blocks) noexcept {
  if (variant.model != nullptr) {
    const uint64_t ns = variant.model->Predict(FeaturesOf(variant, launch, launch.params, launch.extra)).ns;
    if (ns != 0) return {.ns = ns, .is_known = true};
  }
  return {.ns = variant.ns_per_1024_blocks.load(std::memory_order_relaxed) * total_blocks / 1024};
}

void ObserveCompletion(const LaunchSlot& slot, const std::byte* arguments, uint64_t now_ns) noexcept {
  if (slot.variant == nullptr || slot.total_blocks == 0 || slot.may_have_stopped) return;
  // This is an upper bound when launches queue up, so the shortest time seen is nearest to the truth.
  const uint64_t ns = (now_ns - slot.begun_ns) * 1024 / slot.total_blocks;
  std::atomic<uint64_t>& known = slot.variant->ns_per_1024_blocks;
  const uint64_t before = known.load(std::memory_order_relaxed);
  known.store(before == 0 || ns < before ? ns : before + (ns - before) / 64,
              std::memory_order_relaxed);
  const Variant& variant = *slot.variant;
  if (variant.model == nullptr || !slot.was_alone) return;
  models::LaunchFeatures features = FeaturesOf(slot);
  if (variant.plan_kernel != nullptr) {
    models::ReadIntegers(*variant.plan_kernel, nullptr, 0, arguments, variant.entry->parameter_bytes,
                         &features);
  }
  variant.model->Observe(features, now_ns - slot.begun_ns);
}

}  // namespace cupola::intercept
