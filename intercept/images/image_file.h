// Image files: a program gives the driver the name of a file with an image. These functions get
// what was in the file when the driver read it. The hooks of cuModuleLoad and cuLibraryLoadFromFile call
// LookAtFile before the driver's call and ReadUnchangedFile after it (entry/module_events.h), on the
// program's thread. Stateless; any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include <sys/stat.h>

namespace cupola::intercept {

/// A file as stat(2) saw it.
struct FileFacts {
  bool exists = false;
  struct stat facts{};
};

/// One stat(2); `exists` is false where that fails.
FileFacts LookAtFile(const char* path) noexcept;

struct FileContents {
  std::unique_ptr<std::byte[]> memory;
  size_t size = 0;  ///< 0: nothing was read

  std::span<const std::byte> bytes() const { return {memory.get(), size}; }
};

/// Reads the file, provided that it is a regular file of at most 256 MiB and still as `before`
/// says: then it is what the driver read in between. Otherwise the result is empty.
FileContents ReadUnchangedFile(const char* path, const FileFacts& before) noexcept;

}  // namespace cupola::intercept
