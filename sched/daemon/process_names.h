// By what rules may name a process: the file that it executes, the link or script by which it was started, its control
// group and container. Reads /proc, but nothing there that is the process's memory: who reads that waits for the
// process (its command line may lie in pages that never come), and the daemon waits for nobody. Any thread.
#pragma once

#include <cstdint>
#include <string>

namespace cupola::sched {

struct ProcessNames {
  std::string executable;  ///< the file that it executes, links followed; "" where it may not be known
  std::string started_as;  ///< the path by which it was started: a link, or a script; "" = unknown
  std::string script;      ///< of an interpreter: the first word of its command line that is no option; "" = none
  std::string cgroup;      ///< the path of its control group (cgroups(7)); "" = unknown
  std::string container;   ///< the number (64 hexadecimal digits) of its container; "" = in none
};

/// What a process says of how it was started. "" = nothing.
struct StartWords {
  std::string started_as;    ///< AT_EXECFN (getauxval(3))
  std::string folder;        ///< that it is in
  std::string command_line;  ///< each word with a NUL behind it
};

/// The system's word for what the system knows, the process's own for the rest. Where it does not say by what it was
/// started, the first word of its command line counts, where that is a path. Paths are made absolute by its folder.
ProcessNames NamesOf(uint32_t pid, const StartWords& words);

/// The last word of a path.
std::string FileName(const std::string& path);
/// The path in the text of /proc/PID/cgroup: of version 2, or where that is the root the first of version 1 that is
/// not.
std::string ControlGroupIn(const std::string& text);
/// The number of the container whose control group this is, "" = none: as docker, podman, containerd and CRI-O call
/// theirs.
std::string ContainerIn(const std::string& cgroup);
/// The script that a program runs, by its command line: "" where the program is no interpreter that is known, or runs
/// none. A module (python -m a.b) is its name.
std::string ScriptIn(const std::string& executable, const std::string& command_line);

}  // namespace cupola::sched
