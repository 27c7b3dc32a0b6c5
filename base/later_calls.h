// The driver calls that Cupola makes for itself and that the oldest supported driver lacks. The library behind the door
// turns off what needs a call that the driver lacks, and says so; `cupola doctor` tells what is off on this machine.
// tests/preload/own_calls_test.py compares the table with the calls that intercept/ makes. Pure; any thread.
#pragma once

namespace cupola {

/// The oldest supported driver, as cuDriverGetVersion says it: CUDA 12.4.
inline constexpr int kOldestDriver = 12040;

/// A call that came after kOldestDriver.
struct LaterCall {
  const char* name;     ///< its export: "cuCtxRecordEvent"
  int since;            ///< the first driver that has it, as cuDriverGetVersion says it
  const char* without;  ///< what is off without it: the end of "the driver lacks <name>: ..."
};

inline constexpr LaterCall kLaterCalls[] = {
    // Asked before a module is loaded, whether the context's work ends by itself (intercept/tasks/context_rest.h).
    {"cuCtxRecordEvent", 12050, "launches do not become tasks, and none go out in batches"},
};

}  // namespace cupola
