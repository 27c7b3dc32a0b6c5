// Files that a program gives the driver the name of: what was in one when the driver read it.
// Stateless; any thread.
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

FileFacts LookAtFile(const char* path) noexcept;

struct FileContents {
  std::unique_ptr<std::byte[]> memory;
  size_t size = 0;  ///< 0: nothing was read

  std::span<const std::byte> bytes() const { return {memory.get(), size}; }
};

/// What is in the file, where it is a regular one of at most 256 MB and still what `before` says:
/// what the driver read in between. Else nothing.
FileContents ReadUnchangedFile(const char* path, const FileFacts& before) noexcept;

}  // namespace cupola::intercept
