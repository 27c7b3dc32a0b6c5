#include "intercept/preempt/stream_levels.h"

#include "intercept/driver_calls.h"
#include "intercept/handle_map.h"
#include "intercept/preempt/preemption.h"

namespace cupola::intercept::preempt {
namespace {

HandleMap moved;  // CUstream -> what was asked for, negated and so at least 1

}  // namespace

StreamLevels LevelsOfContext() noexcept {
  StreamLevels levels;
  const auto get_range =
      CUPOLA_CALL_REAL(cuCtxGetStreamPriorityRange, PFN_cuCtxGetStreamPriorityRange_v5050);
  if (get_range(&levels.least, &levels.greatest) != CUDA_SUCCESS) return {};
  return levels;
}

int LevelFor(int priority) noexcept {
  if (!PreemptionOn()) return priority;
  const StreamLevels levels = LevelsOfContext();
  const bool is_kept_back = levels.keeps_one_back() && priority == levels.helper();
  return is_kept_back && priority < 0 ? priority - 1 : priority;
}

void NoteStreamLevel(CUstream stream, int asked, int made) noexcept {
  if (asked != made) {
    moved.Set(stream, static_cast<uint64_t>(-asked));
  } else if (PreemptionOn()) {
    moved.Erase(stream);  // of one that ended with its context
  }
}

void ForgetStreamLevel(CUstream stream) noexcept {
  if (PreemptionOn()) moved.Erase(stream);
}

void CorrectPriority(CUstream stream, int* priority) noexcept {
  if (!PreemptionOn() || priority == nullptr) return;
  const uint64_t asked = moved.Find(stream, 0);
  if (asked != 0) *priority = -static_cast<int>(asked);
}

}  // namespace cupola::intercept::preempt
