// For start.cpp: resets what the hooks of module_hooks.cpp keep, in the child after a fork.
#pragma once

namespace cupola::intercept {

void ResetModuleHooksAfterFork() noexcept;

}  // namespace cupola::intercept
