#include "device/compiler/build/scratch_folder.h"

#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace cupola::build {

Result<ScratchFolder> ScratchFolder::Make() {
  const char* outer = secure_getenv("TMPDIR");
  std::string path =
      std::string(outer != nullptr && outer[0] == '/' ? outer : "/tmp") + "/cupola-build-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) {
    return MakeError(ErrorCode::kIo, std::strerror(errno), Location{.file = path});
  }
  return ScratchFolder(std::move(path));
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
