// StoreWriter: adds bundles to a variant store and keeps it within its size. For `cupola build`;
// the preloaded library never writes. Any number of processes may write to one store: each change
// is one rename(2), a key is built under its lock, and what a killed builder left is swept by the
// next. One thread at a time, but Lock, Publish and Link may be called by several.
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

inline constexpr uint64_t kDefaultStoreLimit = uint64_t{4} << 30;

/// Held while a bundle of one key is made; the kernel lets go of it when its process dies.
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
  int64_t used_s = 0;  ///< when it was last written or found, seconds since 1970 (within an hour)
};

/// What an eviction did.
struct Eviction {
  uint32_t bundles = 0;  ///< removed
  uint64_t bytes = 0;    ///< freed
};

class StoreWriter {
 public:
  /// Opens the store, making its folders (mode 0700) where they are missing. Errors: kIo with the
  /// folder; kInvalidArgument where it is not this user's alone.
  static Result<StoreWriter> Open(const std::string& folder);

  const VariantStore& store() const { return store_; }

  /// Waits until no other builder works on `key`. Errors: kIo.
  Result<KeyLock> Lock(const std::string& key) const;

  /// Puts a bundle in place, whole or not at all, and on disk (fsync) before it returns. The caller
  /// holds the key's lock. Errors: kIo and kExhausted (no space, file size limit), with the file.
  Status Publish(const std::string& key, std::span<const std::byte> bundle) const;

  /// Makes `link` (PlaceLink, ContentsLink) lead to `key`, in place of what it led to. Errors: kIo.
  Status Link(const std::string& link, const std::string& key) const;

  /// The bundles, least recently used first. Errors: kIo.
  Result<std::vector<StoredBundle>> List() const;

  /// Removes least recently used bundles until the rest has at most `limit` bytes, then links that
  /// lead nowhere and what killed builders left. Bundles being made are not touched. Errors: kIo.
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
