#include "sched/daemon/process_facts.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sched/board/executable_path.h"
#include "sched/daemon/within.h"

namespace cupola::sched {

namespace {

constexpr std::chrono::milliseconds kNameTime(500);
constexpr std::chrono::seconds kNameHolds(60), kNumberHolds(5);

/// The fields of /proc/PID/stat (proc(5)) that are needed here.
struct StatFile {
  int error = 0;   ///< errno of reading the file; 0 = it was read
  char state = 0;  ///< of the main thread
  uint64_t threads = 0;
  uint64_t start = 0;

  bool HasEnded() const {
    if (error != 0) return error == ENOENT || error == ESRCH;
    // A process whose main thread has ended before its other threads shows as a zombie too, and has not ended.
    return (state == 'Z' || state == 'X') && threads <= 1;
  }
};

StatFile ReadStat(uint32_t pid) {
  StatFile stat;
  std::array<char, 4096> text{};
  const int fd = open(("/proc/" + std::to_string(pid) + "/stat").c_str(), O_RDONLY | O_CLOEXEC);
  const ssize_t size = fd >= 0 ? read(fd, text.data(), text.size() - 1) : -1;
  if (size < 0) stat.error = errno;
  if (fd >= 0) close(fd);
  if (size < 0) return stat;
  // The second field is the program's name in parentheses, and may hold any characters.
  const char* end = std::strrchr(text.data(), ')');
  std::istringstream rest(end != nullptr ? end + 1 : "");
  std::string field;
  for (int number = 3; number <= 22 && rest >> field; ++number) {
    if (number == 3) stat.state = field[0];
    if (number == 20) stat.threads = std::strtoull(field.c_str(), nullptr, 10);
    if (number == 22) stat.start = std::strtoull(field.c_str(), nullptr, 10);
  }
  if (!rest) stat.error = ESRCH;  // the file is empty where the process ends meanwhile
  return stat;
}

std::string LookUpUserName(uint32_t uid) {
  std::array<char, 4096> buffer{};
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr) {
    return found->pw_name;
  }
  return std::to_string(uid);
}

std::string ExecutableOf(const std::string& folder) {
  std::array<char, PATH_MAX> path{};
  return ExecutablePath(folder.c_str(), path.data(), path.size()) ? std::string(path.data()) : std::string();
}

}  // namespace

std::optional<uint64_t> ProcessStart(uint32_t pid, int* reason) {
  const StatFile stat = ReadStat(pid);
  if (reason != nullptr) *reason = stat.error;
  if (stat.error != 0 || stat.HasEnded()) return std::nullopt;
  return stat.start;
}

bool HasEnded(uint32_t pid, uint64_t start) {
  const StatFile stat = ReadStat(pid);
  return stat.HasEnded() || (stat.error == 0 && stat.start != start);
}

// The folder /proc/PID belongs to the effective user, even where some of its files belong to root (proc(5)).
std::optional<uint32_t> ProcessUser(uint32_t pid) {
  struct stat facts {};
  if (stat(("/proc/" + std::to_string(pid)).c_str(), &facts) != 0) return std::nullopt;
  return facts.st_uid;
}

std::string ProcessExecutable(uint32_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  std::string path = ExecutableOf(folder);
  if (!path.empty()) return path;
  // Where the main thread has ended, only the other threads have the path.
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder + "/task", error), end;
       !error && at != end && path.empty(); at.increment(error)) {
    path = ExecutableOf(at->path().string());
  }
  return path;
}

std::string UserName(uint32_t uid) {
  struct Known {
    std::string name;
    std::chrono::steady_clock::time_point until;
  };
  static std::mutex mutex;
  static std::map<uint32_t, Known> known;  // few entries: the users of one machine
  const auto now = std::chrono::steady_clock::now();
  {
    const std::lock_guard lock(mutex);
    const auto found = known.find(uid);
    if (found != known.end() && now < found->second.until) return found->second.name;
  }
  // A directory of users on the network may not answer, hence the time limit.
  const std::optional<std::string> name = RunWithin(kNameTime, [uid] { return LookUpUserName(uid); });
  const std::string said = name.value_or(std::to_string(uid));
  const std::lock_guard lock(mutex);
  known[uid] = {said, now + (name ? kNameHolds : kNumberHolds)};
  return said;
}

FoundUser FindUser(const std::string& user) {
  const auto find = [user]() -> std::optional<uint32_t> {
    std::array<char, 4096> buffer{};
    passwd entry{};
    passwd* found = nullptr;
    if (getpwnam_r(user.c_str(), &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr) {
      return found->pw_uid;
    }
    return std::nullopt;
  };
  uint32_t number = 0;
  const auto read = std::from_chars(user.data(), user.data() + user.size(), number);
  const bool is_number = read.ec == std::errc() && read.ptr == user.data() + user.size();
  const std::optional<std::optional<uint32_t>> found = RunWithin(kNameTime, find);
  const std::optional<uint32_t> by_name = found.value_or(std::nullopt);
  return {.was_answered = found.has_value() || is_number,
          .uid = by_name || !is_number ? by_name : std::optional(number)};
}

}  // namespace cupola::sched
