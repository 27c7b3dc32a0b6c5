// The path of the file that a process executes, in the form in which rules name it. Uses only libc and does not
// allocate; any thread.
#pragma once

#include <cstddef>

namespace cupola::sched {

/// Writes the path of the file that a process or thread executes to `path`, NUL-terminated and cut where it is too
/// long. `proc_folder` names the process or thread: "/proc/self", "/proc/7" or "/proc/7/task/9". Where the file was
/// removed or replaced meanwhile, the path is the one that it had: the " (deleted)" that the kernel appends (proc(5))
/// is taken off, and stays only where it is a part of the name. Returns false where the path may not be read or there
/// is no such process.
bool ExecutablePath(const char* proc_folder, char* path, size_t size);

}  // namespace cupola::sched
