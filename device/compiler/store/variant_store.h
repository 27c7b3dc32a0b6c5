// VariantStore: finds bundles, as the preloaded library does at module load. The store is a folder of the user:
//
//   bundles/<key>                      bundle files, named by their content key
//   places/<build id>/<offset>-<arch>  link to the key of the image at that offset of that object
//   contents/<bytes>/<sha256>-<arch>   link to the key of an image of that size and digest
//   locks/<key>                        held while a bundle of that key is made
//   notes/<name>                       empty files: findings of earlier runs of a program
//
// The store uses only files that belong to this user and to which nobody else may write. Files are never changed in
// place. libc only; any thread may use a const store. store_writer.h makes bundles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/standard_error.h"
#include "device/compiler/store/bundle.h"
#include "device/compiler/store/sha256.h"

namespace cupola::store {

/// A bundle, mapped for reading. Movable; stays valid after its file has been removed.
class MappedBundle {
 public:
  MappedBundle() = default;
  MappedBundle(MappedBundle&& other) noexcept;
  MappedBundle& operator=(MappedBundle&& other) noexcept;
  MappedBundle(const MappedBundle&) = delete;
  MappedBundle& operator=(const MappedBundle&) = delete;
  ~MappedBundle();

  const BundleView& view() const { return view_; }
  const std::string& key() const { return key_; }

 private:
  friend class VariantStore;
  std::span<const std::byte> bytes_;
  BundleView view_;
  std::string key_;
};

class VariantStore {
 public:
  /// $CUPOLA_STORE, else $XDG_CACHE_HOME/cupola/variants, else ~/.cache/cupola/variants; "" where there is no home
  /// folder. Reads the environment, so it is not for the launch path.
  static std::string DefaultFolder();

  /// Opens the store. Errors: kNotFound where there is no such folder (nothing was built); kInvalidArgument, with the
  /// reason, where others than this user may write to it.
  static Result<VariantStore> Open(const std::string& folder);

  VariantStore(VariantStore&& other) noexcept;
  VariantStore& operator=(VariantStore&& other) noexcept;
  VariantStore(const VariantStore&) = delete;
  VariantStore& operator=(const VariantStore&) = delete;
  ~VariantStore();

  /// Finds the bundle of the image at `offset` (bytes from the start of the file: FindLoadedPlace) of the object with
  /// that build id. Costs one failing readlink where there is none. Reads the whole file once (checksum, about 1 ms for
  /// a MB). Errors: kNotFound; kDamaged, kUnsupported and kIo, with the file, for an entry that cannot be used: the
  /// caller goes on without it and reports it.
  Result<MappedBundle> FindAt(std::span<const uint8_t> build_id, uint64_t offset,
                              uint32_t arch) const;

  /// Finds the bundle of an image by its bytes (IdentityBytes). Hashes the bytes only where some image of that size was
  /// built. Errors: as FindAt.
  Result<MappedBundle> FindByContents(std::span<const std::byte> image, uint32_t arch) const;

  /// Finds the bundle of a key. Errors: as FindAt.
  Result<MappedBundle> FindByKey(std::string_view key) const;

  /// Finds the bundle for an image that a program gives to the driver: by its place, where it lies in an object with a
  /// build id and was built there, else by its bytes. Errors: as FindAt.
  Result<MappedBundle> FindForImage(const void* image, uint32_t arch) const;

  /// Like FindForImage, for the contents of a file whose name the driver was given (IdentityOfFile).
  Result<MappedBundle> FindForFile(std::span<const std::byte> file, uint32_t arch) const;

  /// Finds the bundle to which a link leads (PlaceLink, ContentsLink). Errors: as FindAt.
  Result<MappedBundle> FindByLink(const std::string& link) const;

  /// When the store was last added to, in nanoseconds since 1970; 0 where that is not known. One system call.
  uint64_t ChangedNs() const;

  /// Whether an earlier run left a note of that name (AddNote). A name has letters, digits and '-'.
  bool HasNote(std::string_view name) const;
  /// Leaves a note. Returns false where the store cannot be written to.
  bool AddNote(std::string_view name) const;

  const std::string& folder() const { return folder_; }

 private:
  VariantStore(std::string folder, int fd)
      : folder_(std::move(folder)), fd_(fd), identity_(IdentityOf(fd)) {}
  class OpenFolder;  ///< the folder during one call: fd_, or another one where the program took its number

  std::string folder_;
  int fd_ = -1;
  FileIdentity identity_;  ///< of the folder on which fd_ was opened
};

/// Whether `key` is a key: 64 lower-case hex digits.
bool IsKey(std::string_view key);

/// The links that lead to a key, relative to the store's folder. PlaceLink returns "" for a build id of no or more than
/// 64 bytes.
std::string PlaceLink(std::span<const uint8_t> build_id, uint64_t offset, uint32_t arch);
std::string ContentsLink(uint64_t bytes, const Digest& digest, uint32_t arch);

}  // namespace cupola::store
