#include "profiles/profile_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

namespace cupola::profiles {
namespace {

namespace fs = std::filesystem;
constexpr off_t kMostBytes = off_t{1} << 30;

Error IoError(const std::string& what, const std::string& path) {
  return MakeError(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                   fmt::format("{}: {}", what, std::strerror(errno)), {.file = path});
}

/// A file descriptor that closes itself.
class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

Result<std::string> ReadWhole(const std::string& path) {
  const File file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.fd() < 0) return IoError("cannot open the profile", path);
  struct stat facts;
  if (fstat(file.fd(), &facts) != 0) return IoError("cannot read the profile", path);
  if (!S_ISREG(facts.st_mode)) {
    return MakeError(ErrorCode::kIo, "not a regular file", {.file = path});
  }
  if (facts.st_size > kMostBytes) {
    return MakeError(ErrorCode::kExhausted, "a profile of more than 1 GB", {.file = path});
  }
  std::string text(static_cast<size_t>(facts.st_size), '\0');
  size_t got = 0;
  while (got < text.size()) {
    const ssize_t bytes = read(file.fd(), text.data() + got, text.size() - got);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return IoError("cannot read the profile", path);
    if (bytes == 0) break;
    got += static_cast<size_t>(bytes);
  }
  text.resize(got);
  return text;
}

bool WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t bytes = write(fd, text.data(), text.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return false;
    text.remove_prefix(static_cast<size_t>(bytes));
  }
  return true;
}

Status MakeFolderOf(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  std::error_code failure;
  if (!folder.empty()) fs::create_directories(folder, failure);
  if (!failure) return {};
  return MakeError(ErrorCode::kIo, "cannot make the folder: " + failure.message(),
                   {.file = folder.string()});
}

}  // namespace

Result<Profile> ReadProfile(const std::string& path) {
  const auto text = ReadWhole(path);
  if (!text) return text.error();
  return FromJson(*text, path);
}

Status WriteFileWhole(const std::string& path, std::string_view text) {
  if (Status made = MakeFolderOf(path); !made) return made;
  std::string temporary = path + ".XXXXXX";
  const File file(mkostemp(temporary.data(), O_CLOEXEC));
  if (file.fd() < 0) return IoError("cannot write", path);
  const bool written = WriteAll(file.fd(), text) && fchmod(file.fd(), 0644) == 0 &&
                       fsync(file.fd()) == 0 && rename(temporary.c_str(), path.c_str()) == 0;
  if (written) return {};
  Error error = IoError("cannot write", path);
  error.code = ErrorCode::kIo;
  unlink(temporary.c_str());
  return error;
}

Status CheckFolder(const std::string& folder) {
  const std::string path = folder + "/profile";
  if (Status made = MakeFolderOf(path); !made) return made;
  std::string temporary = path + ".XXXXXX";
  const File file(mkostemp(temporary.data(), O_CLOEXEC));
  if (file.fd() < 0) return IoError("cannot make a file in the folder", folder);
  unlink(temporary.c_str());
  return {};
}

Status CheckMerge(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  if (Status writable = CheckFolder(folder); !writable) {
    Error error = writable.error();
    error.where.file = path;
    return error;
  }
  const std::string lock_path = path + ".lock";
  const File lock(open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (lock.fd() < 0) return IoError("cannot lock", lock_path);
  struct stat facts {};
  if (stat(path.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode)) {
    return MakeError(ErrorCode::kIo, "is no file", Location{.file = path});
  }
  const auto there = ReadProfile(path);
  if (!there && there.error().code != ErrorCode::kNotFound) return there.error();
  return {};
}

Result<Profile> MergeIntoFile(const Profile& profile, const std::string& path) {
  if (Status made = MakeFolderOf(path); !made) return made.error();
  const std::string lock_path = path + ".lock";
  const File lock(open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (lock.fd() < 0 || flock(lock.fd(), LOCK_EX) != 0) return IoError("cannot lock", lock_path);
  Profile all;
  if (auto there = ReadProfile(path)) {
    all = std::move(there).value();
  } else if (there.error().code != ErrorCode::kNotFound) {
    return std::move(there).error();
  }
  if (Status merged = Merge(profile, &all); !merged) {
    Error error = merged.error();
    error.where.file = path;
    return error;
  }
  if (Status written = WriteFileWhole(path, ToJson(all)); !written) return written.error();
  return all;
}

}  // namespace cupola::profiles
