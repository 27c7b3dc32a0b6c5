#include "device/compiler/store/variant_store.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

#include "device/compiler/store/image_identity.h"
#include "device/compiler/store/store_place.h"

namespace cupola::store {
namespace {

constexpr size_t kKeyDigits = 64;
// A bundle that is found counts as used. Its time is not written more often than this.
constexpr time_t kUseGranularity_s = 3600;
constexpr int kFirstDescriptor = 200;

Error SystemError(const std::string& file, int error) {
  const ErrorCode code =
      error == ENOENT || error == ENOTDIR ? ErrorCode::kNotFound : ErrorCode::kIo;
  return MakeError(code, std::strerror(error), Location{.file = file});
}

Result<std::span<const std::byte>> Map(int fd, const std::string& file) {
  struct stat facts {};
  if (fstat(fd, &facts) != 0) return SystemError(file, errno);
  const Location where{.file = file};
  if (!S_ISREG(facts.st_mode)) return MakeError(ErrorCode::kDamaged, "is no file", where);
  if (const char* why = Distrust(facts)) return MakeError(ErrorCode::kIo, why, where);
  if (facts.st_size == 0) return MakeError(ErrorCode::kDamaged, "is empty", where);
  const size_t size = static_cast<size_t>(facts.st_size);
  void* memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (memory == MAP_FAILED) return SystemError(file, errno);
  if (time(nullptr) - facts.st_mtime > kUseGranularity_s) futimens(fd, nullptr);
  return std::span<const std::byte>(static_cast<const std::byte*>(memory), size);
}

/// Opens the folder if only this user may write to it. Its descriptor is above the low numbers, which programs rely on
/// and close in bulk.
Result<int> Folder(const std::string& folder) {
  const int low = open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (low < 0) return SystemError(folder, errno);
  struct stat facts {};
  const bool is_known = fstat(low, &facts) == 0;
  const int error = errno;
  const char* why = is_known ? Distrust(facts) : nullptr;
  if (!is_known || why != nullptr) close(low);
  if (!is_known) return SystemError(folder, error);
  if (why != nullptr) {
    return MakeError(ErrorCode::kInvalidArgument, std::string("variants are not used: ") + why,
                     Location{.file = folder});
  }
  const int high = fcntl(low, F_DUPFD_CLOEXEC, kFirstDescriptor);
  if (high < 0) return low;
  close(low);
  return high;
}

}  // namespace

bool IsKey(std::string_view key) {
  return key.size() == kKeyDigits &&
         key.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string PlaceLink(std::span<const uint8_t> build_id, uint64_t offset, uint32_t arch) {
  if (build_id.empty() || build_id.size() > 64) return {};
  char name[48];
  std::snprintf(name, sizeof(name), "/%llx-%u", static_cast<unsigned long long>(offset), arch);
  return "places/" + HexOf(build_id) + name;
}

std::string ContentsLink(uint64_t bytes, const Digest& digest, uint32_t arch) {
  return "contents/" + std::to_string(bytes) + "/" + HexOf(digest) + "-" + std::to_string(arch);
}

MappedBundle::MappedBundle(MappedBundle&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})), view_(other.view_), key_(std::move(other.key_)) {}

MappedBundle& MappedBundle::operator=(MappedBundle&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(view_, other.view_);
  std::swap(key_, other.key_);
  return *this;
}

MappedBundle::~MappedBundle() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

std::string VariantStore::DefaultFolder() {
  const StorePlace place = DefaultPlace();
  return place.base != nullptr ? std::string(place.base) + place.rest : std::string();
}

Result<VariantStore> VariantStore::Open(const std::string& folder) {
  if (folder.empty()) {
    return MakeError(ErrorCode::kNotFound, "no folder for variants: set CUPOLA_STORE or HOME");
  }
  const Result<int> fd = Folder(folder);
  if (!fd) return fd.error();
  return VariantStore(folder, *fd);
}

class VariantStore::OpenFolder {
 public:
  explicit OpenFolder(const VariantStore& store) {
    if (store.fd_ >= 0 && IdentityOf(store.fd_) == store.identity_) {
      fd_ = store.fd_;
    } else if (Result<int> again = Folder(store.folder_)) {
      fd_ = *again;
      is_own_ = true;
    }
  }
  ~OpenFolder() {
    if (is_own_) close(fd_);
  }
  OpenFolder(const OpenFolder&) = delete;
  OpenFolder& operator=(const OpenFolder&) = delete;
  int fd() const { return fd_; }  ///< -1 where the folder cannot be opened any more

 private:
  int fd_ = -1;
  bool is_own_ = false;
};

