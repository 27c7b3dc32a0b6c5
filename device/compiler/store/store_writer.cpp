#include "device/compiler/store/store_writer.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

namespace cupola::store {
namespace {

namespace fs = std::filesystem;

Error IoError(const std::string& file, int error) {
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  return MakeError(full ? ErrorCode::kExhausted : ErrorCode::kIo, std::strerror(error),
                   Location{.file = file});
}

// Makes the folder and its missing parents, all of them with mode 0700.
Status MakeFolders(const std::string& folder) {
  for (size_t end = folder.find('/', 1);; end = folder.find('/', end + 1)) {
    const std::string part = folder.substr(0, end);
    if (mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) return IoError(part, errno);
    if (end == std::string::npos) return {};
  }
}

Status WriteAll(int fd, std::span<const std::byte> bytes, const std::string& file) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return IoError(file, written < 0 ? errno : ENOSPC);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
}

// Puts a folder's entries on disk. EINVAL: its file system cannot do that, which is no error.
Status SyncFolder(const std::string& folder) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return IoError(folder, errno);
  const int result = fsync(fd);
  const int error = errno;
  close(fd);
  if (result != 0 && error != EINVAL) return IoError(folder, error);
  return {};
}

// A name below tmp/ that no other thread or process uses. It begins with the key.
std::string TemporaryName(const std::string& key) {
  static std::atomic<uint32_t> count{0};
  return "tmp/" + key + "." + std::to_string(getpid()) + "." + std::to_string(count++);
}

// The names in a folder. An unreadable folder has none.
std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  return names;
}

}  // namespace

