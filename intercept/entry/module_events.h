// Tells preemption and tasks about modules, libraries, kernels and contexts. The hooks of the calls
// concerned (module_hooks.cpp, context_hooks.cpp) call these, inside a HookScope, on the thread that makes
// the call. They do nothing in a process in which both preemption and tasks are off. Any thread. Several of
// them take mutexes and may ask the driver, and so are not for the launch path.
#pragma once

#include <cuda.h>

#include "intercept/images/image_file.h"

namespace cupola::intercept {

struct LaunchContext;

/// Called after a module was loaded into `context` from `image`, or a library from `code`.
void OnModuleLoaded(CUmodule module, const void* image, CUcontext context) noexcept;
void OnLibraryLoaded(CUlibrary library, const void* code) noexcept;

/// LookAtImageFile is called before the driver reads the file `path`; one of the others is called
/// after it has loaded a module or library from it, with what LookAtImageFile returned. If the file was
/// changed between, no variants are used for it.
FileFacts LookAtImageFile(const char* path) noexcept;
void OnModuleFileLoaded(CUmodule module, const char* path, const FileFacts& before,
                    CUcontext context) noexcept;
void OnLibraryFileLoaded(CUlibrary library, const char* path, const FileFacts& before) noexcept;

/// Called when the program has got a CUfunction or CUkernel: from its module or library `owner`, by
/// name or by enumeration, or as another handle of a kernel that it had.
void OnKernelGot(const void* function, const void* owner, const char* name) noexcept;
void OnKernelEnumerated(const void* function, const void* owner) noexcept;
void OnKernelAliasGot(const void* alias, const void* function) noexcept;

/// Called when the program has set an attribute of a kernel: keeps the limit of dynamic shared memory, and
/// that the kernel has clusters (Variant::shared_below).
void OnKernelAttributeSet(const void* function, CUfunction_attribute attribute, int value) noexcept;

/// Called before a module or library is unloaded. Its guarded launches are complete, because the
/// program's call waited for them (calls/).
void OnUnloading(const void* owner) noexcept;
/// Called before a context may end; its guarded launches are complete, too. Until OnContextEnded or
/// OnContextKept, one of which follows, its launches go to the driver as the program makes them. The
/// images of the context's modules are forgotten for good.
void OnContextEnding(CUcontext context) noexcept;
/// Called when it is certain that the context ends or has ended. Returns the context's LaunchContext, or
/// null; the caller passes it to OnContextGone.
[[nodiscard]] LaunchContext* OnContextEnded(CUcontext context) noexcept;
/// Called when the driver has ended the context and let its memory go: `kept` may serve another context.
void OnContextGone(LaunchContext* kept) noexcept;
/// Called instead of OnContextEnded when the context goes on, as a primary context with other users
/// does. Launches of modules that it had before stay plain.
void OnContextKept(CUcontext context) noexcept;

}  // namespace cupola::intercept
