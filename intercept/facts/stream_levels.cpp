#include "intercept/facts/stream_levels.h"

#include <atomic>

#include "intercept/process/driver_calls.h"
#include "intercept/process/handle_map.h"

namespace cupola::intercept {
namespace {

std::atomic<bool> is_kept_back{false};
HandleMap moved;  // CUstream -> priority that was asked for, negated, and so at least 1

}  // namespace

void KeepLevelBack() noexcept { is_kept_back.store(true); }

StreamLevels LevelsOfContext() noexcept {
  StreamLevels levels;
  const auto get_range =
      CUPOLA_CALL_REAL(cuCtxGetStreamPriorityRange, PFN_cuCtxGetStreamPriorityRange_v5050);
  if (get_range(&levels.least, &levels.greatest) != CUDA_SUCCESS) return {};
  return levels;
}

int LevelFor(int priority) noexcept {
  if (!is_kept_back.load(std::memory_order_relaxed)) return priority;
  const StreamLevels levels = LevelsOfContext();
  const bool is_the_one = levels.keeps_one_back() && priority == levels.helper();
  return is_the_one && priority < 0 ? priority - 1 : priority;  // plant: level_not_kept
}

void SetStreamLevel(CUstream stream, int asked, int made) noexcept {
  if (asked != made) {
    moved.Set(stream, static_cast<uint64_t>(-asked));
  } else if (is_kept_back.load(std::memory_order_relaxed)) {
    moved.Erase(stream);  // the entry of an earlier stream that ended with its context
  }
}

void ForgetStreamLevel(CUstream stream) noexcept {
  if (is_kept_back.load(std::memory_order_relaxed)) moved.Erase(stream);
}

void CorrectPriority(CUstream stream, int* priority) noexcept {
  if (!is_kept_back.load(std::memory_order_relaxed) || priority == nullptr) return;
  const uint64_t asked = moved.Find(stream, 0);
  if (asked != 0) *priority = -static_cast<int>(asked);
}

}  // namespace cupola::intercept
