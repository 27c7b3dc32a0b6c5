// StoreWriter: adds bundles to a variant store and keeps it within its size. `cupola build` uses
// it; the preloaded library never writes. Any number of processes may write to one store: each
// change is one rename(2), a builder holds the lock of the key that it builds, and the next builder
// sweeps what a killed one left. One thread at a time, except that several may call Lock, Publish
// and Link.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "device/compiler/store/variant_store.h"

namespace cupola::store {

/// The default size limit of a store, in bytes.
inline constexpr uint64_t kDefaultStoreLimit = uint64_t{4} << 30;

/// Held while a bundle of one key is made. The kernel releases it when its process dies.
class KeyLock {
 public:
  KeyLock() = default;
  KeyLock(KeyLock&& other) noexcept;
  KeyLock& operator=(KeyLock&& other) noexcept;
  KeyLock(const KeyLock&) = delete;
  KeyLock& operator=(const KeyLock&) = delete;
  ~KeyLock();

 private:
  friend class StoreWriter;
  explicit KeyLock(int fd) : fd_(fd) {}
  int fd_ = -1;
};

/// One bundle file of a store.
struct StoredBundle {
  std::string key;
  uint64_t bytes = 0;
  int64_t used_s = 0;  ///< time of the last write or use, seconds since 1970 (exact to an hour)
};

/// What an eviction did.
struct Eviction {
  uint32_t bundles = 0;  ///< number of bundles removed
  uint64_t bytes = 0;    ///< bytes freed
};

class StoreWriter {
 public:
  /// Opens the store. Makes missing folders (mode 0700). Errors: kIo with the folder;
  /// kInvalidArgument where others than this user may write to the folder.
  static Result<StoreWriter> Open(const std::string& folder);

  const VariantStore& store() const { return store_; }

  /// Waits until no other builder works on `key`. Errors: kIo.
  Result<KeyLock> Lock(const std::string& key) const;

  /// Puts a bundle in place, whole or not at all. It is on disk (fsync) when the call returns. The
  /// caller holds the key's lock. Errors, with the file: kIo, and kExhausted (no space, file size
  /// limit).
  Status Publish(const std::string& key, std::span<const std::byte> bundle) const;

  /// Makes `link` (PlaceLink, ContentsLink) lead to `key`, whatever it led to before. Errors: kIo.
  Status Link(const std::string& link, const std::string& key) const;

  /// The bundles, least recently used first. Errors: kIo.
  Result<std::vector<StoredBundle>> List() const;

  /// Removes least recently used bundles until the rest has at most `limit` bytes, and then links
  /// that lead nowhere and files that killed builders left. Does not touch bundles that are being
  /// made. Errors: kIo.
  Result<Eviction> Evict(uint64_t limit) const;

 private:
  explicit StoreWriter(VariantStore store) : store_(std::move(store)) {}
  std::string PathOf(std::string_view name) const;
  void SweepTemporary() const;
  void SweepLocks() const;
  void SweepLinks() const;

  VariantStore store_;
};

}  // namespace cupola::store
