#include "sched/board/socket_path.h"

#include <cstdio>
#include <cstdlib>

#include <sys/stat.h>
#include <unistd.h>

namespace cupola::sched {
namespace {

bool IsFolder(const char* path) {
  struct stat facts {};
  return stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
}

bool Fits(int written) { return written > 0 && static_cast<size_t>(written) < kSocketPathBytes; }

}  // namespace

bool ArbiterSocketPath(char (&path)[kSocketPathBytes]) {
  if (const char* named = std::getenv("CUPOLA_SOCKET"); named != nullptr && *named != '\0') {
    return *named == '/' && Fits(std::snprintf(path, sizeof(path), "%s", named));
  }
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && *runtime == '/' && IsFolder(runtime)) {
    return Fits(std::snprintf(path, sizeof(path), "%s/cupola/arbiter.sock", runtime));
  }
  const auto uid = static_cast<unsigned>(geteuid());
  char folder[64];
  std::snprintf(folder, sizeof(folder), "/run/user/%u", uid);
  if (IsFolder(folder)) {
    return Fits(std::snprintf(path, sizeof(path), "%s/cupola/arbiter.sock", folder));
  }
  return Fits(std::snprintf(path, sizeof(path), "/tmp/cupola-%u/arbiter.sock", uid));
}

}  // namespace cupola::sched
