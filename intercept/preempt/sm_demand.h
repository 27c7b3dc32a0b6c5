// How many SMs a launch of this process needs, as the process tells the board (sm_needs.h has the
// arithmetic). The launch path asks when a launch begins or renews demand; module_events.cpp reports that
// code was unloaded. Any thread.
#pragma once

#include <cstdint>

namespace cupola::intercept {
struct Launch;
struct LaunchContext;
}  // namespace cupola::intercept

namespace cupola::intercept::preempt {

/// The number of SMs that the launch needs. If the process does not share its context (MPS) this is
/// kAllSms and costs one load. Otherwise it looks into a table; at the first launch of a kernel and
/// block shape it asks the driver, which may load the kernel. It does not ask, and returns kAllSms,
/// if it would have to wait for guarded launches for which the launch itself need not wait.
uint32_t SmsWanted(LaunchContext& context, const Launch& launch) noexcept;

/// Code was unloaded, so a handle may now mean another kernel: forgets all kernels.
void ForgetSmNeeds() noexcept;

void ForgetSmNeedsAfterFork() noexcept;

}  // namespace cupola::intercept::preempt
