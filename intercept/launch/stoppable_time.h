// How much of this process's time on its GPU could be stopped for others: what its launches are expected to have taken, by
// where they can be stopped. Counted on the board (for `cupola top`) and for the words at exit; plain launches only while
// others may ask the process to yield. Any thread.
#pragma once

#include <cstdint>

namespace cupola::intercept {

class GpuBoard;

/// Adds time that launches with a preemptible variant had the GPU, as they end.
void CountStopsAtBlocks(GpuBoard& gpu, uint64_t ns) noexcept;
/// Adds a launch of `ns` that stops between kernels: a plain kernel, or a graph in pieces.
void CountStopsBetween(GpuBoard& gpu, uint64_t ns) noexcept;
/// Adds a launch of `ns` that has a gate before it and none within. `why`, a static text, says why.
void CountStopsNot(GpuBoard& gpu, uint64_t ns, const char* why) noexcept;

/// From exit(): logs the parts; as a warning where a quarter of a second or more, and a quarter of the time, cannot be
/// stopped.
void SayStoppableTime() noexcept;

}  // namespace cupola::intercept