KeyLock::KeyLock(KeyLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

KeyLock& KeyLock::operator=(KeyLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

KeyLock::~KeyLock() {
  if (fd_ >= 0) close(fd_);
}

std::string StoreWriter::PathOf(std::string_view name) const {
  return store_.folder() + "/" + std::string(name);
}

Result<StoreWriter> StoreWriter::Open(const std::string& folder) {
  if (folder.empty()) {
    return MakeError(ErrorCode::kIo, "no folder for variants: set CUPOLA_STORE or HOME");
  }
  if (Status made = MakeFolders(folder); !made) return made.error();
  Result<VariantStore> store = VariantStore::Open(folder);
  if (!store) return store.error();
  for (const char* part : {"/bundles", "/places", "/contents", "/locks", "/tmp"}) {
    if (Status made = MakeFolders(folder + part); !made) return made.error();
  }
  return StoreWriter(*std::move(store));
}

Result<KeyLock> StoreWriter::Lock(const std::string& key) const {
  const std::string file = PathOf("locks/" + key);
  while (true) {
    const int fd = open(file.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return IoError(file, errno);
    KeyLock lock(fd);
    while (flock(fd, LOCK_EX) != 0) {
      if (errno != EINTR) return IoError(file, errno);
    }
    // A sweep may have removed the file before this builder got the lock. Another builder may hold
    // the lock of a new file of that name by now, so the lock counts only if the file is still the
    // named one.
    struct stat ours {
    }, named{};
    if (fstat(fd, &ours) == 0 && stat(file.c_str(), &named) == 0 && ours.st_ino == named.st_ino) {
      return lock;
    }
  }
}

Status StoreWriter::Publish(const std::string& key, std::span<const std::byte> bundle) const {
  const std::string file = PathOf("bundles/" + key);
  if (!IsKey(key))
    return MakeError(ErrorCode::kInvalidArgument, "not a key", Location{.file = file});
  const std::string temporary = PathOf(TemporaryName(key));
  const int fd =
      open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return IoError(temporary, errno);
  Status done = WriteAll(fd, bundle, file);
  if (done && fsync(fd) != 0) done = IoError(file, errno);
  if (close(fd) != 0 && done) done = IoError(file, errno);
  if (done && rename(temporary.c_str(), file.c_str()) != 0) done = IoError(file, errno);
  if (!done) {
    unlink(temporary.c_str());
    return done;
  }
  return SyncFolder(PathOf("bundles"));
}

Status StoreWriter::Link(const std::string& link, const std::string& key) const {
  const std::string file = PathOf(link);
  const std::string folder = file.substr(0, file.find_last_of('/'));
  const std::string temporary = PathOf(TemporaryName(key));
  // A sweep by another process may remove the folder while it is empty, or the temporary link of a
  // caller that does not hold the key's lock. So the loop tries more than once.
  for (int tries = 0;; ++tries) {
    if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return IoError(folder, errno);
    if (symlink(("../../bundles/" + key).c_str(), temporary.c_str()) != 0) {
      return IoError(temporary, errno);
    }
    if (rename(temporary.c_str(), file.c_str()) == 0) return {};
    const int error = errno;
    unlink(temporary.c_str());
    if (error != ENOENT || tries == 3) return IoError(file, error);
  }
}

Result<std::vector<StoredBundle>> StoreWriter::List() const {
  std::vector<StoredBundle> bundles;
  std::error_code error;
  const std::string folder = PathOf("bundles");
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    struct stat facts {};
    std::string key = at->path().filename().string();
    if (!IsKey(key) || lstat(at->path().c_str(), &facts) != 0) continue;
    // VariantStore renews the time of a file's last change when it uses the file.
    bundles.push_back({std::move(key), static_cast<uint64_t>(facts.st_size), facts.st_mtime});
  }
  if (error) return IoError(folder, error.value());
  std::sort(bundles.begin(), bundles.end(), [](const StoredBundle& a, const StoredBundle& b) {
    return a.used_s != b.used_s ? a.used_s < b.used_s : a.key < b.key;
  });
  return bundles;
}

Result<Eviction> StoreWriter::Evict(uint64_t limit) const {
  Result<std::vector<StoredBundle>> bundles = List();
  if (!bundles) return bundles.error();
  uint64_t total = 0;
  for (const StoredBundle& bundle : *bundles) total += bundle.bytes;
  Eviction eviction;
  for (const StoredBundle& bundle : *bundles) {
    if (total <= limit) break;
    const std::string file = PathOf("bundles/" + bundle.key);
    if (unlink(file.c_str()) != 0 && errno != ENOENT) return IoError(file, errno);
    total -= bundle.bytes;
    eviction.bytes += bundle.bytes;
    ++eviction.bundles;
  }
  SweepTemporary();
  if (eviction.bundles != 0) SweepLinks();
  SweepLocks();
  return eviction;
}

// Removes temporary files whose key's lock nobody holds: whoever made them was killed.
void StoreWriter::SweepTemporary() const {
  for (const std::string& name : NamesIn(PathOf("tmp"))) {
    const std::string key = name.substr(0, name.find('.'));
    const int fd = open(PathOf("locks/" + key).c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    const bool free = fd < 0 ? errno == ENOENT : flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (free) unlink(PathOf("tmp/" + name).c_str());
    if (fd >= 0) close(fd);
  }
}

// Removes lock files that nobody holds. It holds the lock of each while it removes it: see Lock().
void StoreWriter::SweepLocks() const {
  for (const std::string& name : NamesIn(PathOf("locks"))) {
    const std::string file = PathOf("locks/" + name);
    const int fd = open(file.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) continue;
    struct stat ours {
    }, named{};
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &ours) == 0 &&
        stat(file.c_str(), &named) == 0 && ours.st_ino == named.st_ino) {
      unlink(file.c_str());
    }
    close(fd);
  }
}

// Removes links to bundles that do not exist, and the folders that become empty.
void StoreWriter::SweepLinks() const {
  for (const char* kind : {"places/", "contents/"}) {
    for (const std::string& group : NamesIn(PathOf(kind))) {
      const std::string folder = PathOf(kind + group);
      for (const std::string& name : NamesIn(folder)) {
        const std::string link = folder + "/" + name;
        struct stat facts {};
        if (stat(link.c_str(), &facts) != 0 && errno == ENOENT) unlink(link.c_str());
      }
      rmdir(folder.c_str());  // succeeds only for an empty folder
    }
  }
}

}  // namespace cupola::store
