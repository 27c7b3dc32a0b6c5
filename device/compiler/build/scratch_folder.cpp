#include "device/compiler/build/scratch_folder.h"

#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace cupola::build {

Result<ScratchFolder> ScratchFolder::Make() {
  // The last two are tried because in a container the root may be read-only.
  const char* const places[] = {secure_getenv("TMPDIR"), "/tmp", "/dev/shm", "/var/tmp"};
  Error error = MakeError(ErrorCode::kIo, "");
  for (const char* place : places) {
    if (place == nullptr || place[0] != '/') continue;
    std::string path = std::string(place) + "/cupola-build-XXXXXX";
    if (mkdtemp(path.data()) != nullptr) return ScratchFolder(std::move(path));
    if (error.message.empty()) {
      error = MakeError(ErrorCode::kIo, std::strerror(errno), Location{.file = path});
    }
  }
  return error;
}

ScratchFolder::ScratchFolder(ScratchFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})) {}

ScratchFolder& ScratchFolder::operator=(ScratchFolder&& other) noexcept {
  std::swap(path_, other.path_);
  return *this;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace cupola::build
