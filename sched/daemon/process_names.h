// The names by which rules may name a process: the file that it executes, the link or script by which it was started,
// its control group and its container. The functions read /proc, but nothing there that lies in the process's memory: a
// reader of that waits for the process (its command line may lie in pages that never come), and the daemon waits for no
// process. Any thread.
#pragma once

#include <cstdint>
#include <string>

namespace cupola::sched {

struct ProcessNames {
  std::string executable;  ///< the file that it executes, links followed; "" where the daemon may not know it
  std::string started_as;  ///< the path by which it was started, which may be a link or a script; "" = unknown
  std::string script;      ///< of an interpreter: the first word of its command line that is not an option; "" = none
  std::string cgroup;      ///< path of its control group (cgroups(7)); "" = unknown
  std::string container;   ///< number of its container (64 hexadecimal digits); "" = it is in none
};

/// What a process says of how it was started. "" = it says nothing.
struct StartWords {
  std::string started_as;    ///< AT_EXECFN (getauxval(3))
  std::string folder;        ///< its working directory
  std::string command_line;  ///< each word with a NUL at its end
};

/// The names of a process. What the system knows is taken from the system, the rest from the process's own words. Where
/// the process does not say how it was started, the first word of its command line counts, if that is a path. Relative
/// paths are made absolute by the process's working directory.
ProcessNames NamesOf(uint32_t pid, const StartWords& words);

/// The last part of a path.
std::string FileName(const std::string& path);
/// The control group's path in the text of /proc/PID/cgroup: that of version 2, or, where that is the root, the first
/// of version 1 that is not the root.
std::string ControlGroupIn(const std::string& text);
/// The number of the container to which a control group belongs; "" = none. Recognises the names that docker, podman,
/// containerd and CRI-O use.
std::string ContainerIn(const std::string& cgroup);
/// The script that a program runs, by its command line; "" where the program is no known interpreter or runs no script.
/// For a module (python -m a.b) it is the module's name.
std::string ScriptIn(const std::string& executable, const std::string& command_line);

}  // namespace cupola::sched
