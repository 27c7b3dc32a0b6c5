// Priority levels of streams. The level next to the lowest is kept back for helper streams, on which
// resumes run: streams of one level may share a hardware queue, and a resume behind the very guard
// that waits for it would never run. A stream of the program that asks for that level gets the next
// higher one, and queries of its priority return what the program asked for. Any thread.
#pragma once

#include <cuda.h>

namespace cupola::intercept {

/// From now on one level is kept back. Before that streams get the level that the program asks for.
void KeepLevelBack() noexcept;

/// The priority range of a context; least >= greatest (cuCtxGetStreamPriorityRange). Both 0: the
/// device has no levels.
struct StreamLevels {
  int least = 0;     ///< the lowest priority, which is the greatest number
  int greatest = 0;  ///< the highest priority
  /// The level of helper streams.
  int helper() const noexcept { return least > greatest ? least - 1 : least; }
  /// Whether a level can be kept back: with only two levels none can.
  bool keeps_one_back() const noexcept { return helper() > greatest; }
};
/// The range of the current context.
StreamLevels LevelsOfContext() noexcept;

/// The priority to ask the driver for when the program asks for `priority`. In a process that takes
/// part in preemption it asks the driver for the range, which does not wait.
int LevelFor(int priority) noexcept;

/// A stream was made with LevelFor(asked) = `made`.
void SetStreamLevel(CUstream stream, int asked, int made) noexcept;
/// The stream is about to be destroyed.
void ForgetStreamLevel(CUstream stream) noexcept;

/// If the stream is on another level than the program asked for, writes what it asked for.
void CorrectPriority(CUstream stream, int* priority) noexcept;

}  // namespace cupola::intercept
