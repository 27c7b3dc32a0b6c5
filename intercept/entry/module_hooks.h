// What the hooks of calls that load and unload modules (module_hooks.cpp) keep in the process, for start.cpp.
#pragma once

namespace cupola::intercept {

/// Called in the child after a fork, on its only thread: forgets what the parent's hooks kept.
void ResetModuleHooksAfterFork() noexcept;

}  // namespace cupola::intercept
