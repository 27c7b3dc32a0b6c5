#include "intercept/process/compiled_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>

#include "device/compiler/store/store_place.h"
#include "intercept/process/driver_search.h"

namespace cupola::intercept {
namespace {

// What a process keeps at most, since whoever watches may be slow.
constexpr size_t kMostKeptImages = 4096, kMostKeptBytes = size_t{256} << 20;

std::atomic<size_t> images_kept{0}, bytes_kept{0};

// `compiled` in the store.
bool MakeFolderPath(char (&path)[kPathBytes]) {
  const store::StorePlace place = store::DefaultPlace();
  if (place.base == nullptr) return false;
  const int bytes = snprintf(path, sizeof(path), "%s%s/compiled", place.base, place.rest);
  return bytes > 0 && static_cast<size_t>(bytes) < sizeof(path);
}

// Whether only this user may write to the folder, and a watcher holds the lock of the file `watched` in it.
bool IsWatched(const char* folder) {
  struct stat facts {};
  if (stat(folder, &facts) != 0 || !S_ISDIR(facts.st_mode)) return false;
  if (store::Distrust(facts) != nullptr) return false;
  char path[kPathBytes];
  const int bytes = snprintf(path, sizeof(path), "%s/watched", folder);
  if (bytes <= 0 || static_cast<size_t>(bytes) >= sizeof(path)) return false;
  const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return false;
  const bool is_held = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(fd);
  return is_held;
}

bool WriteAll(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = write(fd, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(done));
  }
  return true;
}

// Writes a file that nobody sees under its name before it is whole.
bool WriteFile(const char* folder, size_t number, const char* suffix, std::span<const std::byte> bytes) {
  char path[kPathBytes], partial[kPathBytes];
  const auto pid = static_cast<long>(getpid());
  const int length = snprintf(path, sizeof(path), "%s/%ld-%zu.%s", folder, pid, number, suffix);
  const int also = snprintf(partial, sizeof(partial), "%s/%ld-%zu.%s.part", folder, pid, number, suffix);
  if (length <= 0 || also <= 0 || static_cast<size_t>(also) >= sizeof(partial)) return false;
  const int fd = open(partial, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  const bool is_written = WriteAll(fd, bytes);
  close(fd);
  if (is_written && rename(partial, path) == 0) return true;
  unlink(partial);
  return false;
}

}  // namespace

bool IsCompiledWatched() noexcept {
  const int error = errno;
  char folder[kPathBytes];
  const bool is_watched = MakeFolderPath(folder) && IsWatched(folder);
  errno = error;
  return is_watched;
}

bool KeepCompiled(std::span<const std::byte> cubin, std::span<const std::byte> ptx) noexcept {
  const int error = errno;
  char folder[kPathBytes];
  bool is_kept = MakeFolderPath(folder) && IsWatched(folder);
  if (is_kept) {
    const size_t number = images_kept.fetch_add(1), bytes = cubin.size() + ptx.size();
    is_kept = number < kMostKeptImages && bytes_kept.fetch_add(bytes) + bytes <= kMostKeptBytes;
    // The cubin comes last: the watcher takes one whose PTX is beside it. Only PTX that is an image has the suffix .image.ptx.
    is_kept = is_kept && WriteFile(folder, number, cubin.empty() ? "image.ptx" : "ptx", ptx) &&
              (cubin.empty() || WriteFile(folder, number, "cubin", cubin));
  }
  errno = error;
  return is_kept;
}

}  // namespace cupola::intercept
