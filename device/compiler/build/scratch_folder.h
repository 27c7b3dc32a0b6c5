// ScratchFolder: a folder for the files of one compilation, which only this user may open (0700).
// The destructor removes it. Movable; any thread.
#pragma once

#include <string>

#include "base/result.h"

namespace cupola::build {

class ScratchFolder {
 public:
  /// Makes a folder below $TMPDIR, else /tmp, /dev/shm or /var/tmp. Errors: kIo.
  static Result<ScratchFolder> Make();

  ScratchFolder(ScratchFolder&& other) noexcept;
  ScratchFolder& operator=(ScratchFolder&& other) noexcept;
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder();

  const std::string& path() const { return path_; }

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace cupola::build
