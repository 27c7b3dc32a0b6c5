// Finds the file of the real CUDA driver, without loading anything. Any thread; not for the launch
// path.
#pragma once

#include <cstddef>

namespace cupola::intercept {

inline constexpr size_t kPathBytes = 4096;

/// Calls `use(path, data)` with the absolute path of each file that may be the driver, best first,
/// until it returns true. The order is: CUPOLA_DRIVER (an absolute path; if it is set, nothing else is
/// tried), the folders of LD_LIBRARY_PATH, `asked_path` (a path by which the program asked for the
/// driver, or null), the dynamic linker's cache, the usual folders. Files that are not x86-64 ELF, and
/// the file given to LeaveOutDriver, are left out. Returns whether `use` accepted one.
bool ForEachDriver(const char* asked_path, bool (*use)(const char* path, void* data), void* data);

/// `path` is never a candidate: it is the library that takes the driver's place. The pointer is kept.
void LeaveOutDriver(const char* path);

/// Whether both paths lead to one file that exists.
bool IsSameFile(const char* a, const char* b);

/// Whether there is any file that may be the driver.
bool HasDriver(const char* asked_path);

}  // namespace cupola::intercept
