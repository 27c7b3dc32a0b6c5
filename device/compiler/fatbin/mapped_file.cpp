#include "device/compiler/fatbin/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace cupola::fatbin {
namespace {

Error SystemError(const std::string& path, int error) {
  const ErrorCode code =
      error == ENOENT || error == ENOTDIR ? ErrorCode::kNotFound : ErrorCode::kIo;
  return MakeError(code, std::strerror(error), Location{.file = path});
}

Result<Bytes> MapDescriptor(int descriptor, const std::string& path) {
  struct stat status;
  if (fstat(descriptor, &status) != 0) return SystemError(path, errno);
  if (!S_ISREG(status.st_mode)) {
    return MakeError(ErrorCode::kIo,
                     S_ISDIR(status.st_mode) ? "is a directory" : "is no regular file",
                     Location{.file = path});
  }
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return Bytes();
  void* start = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (start == MAP_FAILED) return SystemError(path, errno);
  return Bytes(static_cast<const uint8_t*>(start), size);
}

void Unmap(Bytes bytes) {
  if (!bytes.empty()) munmap(const_cast<uint8_t*>(bytes.data()), bytes.size());
}

}  // namespace

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    Unmap(bytes_);
    path_ = std::move(other.path_);
    bytes_ = std::exchange(other.bytes_, {});
  }
  return *this;
}

MappedFile::~MappedFile() { Unmap(bytes_); }

Result<MappedFile> MappedFile::Open(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return SystemError(path, errno);
  Result<Bytes> bytes = MapDescriptor(descriptor, path);
  close(descriptor);
  if (!bytes) return bytes.error();
  MappedFile file;
  file.path_ = path;
  file.bytes_ = *bytes;
  return file;
}

}  // namespace cupola::fatbin
