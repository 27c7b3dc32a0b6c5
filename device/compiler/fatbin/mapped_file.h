// A file mapped for reading, so that libraries of hundreds of megabytes are read in place, not copied.
// Movable; the mapping stays in place while the object lives; any thread may read the bytes.
#pragma once

#include <string>

#include "base/result.h"
#include "device/compiler/fatbin/bytes.h"

namespace cupola::fatbin {

class MappedFile {
 public:
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  /// Maps the regular file at `path`. Errors: kNotFound; kIo where it cannot be read or is no
  /// regular file. A file that shrinks while mapped raises SIGBUS on access, as with any mapping.
  static Result<MappedFile> Open(const std::string& path);

  Bytes bytes() const { return bytes_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  Bytes bytes_;
};

}  // namespace cupola::fatbin
