// VariantStore: finding bundles, as the preloaded library does at module load. A folder of the
// user:
//
//   bundles/<key>                      bundle files, named by their content key
//   places/<build id>/<offset>-<arch>  link to the key of the image at that offset of that object
//   contents/<bytes>/<sha256>-<arch>   link to the key of an image of that size and digest
//   locks/<key>                        held while a bundle of that key is made
//   notes/<name>                       empty files: what an earlier run of a program found out
//
// Only what belongs to this user and nobody else may write to is used. Files are never changed in
// place. libc only; any thread, a const store is shared. Making bundles: store_writer.h.
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

/// A bundle, mapped for reading. Movable; valid also after its file has been removed.
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
  /// $CUPOLA_STORE, else $XDG_CACHE_HOME/cupola/variants, else ~/.cache/cupola/variants; "" where
  /// there is no home. Reads the environment: not for the launch path.
  static std::string DefaultFolder();

  /// Errors: kNotFound where there is no such folder (nothing was built); kInvalidArgument, with
  /// the reason, where it is not this user's alone.
  static Result<VariantStore> Open(const std::string& folder);

  VariantStore(VariantStore&& other) noexcept;
  VariantStore& operator=(VariantStore&& other) noexcept;
  VariantStore(const VariantStore&) = delete;
  VariantStore& operator=(const VariantStore&) = delete;
  ~VariantStore();

  /// The bundle of the image at `offset` (bytes from the start of the file: FindLoadedPlace) of the
  /// object with that build id. One failing readlink where there is none. The whole file is read
  /// once (checksum, about 1 ms for a MB). Errors: kNotFound; kDamaged, kUnsupported and kIo, with
  /// the file, for an entry that is not used: the caller goes on without and says so.
  Result<MappedBundle> FindAt(std::span<const uint8_t> build_id, uint64_t offset,
                              uint32_t arch) const;

  /// The bundle of an image by its bytes (IdentityBytes). The bytes are only hashed where some
  /// image of that size was built. Errors: as FindAt.
  Result<MappedBundle> FindByContents(std::span<const std::byte> image, uint32_t arch) const;

  /// The bundle of a key. Errors: as FindAt.
  Result<MappedBundle> FindByKey(std::string_view key) const;

  /// The bundle for what a program gives to the driver: by place where it lies in an object with a
  /// build id and was built there, else by its bytes. Errors: as FindAt.
  Result<MappedBundle> FindForImage(const void* image, uint32_t arch) const;

  /// The same for the contents of a file that the driver was given the name of (IdentityOfFile).
  Result<MappedBundle> FindForFile(std::span<const std::byte> file, uint32_t arch) const;

  /// Whether an earlier run left a note of that name (AddNote): letters, digits and '-'.
  bool HasNote(std::string_view name) const;
  /// Leaves one. False: the store cannot be written to.
  bool AddNote(std::string_view name) const;

  const std::string& folder() const { return folder_; }

 private:
  VariantStore(std::string folder, int fd)
      : folder_(std::move(folder)), fd_(fd), identity_(IdentityOf(fd)) {}
  Result<MappedBundle> FindByLink(const char* link) const;
  class OpenFolder;  ///< the folder during one call: fd_, or another where the program took its number

  std::string folder_;
  int fd_ = -1;
  FileIdentity identity_;  ///< of what fd_ was opened on
};

/// Whether `key` is one: 64 lower-case hex digits.
bool IsKey(std::string_view key);

/// The links that lead to a key, relative to the store's folder; "" for a build id of no or more
/// than 64 bytes.
std::string PlaceLink(std::span<const uint8_t> build_id, uint64_t offset, uint32_t arch);
std::string ContentsLink(uint64_t bytes, const Digest& digest, uint32_t arch);

}  // namespace cupola::store
