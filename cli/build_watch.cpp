#include "cli/build_watch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <utility>

#include "cli/commands.h"
#include "cli/end_signals.h"
#include "device/compiler/build/image_choice.h"

namespace cupola {
namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLeastPause{300};
// Looking takes at most this part of the time, however many files there are.
constexpr int kPauseForLook = 20;

/// What was seen of a file: another size or time is another file.
struct Seen {
  uint64_t bytes = 0;
  int64_t time_ns = 0;
  auto operator<=>(const Seen&) const = default;
};

Seen LookAt(const std::string& path) {
  struct stat facts {};
  if (stat(path.c_str(), &facts) != 0) return {};
  return {static_cast<uint64_t>(facts.st_size), int64_t{facts.st_mtim.tv_sec} * 1'000'000'000 + facts.st_mtim.tv_nsec};
}

/// The folder `compiled` of a store. While one of these lives, programs keep there what they compile.
class CompiledFolder {
 public:
  static Result<CompiledFolder> Open(const std::string& store) {
    CompiledFolder folder(store + "/compiled");
    if (mkdir(folder.path_.c_str(), 0700) != 0 && errno != EEXIST) return folder.Failed(ErrorCode::kIo, strerror(errno));
    folder.fd_ = open((folder.path_ + "/watched").c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (folder.fd_ < 0) return folder.Failed(ErrorCode::kIo, strerror(errno));
    if (flock(folder.fd_, LOCK_EX | LOCK_NB) == 0) return folder;
    return folder.Failed(ErrorCode::kInvalidArgument, "another `cupola build --watch` watches for this store");
  }
  CompiledFolder(CompiledFolder&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}
  CompiledFolder& operator=(CompiledFolder&&) = delete;
  ~CompiledFolder() {
    if (fd_ >= 0) close(fd_);
  }

  /// Images that are there whole: cubins with their PTX, and PTX by itself.
  std::vector<std::string> Images() const {
    std::vector<std::string> found = CubinsBelow(path_);
    std::error_code error;
    for (fs::directory_iterator at(path_, error), end; !error && at != end; at.increment(error)) {
      const std::string path = at->path().string();
      if (path.ends_with(".image.ptx")) found.push_back(path);
    }
    return found;
  }

  /// Removes an image that was built, with the PTX beside it.
  static void Remove(const std::string& image) {
    const std::string beside = build::PtxBeside(image);
    unlink(image.c_str());
    if (!beside.empty()) unlink(beside.c_str());
  }

 private:
  explicit CompiledFolder(std::string path) : path_(std::move(path)) {}
  Error Failed(ErrorCode code, const char* why) const { return MakeError(code, why, Location{.file = path_}); }

  std::string path_;
  int fd_ = -1;  ///< of the file `watched`, whose lock is held
};

// Returns whether the command is to end.
bool Pause(const EndSignals& signals, std::chrono::nanoseconds length) {
  pollfd ended{signals.fd(), POLLIN, 0};
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(length);
  return poll(&ended, 1, static_cast<int>(ms.count())) > 0;
}

std::string HomeOf(const passwd* user) {
  const char* const home = getenv("HOME");
  return home != nullptr ? home : user != nullptr ? user->pw_dir : "";
}

}  // namespace

std::vector<std::string> CubinsBelow(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code error;
  const auto options = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator at(folder, options, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    const std::string path = at->path().string();
    const bool is_cubin = at->path().extension() == ".cubin" && at->is_regular_file(ignored);
    if (is_cubin && !build::PtxBeside(path).empty()) found.push_back(path);
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<std::string> CompileCaches() {
  const passwd* const user = getpwuid(geteuid());
  const char* const triton = getenv("TRITON_CACHE_DIR");
  const char* const inductor = getenv("TORCHINDUCTOR_CACHE_DIR");
  const char* const temporary = getenv("TMPDIR");
  std::vector<std::string> caches = {triton != nullptr ? triton : HomeOf(user) + "/.triton/cache"};
  if (inductor != nullptr) {
    caches.push_back(inductor);
  } else if (user != nullptr) {
    caches.push_back(std::string(temporary != nullptr ? temporary : "/tmp") + "/torchinductor_" + user->pw_name);
  }
  return caches;
}

Status WatchFolders(const std::string& store, const std::vector<std::string>& folders, const BuildSome& build) {
  const EndSignals signals;
  const Result<CompiledFolder> compiled = CompiledFolder::Open(store);
  if (!compiled) return compiled.error();
  setpriority(PRIO_PROCESS, 0, 19);
  for (const std::string& folder : folders) fmt::print("watching {}\n", Printable(folder));
  fmt::print("watching what programs compile, for {}\n", Printable(store));
  std::fflush(stdout);
  std::map<std::string, Seen> built;
  for (;;) {
    const auto begin = steady_clock::now();
    const std::vector<std::string> own = compiled->Images();
    std::vector<std::string> found = own;
    for (const std::string& folder : folders) {
      for (std::string& cubin : CubinsBelow(folder)) found.push_back(std::move(cubin));
    }
    std::erase_if(found, [&](const std::string& path) {
      const auto [known, is_new] = built.try_emplace(path);
      const Seen before = std::exchange(known->second, LookAt(path));
      return !is_new && before == known->second;
    });
    const auto look = steady_clock::now() - begin;
    if (!found.empty()) build(found);
    for (const std::string& image : own) {
      CompiledFolder::Remove(image);
      built.erase(image);
    }
    if (Pause(signals, std::max<std::chrono::nanoseconds>(kLeastPause, look * kPauseForLook))) return {};
  }
}

}  // namespace cupola
