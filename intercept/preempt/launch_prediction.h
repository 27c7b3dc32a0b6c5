// How long a launch will run, as the launch path sees it: by the plan, else by what was seen of the
// kernel's launches in this process. Any thread, no allocation, no lock.
#pragma once

#include <cstdint>

namespace cupola::intercept::preempt {

struct Attempt;
struct LaunchSlot;

/// Fills `predicted_ns` and `is_known`: by the plan; else by launches of the same shape; else (not
/// known) by as many blocks of others.
void Predict(Attempt* attempt) noexcept;

/// A guarded launch became complete at `now_ns`.
void NoteComplete(const LaunchSlot& slot, uint64_t now_ns) noexcept;

}  // namespace cupola::intercept::preempt
