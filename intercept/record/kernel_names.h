// Which kernel a CUfunction or CUkernel is: handle -> offset of its name in the records' name
// bytes. Filled by the hooks of get-function calls, else once by asking the driver; emptied at
// unload. KernelNameOf is lock-free when the handle is known; the rest takes a mutex. Thread-safe.
#pragma once

#include <cstdint>

namespace cupola::intercept {

/// Offset of the kernel's name, 0 if nobody knows it. `function` may be either kind of handle. The
/// first look-up of a handle that no hook saw asks the driver (cuFuncGetName, cuKernelGetName).
uint32_t KernelNameOf(const void* function) noexcept;

/// The name that the driver gives (cuFuncGetName, cuKernelGetName); null where it has none.
const char* DriversNameOf(const void* function) noexcept;

/// `function` was got from `owner` (a CUmodule or CUlibrary) under `name`.
void NameKernel(const void* function, const void* owner, const char* name) noexcept;

/// `function` was enumerated in `owner`: asks the driver for its name.
void NameEnumerated(const void* function, const void* owner) noexcept;

/// `alias` is another handle of the kernel `function` (cuKernelGetFunction).
void AliasKernel(const void* alias, const void* function) noexcept;

/// The module was loaded into `context`: it goes with it.
void NoteModule(const void* module, const void* context) noexcept;

/// The owner is about to be unloaded: its handles, and those of unknown owner, are forgotten.
void ForgetOwner(const void* owner) noexcept;

/// The context is about to be destroyed or reset: forgets the modules in it.
void ForgetContext(const void* context) noexcept;

void ResetKernelNamesAfterFork() noexcept;

}  // namespace cupola::intercept
