// Says once, when the process starts with Cupola, what is wrong with its settings (base/settings/problems.h): each value
// that is not allowed, as a warning, and each variable that is no setting, at CUPOLA_LOG=info. `cupola run` says the
// latter on its own standard error, so that a tree of processes does not say it a hundred times.
#pragma once

namespace cupola::intercept {

/// Called by entry/start.cpp, once, on the thread that opens the driver. It reads the environment, so it is not for the
/// launch path.
void SayWrongSettings() noexcept;

}  // namespace cupola::intercept
