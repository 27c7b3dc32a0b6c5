// The path of the file that a process executes, as rules name it. libc only, no allocation; any thread.
#pragma once

#include <cstddef>

namespace cupola::sched {

/// Writes the path of the file that the process or thread of `proc_folder` ("/proc/self", "/proc/7", "/proc/7/task/9")
/// executes to `path`, NUL-terminated and cut where it is too long. Where the file was removed or replaced meanwhile,
/// this is the path that it had: the kernel's " (deleted)" behind it (proc(5)) is taken off, and stays only where it
/// is a part of the name. False: the path may not be read, or there is no such process.
bool ExecutablePath(const char* proc_folder, char* path, size_t size);

}  // namespace cupola::sched
