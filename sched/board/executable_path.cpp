#include "sched/board/executable_path.h"

#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cupola::sched {
namespace {

constexpr char kDeleted[] = " (deleted)";
constexpr size_t kDeletedBytes = sizeof(kDeleted) - 1;

/// Whether the file that the process of `proc_folder` executes lies at `path` in the file system as that process sees
/// it.
bool LiesAt(const char* proc_folder, const char* path) {
  char name[64];
  struct stat executed {}, found {};
  std::snprintf(name, sizeof(name), "%s/exe", proc_folder);
  if (stat(name, &executed) != 0) return false;
  std::snprintf(name, sizeof(name), "%s/root", proc_folder);
  const int root = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) return false;
  const bool is_there = fstatat(root, path + (*path == '/' ? 1 : 0), &found, 0) == 0;
  close(root);
  return is_there && executed.st_dev == found.st_dev && executed.st_ino == found.st_ino;
}

}  // namespace

bool ExecutablePath(const char* proc_folder, char* path, size_t size) {
  char link[64];
  if (size == 0) return false;
  std::snprintf(link, sizeof(link), "%s/exe", proc_folder);
  const ssize_t bytes = readlink(link, path, size - 1);
  path[bytes > 0 ? bytes : 0] = '\0';
  if (bytes <= 0) return false;
  char* const end = path + bytes - (static_cast<size_t>(bytes) > kDeletedBytes ? kDeletedBytes : 0);
  if (std::strcmp(end, kDeleted) == 0 && !LiesAt(proc_folder, path)) *end = '\0';
  return true;
}

}  // namespace cupola::sched
