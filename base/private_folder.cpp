#include "base/private_folder.h"

#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

namespace cupola {

Result<PrivateFolder> PrivateFolder::Make(First first) {
  const char* const runtime = first == First::kMemory ? secure_getenv("XDG_RUNTIME_DIR") : nullptr;
  return MakeIn({runtime, secure_getenv("TMPDIR"), "/tmp", "/dev/shm", "/var/tmp"});
}

Result<PrivateFolder> PrivateFolder::MakeIn(std::initializer_list<const char*> places) {
  std::string tried, why;
  for (const char* place : places) {
    if (place == nullptr || place[0] != '/') continue;
    std::string path = std::string(place) + "/cupola-XXXXXX";
    if (mkdtemp(path.data()) != nullptr) return PrivateFolder(std::move(path));
    if (why.empty()) why = std::strerror(errno);
    tried += (tried.empty() ? "" : ", ") + std::string(place);
  }
  return MakeError(ErrorCode::kIo, fmt::format("cannot make a folder in any of {}: {}", tried, why));
}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace cupola
