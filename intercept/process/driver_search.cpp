#include "intercept/process/driver_search.h"

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/settings/variables.h"
#include "intercept/process/notice.h"

namespace cupola::intercept {
namespace {

constexpr char kDriverName[] = "libcuda.so.1";
constexpr const char* kUsualFolders[] = {
    "/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib64", "/lib64", "/usr/lib",
    "/usr/lib/wsl/lib", "/usr/local/nvidia/lib64", "/usr/local/lib", "/run/opengl-driver/lib",
};

std::atomic<const char*> left_out{nullptr};

// True for an x86-64 shared object that is not Cupola's.
bool MayBeDriver(const char* path) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  Elf64_Ehdr header;
  const bool is_object = read(file, &header, sizeof(header)) == sizeof(header) &&
                         memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
                         header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_machine == EM_X86_64;
  close(file);
  const char* const own = left_out.load(std::memory_order_acquire);
  return is_object && (own == nullptr || !IsSameFile(path, own));
}

struct Search {
  bool (*use)(const char* path, void* data);
  void* data;

  bool TryFile(const char* path) const {
    char real[kPathBytes];
    return realpath(path, real) != nullptr && MayBeDriver(real) && use(path, data);
  }

  bool TryFolder(const char* folder, size_t length) const {
    char path[kPathBytes];
    if (length == 0 || folder[0] != '/') return false;  // relative folders are not trusted
    const int bytes = snprintf(path, sizeof(path), "%.*s/%s", static_cast<int>(length), folder,
                               kDriverName);
    return bytes > 0 && static_cast<size_t>(bytes) < sizeof(path) && TryFile(path);
  }

  bool TryList(const char* list) const {
    while (list != nullptr && *list != '\0') {
      const size_t length = strcspn(list, ":;");
      if (TryFolder(list, length)) return true;
      list += length + (list[length] != '\0');
    }
    return false;
  }

  bool TryCache() const;
};

// The layout of /etc/ld.so.cache (glibc, sysdeps/generic/dl-cache.h): a header, entries, strings.
// An old-format part may come before it.
struct CacheHeader {
  char magic[20];  // "glibc-ld.so.cache1.1"
  uint32_t entries;
  uint32_t string_bytes;
  uint32_t unused[5];
};
struct CacheEntry {
  int32_t flags;
  uint32_t key;    // offset of the library's name from the header
  uint32_t value;  // offset of its path from the header
  uint32_t os_version;
  uint64_t hwcap;
};
constexpr char kCacheMagic[] = "glibc-ld.so.cache1.1";
constexpr int32_t kCacheX8664 = 0x0303;  // FLAG_ELF_LIBC6 | FLAG_X8664_LIB64

bool TryCacheImage(const Search& search, const char* image, size_t bytes) {
  const char* start = static_cast<const char*>(memmem(image, bytes, kCacheMagic, 20));
  if (start == nullptr) return false;
  const size_t rest = bytes - static_cast<size_t>(start - image);
  CacheHeader header;
  if (rest < sizeof(header)) return false;
  memcpy(&header, start, sizeof(header));
  if (header.entries > (rest - sizeof(header)) / sizeof(CacheEntry)) return false;
  for (uint32_t i = 0; i < header.entries; ++i) {
    CacheEntry entry;
    memcpy(&entry, start + sizeof(header) + i * sizeof(entry), sizeof(entry));
    if (entry.flags != kCacheX8664 || entry.key >= rest || entry.value >= rest) continue;
    const char* key = start + entry.key;
    const char* value = start + entry.value;
    if (strnlen(key, rest - entry.key) == rest - entry.key || strcmp(key, kDriverName) != 0)
      continue;
    if (strnlen(value, rest - entry.value) == rest - entry.value) continue;
    if (value[0] == '/' && search.TryFile(value)) return true;
  }
  return false;
}

bool Search::TryCache() const {
  const int file = open("/etc/ld.so.cache", O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  struct stat status;
  bool found = false;
  if (fstat(file, &status) == 0 && status.st_size > 0) {
    const size_t bytes = static_cast<size_t>(status.st_size);
    void* image = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
    if (image != MAP_FAILED) {
      found = TryCacheImage(*this, static_cast<const char*>(image), bytes);
      munmap(image, bytes);
    }
  }
  close(file);
  return found;
}

}  // namespace

bool IsSameFile(const char* a, const char* b) {
  struct stat first, second;
  return stat(a, &first) == 0 && stat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

void LeaveOutDriver(const char* path) { left_out.store(path, std::memory_order_release); }

bool ForEachDriver(const char* asked_path, bool (*use)(const char* path, void* data), void* data) {
  const Search search{use, data};
  if (const char* chosen = settings::TextIfAny("CUPOLA_DRIVER")) {
    if (chosen[0] == '/' && search.TryFile(chosen)) return true;
    static std::atomic_flag said;
    SayOnce(said, Level::kError, {"CUPOLA_DRIVER=", chosen, " is not a driver that can be loaded; "
                                  "give the absolute path of a libcuda.so.1, or unset it"});
    return false;
  }
  if (search.TryList(getenv("LD_LIBRARY_PATH"))) return true;
  if (asked_path != nullptr && search.TryFile(asked_path)) return true;
  if (search.TryCache()) return true;
  for (const char* folder : kUsualFolders) {
    if (search.TryFolder(folder, strlen(folder))) return true;
  }
  return false;
}

bool HasDriver(const char* asked_path) {
  return ForEachDriver(asked_path, [](const char*, void*) { return true; }, nullptr);
}

}  // namespace cupola::intercept
