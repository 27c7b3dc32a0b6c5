// Priority levels of streams. One, next to the lowest, is kept back for the helper streams that
// resumes run on: streams of one level may share a hardware queue, and a resume behind a guard that
// waits for it would never run. A program's stream that asks for that level comes on the next higher
// one, and says that it has what was asked for. Thread-safe.
#pragma once

#include <cuda.h>

namespace cupola::intercept {

/// From now on one level is kept back. Until then streams get the level that the program asks for.
void KeepLevelBack() noexcept;

/// Of the current context; least >= greatest (cuCtxGetStreamPriorityRange). Both 0: no levels.
struct StreamLevels {
  int least = 0, greatest = 0;
  int helper() const noexcept { return least > greatest ? least - 1 : least; }
  /// With two levels only none can be kept back.
  bool keeps_one_back() const noexcept { return helper() > greatest; }
};
StreamLevels LevelsOfContext() noexcept;

/// What to ask the driver for where the program asks for `priority`. Asks the driver for the range,
/// which is pure, in a process that takes part.
int LevelFor(int priority) noexcept;

/// A stream was made with LevelFor(asked) = `made`; it is about to be destroyed.
void NoteStreamLevel(CUstream stream, int asked, int made) noexcept;
void ForgetStreamLevel(CUstream stream) noexcept;

/// Writes what the program asked for where the stream is on another level.
void CorrectPriority(CUstream stream, int* priority) noexcept;

}  // namespace cupola::intercept
