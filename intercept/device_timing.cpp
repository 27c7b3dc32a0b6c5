#include "intercept/device_timing.h"
namespace cupola::intercept {
std::atomic<bool> timing_on{false};
void StartTiming() noexcept {}
TimedLaunch BeginTimed(uint64_t, CUstream, bool) noexcept { return {}; }
bool EndTimed(const TimedLaunch&, CUstream, bool, const LaunchRecord&) noexcept { return false; }
void FlushTimingOf(CUcontext) noexcept {}
void FlushTimingAtExit() noexcept {}
void ResetTimingAfterFork() noexcept {}
}  // namespace cupola::intercept
