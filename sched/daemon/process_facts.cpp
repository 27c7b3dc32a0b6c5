#include "sched/daemon/process_facts.h"

#include <array>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include <limits.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cupola::sched {

std::optional<uint64_t> ProcessStart(uint32_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;  // of a process that ends meanwhile reading fails; an iterator would throw
  std::getline(file, text, '\0');
  // The second field is the name in parentheses, and may hold anything.
  const size_t end = text.rfind(')');
  if (end == std::string::npos) return std::nullopt;
  std::istringstream rest(text.substr(end + 1));
  std::string field;
  for (int number = 3; rest >> field; ++number) {
    if (number == 3 && (field == "Z" || field == "X")) return std::nullopt;
    if (number == 22) return std::strtoull(field.c_str(), nullptr, 10);
  }
  return std::nullopt;
}

// The folder is the effective user's, whatever of its files is root's (proc(5)).
std::optional<uint32_t> ProcessUser(uint32_t pid) {
  struct stat facts {};
  if (stat(("/proc/" + std::to_string(pid)).c_str(), &facts) != 0) return std::nullopt;
  return facts.st_uid;
}

std::string ProcessExecutable(uint32_t pid) {
  std::array<char, PATH_MAX> path{};
  const std::string link = "/proc/" + std::to_string(pid) + "/exe";
  const ssize_t size = readlink(link.c_str(), path.data(), path.size());
  return size > 0 ? std::string(path.data(), static_cast<size_t>(size)) : std::string();
}

std::string UserName(uint32_t uid) {
  std::array<char, 4096> buffer{};
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr) {
    return found->pw_name;
  }
  return std::to_string(uid);
}

}  // namespace cupola::sched
