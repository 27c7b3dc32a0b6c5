// How long a launch will run, as the launch path sees it: by the kernel's model, which here is the
// plan over what was seen of its launches in this process. Any thread, no allocation, no lock but
// where it says so.
#pragma once

#include <cstddef>
#include <cstdint>

#include "models/predict.h"

namespace cupola::intercept {
struct LaunchFacts;
struct Variant;
}

namespace cupola::intercept::preempt {

struct Attempt;
struct LaunchSlot;

/// Makes the model of a kernel, Variant::model: `kernel` of `plan` (both may be null) over the history of its shapes,
/// which is also told in `fallback` (FreeVariant frees both). Where another model is plugged in. Once a kernel;
/// allocates.
models::DurationModel* MakeModel(const models::PlanView* plan, const models::PlanKernel* kernel,
                                 models::DurationModel** fallback) noexcept;

/// Fills `predicted_ns` and `is_known`: by the kernel's model; else (not known) by as many blocks of
/// others. The variant is settled (SettleVariant).
void Predict(Attempt* attempt) noexcept;

/// The prediction of any launch of a kernel by the plan alone: nanoseconds; 0 = it has none of the
/// kernel, or that is not settled. `params`, `extra`: as the launch call has them.
uint64_t PredictByPlan(const Variant& variant, const LaunchFacts& facts, void* const* params,
                       void** extra) noexcept;

/// A guarded launch became complete at `now_ns`; `arguments` are the packed ones of its slot. Tells
/// the kernel's model.
void NoteComplete(const LaunchSlot& slot, const std::byte* arguments, uint64_t now_ns) noexcept;

}  // namespace cupola::intercept::preempt
