#include "intercept/preempt/launch_prediction.h"

#include "intercept/preempt/launch_arguments.h"
#include "intercept/preempt/launch_attempt.h"
#include "intercept/preempt/launch_slots.h"
#include "intercept/preempt/variants.h"
#include "models/predict.h"

namespace cupola::intercept::preempt {

void Predict(Attempt* attempt) noexcept {
  const Variant& variant = *attempt->variant;
  const LaunchFacts& facts = attempt->facts;
  models::LaunchFeatures features{.grid = {facts.grid[0], facts.grid[1], facts.grid[2]},
                                  .block = {facts.block[0], facts.block[1], facts.block[2]},
                                  .dynamic_shared = facts.shared_bytes};
  if (variant.plan_kernel != nullptr) {
    const std::byte* packed = nullptr;
    size_t packed_bytes = 0;
    if (attempt->call.params == nullptr && attempt->call.extra != nullptr) {
      (void)UnpackExtra(attempt->call.extra, &packed, &packed_bytes);
    }
    models::ReadIntegers(*variant.plan_kernel, attempt->call.params, packed, packed_bytes,
                         &features);
    attempt->predicted_ns = models::Predict(*variant.plan, *variant.plan_kernel, features).ns;
  }
  if (attempt->predicted_ns == 0) {
    const models::HistoryModel* const history = variant.history.load(std::memory_order_relaxed);
    if (history != nullptr) attempt->predicted_ns = history->Predict(features).ns;
  }
  attempt->is_known = attempt->predicted_ns != 0;
  if (attempt->is_known) return;
  const uint64_t per_1024 = variant.ns_per_1024_blocks.load(std::memory_order_relaxed);
  attempt->predicted_ns = per_1024 * attempt->total_blocks / 1024;
}

void NoteComplete(const LaunchSlot& slot, uint64_t now_ns) noexcept {
  if (slot.variant == nullptr || slot.total_blocks == 0 || slot.may_have_stopped) return;
  // An upper bound when launches queue up; the shortest of what was seen is nearest to the truth.
  const uint64_t ns = (now_ns - slot.begun_ns) * 1024 / slot.total_blocks;
  std::atomic<uint64_t>& known = slot.variant->ns_per_1024_blocks;
  const uint64_t before = known.load(std::memory_order_relaxed);
  known.store(before == 0 || ns < before ? ns : before + (ns - before) / 64,
              std::memory_order_relaxed);
  models::HistoryModel* const history = slot.variant->history.load(std::memory_order_relaxed);
  if (history == nullptr || !slot.was_alone) return;
  history->Observe({.grid = {slot.grid[0], slot.grid[1], slot.grid[2]},
                    .block = {slot.block[0], slot.block[1], slot.block[2]},
                    .dynamic_shared = slot.shared_bytes},
                   now_ns - slot.begun_ns);
}

}  // namespace cupola::intercept::preempt
