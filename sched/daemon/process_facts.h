// What the daemon learns of a client's process from the system, not from the client. Plain functions that read /proc
// and the list of users; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace cupola::sched {

/// When the process was started, in clock ticks since boot (proc(5), stat field 22). Together with the pid this
/// identifies a process for good. Nothing: there is no such process, it is a zombie, or it cannot be looked at (then
/// `reason` is an errno).
std::optional<uint64_t> ProcessStart(uint32_t pid, int* reason = nullptr);

/// Whether the process of this pid and start time has ended. A process that cannot be looked at, as when the file
/// descriptors are used up, counts as alive.
bool HasEnded(uint32_t pid, uint64_t start);

/// The user whose rights the process has, which is the effective one. Nothing: there is no such process.
std::optional<uint32_t> ProcessUser(uint32_t pid);

/// The path of the file that the process executes (executable_path.h); "" where the daemon may not know it.
std::string ProcessExecutable(uint32_t pid);

/// The name of the user; the number where the user has no name or the system's list of users does not answer within
/// half a second. An answer is kept for a minute.
std::string UserName(uint32_t uid);

struct FoundUser {
  bool was_answered = false;    ///< false: the system's list of users does not answer now
  std::optional<uint32_t> uid;  ///< nothing: there is no such name
};
/// The user with this name, or with this number. A number needs no name.
FoundUser FindUser(const std::string& user);

}  // namespace cupola::sched
