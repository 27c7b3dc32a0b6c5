// Finds the file of the real CUDA driver, without loading anything. Thread-safe; off the launch
// path.
#pragma once

#include <cstddef>

namespace cupola::intercept {

inline constexpr size_t kPathBytes = 4096;

/// Calls `use(path, data)` with the absolute path of each file that may be the driver, best first,
/// until it returns true. Order: CUPOLA_DRIVER (an absolute path; when set, nothing else), the
/// folders of LD_LIBRARY_PATH, `asked_path` (a path by which the program asked for the driver, or
/// null), the dynamic linker's cache, the usual folders. Files that are not x86-64 ELF, and the
/// file given to LeaveOutDriver, are left out. Returns whether `use` accepted one.
bool ForEachDriver(const char* asked_path, bool (*use)(const char* path, void* data), void* data);

/// That file is never a candidate: it is the library that takes the driver's place. `path` is kept, not copied.
void LeaveOutDriver(const char* path);

/// Whether both paths lead to one file that exists.
bool IsSameFile(const char* a, const char* b);

/// Whether there is any candidate.
bool HasDriver(const char* asked_path);

}  // namespace cupola::intercept
