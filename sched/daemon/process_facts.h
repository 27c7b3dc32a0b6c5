// What the daemon knows of a client's process from the system, not from the client. Reads /proc; any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace cupola::sched {

/// When the process was started, in clock ticks since boot (proc(5), stat field 22): with its number
/// it names a process for good. Nothing: there is none, or it is a zombie, or it cannot be looked at (`reason` is an
/// errno).
std::optional<uint64_t> ProcessStart(uint32_t pid, int* reason = nullptr);

/// Whether the process of that number that was started then is no more. One that cannot be looked at
/// (the descriptors are used up) is taken to live.
bool HasEnded(uint32_t pid, uint64_t start);

/// The user whose rights the process has: the effective one. Nothing: there is no such process.
std::optional<uint32_t> ProcessUser(uint32_t pid);

/// The path of the file that the process executes (executable_path.h), "" where it may not be known.
std::string ProcessExecutable(uint32_t pid);

/// The name of the user, its number where it has none or the system's list of users does not answer within half a
/// second. What was answered holds for a minute.
std::string UserName(uint32_t uid);

struct FoundUser {
  bool was_answered = false;    ///< false: who knows the users does not answer now
  std::optional<uint32_t> uid;  ///< nothing: there is no such name
};
/// The user with this name, or with this number, which needs no name.
FoundUser FindUser(const std::string& user);

}  // namespace cupola::sched
