// How long a launch will run, as the launch path sees it: by the plan, else by what was seen of the
// kernel's launches in this process. Any thread, no allocation, no lock.
#pragma once

#include <cstdint>

namespace cupola::intercept {
struct LaunchFacts;
}

namespace cupola::intercept::preempt {

struct Attempt;
struct LaunchSlot;
struct Variant;

/// Fills `predicted_ns` and `is_known`: by the plan; else by launches of the same shape; else (not
/// known) by as many blocks of others.
void Predict(Attempt* attempt) noexcept;

/// The same of any launch of a kernel, by the plan alone: nanoseconds; 0 = it has none of the kernel,
/// or that is not settled (SettleVariant). `params`, `extra`: as the launch call has them.
uint64_t PredictByPlan(const Variant& variant, const LaunchFacts& facts, void* const* params,
                       void** extra) noexcept;

/// A guarded launch became complete at `now_ns`.
void NoteComplete(const LaunchSlot& slot, uint64_t now_ns) noexcept;

}  // namespace cupola::intercept::preempt
