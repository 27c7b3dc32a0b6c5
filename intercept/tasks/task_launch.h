// A launch of the program on its way to become a task. docs/launches-as-tasks.md.
#pragma once

#include <cuda.h>

namespace cupola::intercept {
struct LaunchFacts;
struct LaunchDetails;
}  // namespace cupola::intercept

namespace cupola::intercept::tasks {

/// Puts the launch into the TaskTable, and *result is what the program is to be told. False: it is
/// to go out as the program made it; tasks that come before it are then looked after, and why is
/// counted. Any thread; no allocation, system call or lock but the stream's once all is known.
bool TryTask(const LaunchFacts& facts, const LaunchDetails& details, CUresult* result) noexcept;

/// Whether launches and copies follow each other so closely, and so many, that tasks pay; counts
/// one more.
bool IsInRow() noexcept;

}  // namespace cupola::intercept::tasks
