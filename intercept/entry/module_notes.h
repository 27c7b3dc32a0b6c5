// What preemption wants to know of modules, libraries, kernels and contexts: called by the hooks of
// those calls, inside a hook's scope. Nothing happens in a process that takes no part. Any thread.
#pragma once

#include <cuda.h>

#include "intercept/images/image_file.h"

namespace cupola::intercept {

namespace preempt {
struct PreemptContext;
}

/// A module was loaded into `context` from `image`, a library from `code`.
void NoteModuleLoaded(CUmodule module, const void* image, CUcontext context) noexcept;
void NoteLibraryLoaded(CUlibrary library, const void* code) noexcept;

/// The driver is about to read the file `path`; then, it loaded a module or library from it.
FileFacts LookAtImageFile(const char* path) noexcept;
void NoteModuleFile(CUmodule module, const char* path, const FileFacts& before,
                    CUcontext context) noexcept;
void NoteLibraryFile(CUlibrary library, const char* path, const FileFacts& before) noexcept;

/// A CUfunction or CUkernel was got from its owner, by name or by enumeration, or as another
/// handle.
void NoteKernelGot(const void* function, const void* owner, const char* name) noexcept;
void NoteKernelEnumerated(const void* function, const void* owner) noexcept;
void NoteAliasGot(const void* alias, const void* function) noexcept;

/// The program has set an attribute of a kernel.
void NoteLimit(const void* function, CUfunction_attribute attribute, int value) noexcept;

/// A module or library is about to be unloaded, a context may be about to end; its guarded launches
/// are complete (the call waited for them).
void NoteUnloading(const void* owner) noexcept;
void NoteContextEnding(CUcontext context) noexcept;
/// After that: the context has ended, or surely will; it did not, being a primary context with
/// other users.
[[nodiscard]] preempt::PreemptContext* NoteContextEnded(CUcontext context) noexcept;
/// After that: the driver has ended it; with what NoteContextEnded returned.
void NoteContextGone(preempt::PreemptContext* kept) noexcept;
void NoteContextGoesOn(CUcontext context) noexcept;

}  // namespace cupola::intercept
