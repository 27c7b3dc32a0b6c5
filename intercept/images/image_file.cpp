#include "intercept/images/image_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <new>

namespace cupola::intercept {
namespace {

constexpr off_t kMostImageBytes = off_t{1} << 28;

bool IsSame(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

bool IsSame(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
         IsSame(a.st_mtim, b.st_mtim) && IsSame(a.st_ctim, b.st_ctim);
}

bool ReadAll(int fd, std::byte* to, size_t bytes) {
  for (size_t at = 0; at < bytes;) {
    const ssize_t got = read(fd, to + at, bytes - at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += static_cast<size_t>(got);
  }
  return true;
}

}  // namespace

FileFacts LookAtFile(const char* path) noexcept {
  FileFacts file;
  const int error = errno;
  file.exists = path != nullptr && stat(path, &file.facts) == 0;
  errno = error;
  return file;
}

FileContents ReadUnchangedFile(const char* path, const FileFacts& before) noexcept {
  FileContents file;
  if (!before.exists || !S_ISREG(before.facts.st_mode) || before.facts.st_size > kMostImageBytes) {
    return file;
  }
  const auto size = static_cast<size_t>(before.facts.st_size);
  file.memory.reset(new (std::nothrow) std::byte[size]);
  const int error = errno;
  const int fd = file.memory != nullptr ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
  struct stat now{};
  if (fd >= 0) {
    const bool is_whole = ReadAll(fd, file.memory.get(), size);
    if (is_whole && fstat(fd, &now) == 0 && IsSame(now, before.facts)) file.size = size;
    close(fd);
  }
  errno = error;
  return file;
}

}  // namespace cupola::intercept
