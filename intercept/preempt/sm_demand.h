// The SMs that a launch of this process needs, as it tells the board (sm_needs.h has the
// arithmetic). Any thread.
#pragma once

#include <cstdint>

namespace cupola::intercept {
struct LaunchFacts;
}

namespace cupola::intercept::preempt {

struct PreemptContext;

/// kAllSms where the process shares its context with nobody: one load. Else a look into a table;
/// the first launch of a kernel and block shape asks the driver, which may load the kernel, unless
/// it would have to wait for guarded launches that the launch itself need not wait for.
uint32_t SmsWanted(PreemptContext& context, const LaunchFacts& facts) noexcept;

/// Code was unloaded: a handle may now mean another kernel.
void ForgetSmNeeds() noexcept;

void ForgetSmNeedsAfterFork() noexcept;

}  // namespace cupola::intercept::preempt
