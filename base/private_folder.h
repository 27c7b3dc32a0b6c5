// PrivateFolder: a folder for temporary files that only this user may enter (0700). Whoever makes it owns it; the
// destructor removes it with all that is in it. Movable; any thread, one at a time.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>

#include "base/result.h"

namespace cupola {

class PrivateFolder {
 public:
  /// Which of the usual places comes first.
  enum class First : uint8_t {
    kTemporary,  ///< $TMPDIR, then /tmp
    kMemory,     ///< $XDG_RUNTIME_DIR, which is memory, before those: for what other processes write and we read
  };

  /// Makes a new folder with a name of its own in the first of the usual places that can be written. The last ones are
  /// /dev/shm and /var/tmp, because the root of a container may be read-only. Error: kIo.
  static Result<PrivateFolder> Make(First first);

  /// The same in the first of `places` that can be written. Those that are null or no absolute paths are passed over.
  /// The error names the others, and why the first of them cannot be written.
  static Result<PrivateFolder> MakeIn(std::initializer_list<const char*> places);

  PrivateFolder(PrivateFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  PrivateFolder& operator=(PrivateFolder&& other) noexcept {
    PrivateFolder taken(std::move(other));
    std::swap(path_, taken.path_);
    return *this;
  }
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;
  ~PrivateFolder();

  /// Absolute, without a slash at the end; "" after a move from this.
  const std::string& path() const { return path_; }

 private:
  explicit PrivateFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace cupola
