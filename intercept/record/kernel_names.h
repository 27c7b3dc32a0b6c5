// Kernel names for records: maps a CUfunction or CUkernel to the offset of its name in the records'
// name bytes. The hooks of get-function calls fill the map; for other handles the driver is asked
// once. Handles are forgotten at unload. KernelNameOf is lock-free when the handle is known; the
// other functions take a mutex. Any thread.
#pragma once

#include <cstdint>

namespace cupola::intercept {

/// The offset of the kernel's name; 0 if it is not known. `function` may be either kind of handle.
/// The first look-up of a handle that no hook saw asks the driver (cuFuncGetName, cuKernelGetName).
uint32_t KernelNameOf(const void* function) noexcept;

/// The name that the driver gives (cuFuncGetName, cuKernelGetName); null if it gives none.
const char* DriversNameOf(const void* function) noexcept;

/// The program got `function` from `owner` (a CUmodule or CUlibrary) under `name`.
void NameKernel(const void* function, const void* owner, const char* name) noexcept;

/// `function` was enumerated in `owner`: asks the driver for its name.
void NameEnumerated(const void* function, const void* owner) noexcept;

/// `alias` is another handle of the kernel `function` (cuKernelGetFunction).
void AliasKernel(const void* alias, const void* function) noexcept;

/// The module was loaded into `context`, and ends with it.
void OnModuleOfNames(const void* module, const void* context) noexcept;

/// The owner is about to be unloaded: forgets its handles, and those whose owner is not known.
void ForgetOwner(const void* owner) noexcept;

/// The context is about to be destroyed or reset: forgets the modules in it.
void ForgetContext(const void* context) noexcept;

void ResetKernelNamesAfterFork() noexcept;

}  // namespace cupola::intercept
