// The compile calls of NVRTC and nvJitLink that return a cubin: where `cupola build --watch` lives, the cubin and its PTX are
// kept for it (process/compiled_folder.h), since variants are built from PTX and the driver is given the cubin alone. A
// program gets our form of such a call when it looks it up by dlsym in a library of its own choice; of nvrtcGetCUBIN also
// when it is linked with NVRTC. Our forms make the library's own call, and return what it returned. Any thread.
#pragma once

namespace cupola::intercept {

/// Our form of the call `name`, whose own form `real` is; null: it is none of those calls, or there are too many versions
/// of the library in the process.
void* CompileCall(const char* name, void* real) noexcept;

/// Whether a call of that name may be one of them.
bool MayBeCompileCall(const char* name) noexcept;

}  // namespace cupola::intercept
