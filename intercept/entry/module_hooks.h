// What the hooks of module_hooks.cpp keep, and a fork leaves of it.
#pragma once

namespace cupola::intercept {

void ResetModuleHooksAfterFork() noexcept;

}  // namespace cupola::intercept
