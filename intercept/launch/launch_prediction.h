// How long a launch will run, as the launch path predicts it from the kernel's model. Here the
// model is the plan, and what was seen of the kernel's launches in this process where the plan has
// none. Any thread; no allocation and no lock, unless a function says so.
#pragma once

#include <cstddef>
#include <cstdint>

#include "models/predict.h"

namespace cupola::intercept {

struct Launch;
struct LaunchSlot;
struct Variant;

/// Makes the model of a kernel, Variant::model: the plan's entry `kernel` (`plan` and `kernel` may be null) with the
/// history of the kernel's shapes behind it. `fallback` gets that history; FreeVariant frees both. Another model is
/// plugged in here. Called once a kernel; allocates.
models::DurationModel* MakeModel(const models::PlanView* plan, const models::PlanKernel* kernel,
                                 models::DurationModel** fallback) noexcept;

/// How long a launch is expected to run.
struct ExpectedTime {
  uint64_t ns = 0;        ///< nanoseconds; 0: nothing is known of the kernel
  bool is_known = false;  ///< it rests on launches like this one; otherwise it is scaled from blocks
                          ///< of other shapes
};

/// Predicts the launch of `total_blocks` blocks by the kernel's model, or else by what as many blocks of other shapes
/// took. The variant must be settled (SettleVariant).
ExpectedTime Predict(const Variant& variant, const Launch& launch, uint32_t total_blocks) noexcept;

/// Predicts a launch by the plan alone, in nanoseconds; 0 = the plan has no entry for the kernel, or
/// the variant is not settled. `params` and `extra` are those of the launch call.
uint64_t PredictByPlan(const Variant& variant, const Launch& launch, void* const* params,
                       void** extra) noexcept;

/// Tells the kernel's model that a guarded launch was complete at `now_ns`. `arguments` are the
/// packed arguments of its slot.
void ObserveCompletion(const LaunchSlot& slot, const std::byte* arguments, uint64_t now_ns) noexcept;

}  // namespace cupola::intercept