VariantStore::VariantStore(VariantStore&& other) noexcept
    : folder_(std::move(other.folder_)),
      fd_(std::exchange(other.fd_, -1)),
      identity_(other.identity_) {}

VariantStore& VariantStore::operator=(VariantStore&& other) noexcept {
  std::swap(folder_, other.folder_);
  std::swap(fd_, other.fd_);
  std::swap(identity_, other.identity_);
  return *this;
}

VariantStore::~VariantStore() {
  if (fd_ >= 0 && IdentityOf(fd_) == identity_) close(fd_);
}

Result<MappedBundle> VariantStore::FindByKey(std::string_view key) const {
  const std::string name = "bundles/" + std::string(key);
  const std::string file = folder_ + "/" + name;
  if (!IsKey(key))
    return MakeError(ErrorCode::kInvalidArgument, "not a key", Location{.file = file});
  const OpenFolder folder(*this);
  const int fd = openat(folder.fd(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return SystemError(file, errno);
  Result<std::span<const std::byte>> bytes = Map(fd, file);
  close(fd);
  if (!bytes) return bytes.error();
  MappedBundle bundle;
  bundle.bytes_ = *bytes;
  bundle.key_ = key;
  Result<BundleView> view = BundleView::Open(*bytes);
  if (!view) {
    view.error().where.file = file;
    return view.error();
  }
  if (!view->ChecksumHolds()) {
    return MakeError(ErrorCode::kDamaged, "bundle: its checksum does not hold",
                     Location{.file = file});
  }
  bundle.view_ = *view;
  return bundle;
}

Result<MappedBundle> VariantStore::FindByLink(const std::string& link) const {
  char target[128];
  const OpenFolder folder(*this);
  const ssize_t length = readlinkat(folder.fd(), link.c_str(), target, sizeof(target));
  if (length < 0) return SystemError(folder_ + "/" + link, errno);
  std::string_view key(target, static_cast<size_t>(length));
  key = key.substr(key.find_last_of('/') + 1);
  if (!IsKey(key)) {
    return MakeError(ErrorCode::kDamaged, "does not lead to a bundle",
                     Location{.file = folder_ + "/" + link});
  }
  return FindByKey(key);
}

Result<MappedBundle> VariantStore::FindAt(std::span<const uint8_t> build_id, uint64_t offset,
                                          uint32_t arch) const {
  const std::string link = PlaceLink(build_id, offset, arch);
  if (link.empty()) return MakeError(ErrorCode::kNotFound, "the object has no build id");
  return FindByLink(link);
}

Result<MappedBundle> VariantStore::FindByContents(std::span<const std::byte> image,
                                                  uint32_t arch) const {
  const std::string size = "contents/" + std::to_string(image.size());
  if (image.empty() || faccessat(OpenFolder(*this).fd(), size.c_str(), X_OK, AT_EACCESS) != 0) {
    return MakeError(ErrorCode::kNotFound, "no image of that size was built");
  }
  return FindByLink(ContentsLink(image.size(), Sha256Of(image), arch));
}

Result<MappedBundle> VariantStore::FindForImage(const void* image, uint32_t arch) const {
  const std::span<const std::byte> bytes = IdentityBytes(image);
  if (bytes.empty()) return MakeError(ErrorCode::kNotFound, "not a device image");
  const std::optional<LoadedPlace> place = FindLoadedPlace(bytes.data());
  if (place && place->build_id_bytes != 0) {
    Result<MappedBundle> bundle = FindAt(place->id(), place->offset, arch);
    if (bundle || bundle.error().code != ErrorCode::kNotFound) return bundle;
  }
  return FindByContents(bytes, arch);
}

// All that comes into the store is made in `tmp` and moved out of it.
uint64_t VariantStore::ChangedNs() const {
  struct stat facts {};
  if (fstatat(OpenFolder(*this).fd(), "tmp", &facts, 0) != 0) return 0;
  return static_cast<uint64_t>(facts.st_mtim.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(facts.st_mtim.tv_nsec);
}

bool VariantStore::HasNote(std::string_view name) const {
  return faccessat(fd_, ("notes/" + std::string(name)).c_str(), F_OK, AT_EACCESS) == 0;
}

bool VariantStore::AddNote(std::string_view name) const {
  if (mkdirat(fd_, "notes", 0700) != 0 && errno != EEXIST) return false;
  const int fd = openat(fd_, ("notes/" + std::string(name)).c_str(),
                        O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  close(fd);
  return true;
}

Result<MappedBundle> VariantStore::FindForFile(std::span<const std::byte> file,
                                               uint32_t arch) const {
  return FindByContents(IdentityOfFile(file), arch);
}

}  // namespace cupola::store
