// HandleMap: a map from CUDA handles to 64-bit values. Readers take no lock and never wait; writers
// take a mutex. Any thread. The map grows by doubling. Old tables are kept, since a reader may be in
// one; all of them together are smaller than the newest. Places of erased handles are used again, so
// that the size depends only on how many handles are in the map at a time. It has constant
// initialisation and no destructor, and so may be used at any time of a process.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <pthread.h>

#include "intercept/process/mutex_lock.h"

namespace cupola::intercept {

class HandleMap {
 public:
  constexpr HandleMap() = default;
  HandleMap(const HandleMap&) = delete;
  HandleMap& operator=(const HandleMap&) = delete;

  /// The value of `handle`, or `fallback` if it is not in the map. Usually one probe or two. The loop ends
  /// at an empty slot at the latest: at most half of a table's slots are in use, erased ones included.
  uint64_t Find(const void* handle, uint64_t fallback) const noexcept {
    const Table table(table_.load(std::memory_order_acquire));
    if (!table) return fallback;
    const uint64_t key = reinterpret_cast<uint64_t>(handle);
    for (size_t at = Hash(key);; ++at) {
      const Slot& slot = table[at];
      const uint64_t found = slot.key.load(std::memory_order_acquire);
      if (found == kEmpty) return fallback;
      if (found == key) return slot.value.load(std::memory_order_relaxed);
    }
  }

  /// Adds the handle, or replaces its value if it is in the map. Returns true only if the handle is new
  /// to the map and was added. A new handle is not added if memory is out; handles 0 and 1 never are.
  bool Set(const void* handle, uint64_t value) noexcept;

  /// Erases `handle`. A reader that looks it up at the same time may still get its value, or the value
  /// of a handle that takes its place. Returns whether it was there.
  bool Erase(const void* handle) noexcept;

  /// Erases each handle for which `wants(handle, value)` is true. Holds the mutex while it looks at the
  /// whole table, so `wants` must not change this map.
  template <typename Wants>
  void EraseIf(Wants&& wants) noexcept;

  /// Forgets everything. For the child after a fork: works even if another thread of the parent held
  /// the mutex.
  void ResetAfterFork() noexcept;

 private:
  struct Slot {
    std::atomic<uint64_t> key;
    std::atomic<uint64_t> value;
  };
  /// The address of the slots and their number, a power of two, in one word, which saves a look-up one
  /// cache line. The slots are whole pages, so that the logarithm of the number fits into the low bits
  /// of the address.
  class Table {
   public:
    explicit Table(uintptr_t word) noexcept : word_(word) {}
    Table(Slot* slots, unsigned log2) noexcept : word_(reinterpret_cast<uintptr_t>(slots) | log2) {}
    explicit operator bool() const noexcept { return word_ != 0; }
    uintptr_t word() const noexcept { return word_; }
    size_t slots() const noexcept { return size_t{1} << (word_ & kLog2Mask); }
    Slot& operator[](size_t at) const noexcept {
      return reinterpret_cast<Slot*>(word_ & ~kLog2Mask)[at & (slots() - 1)];
    }

   private:
    static constexpr uintptr_t kLog2Mask = 63;
    uintptr_t word_;
  };
  static constexpr uint64_t kEmpty = 0;
  static constexpr uint64_t kErased = 1;  // never a key: handles 0, 1 and 2 name default streams

  /// Handles are mostly addresses, whose low four bits are 0 and are dropped. The factor is 2^64 divided
  /// by the golden ratio; the shift drops the low bits of the product, which depend on few bits of the key.
  static size_t Hash(uint64_t key) noexcept {
    return static_cast<size_t>((key >> 4) * 0x9E3779B97F4A7C15ull >> 20);
  }
  void EraseAt(Table table, size_t at) noexcept;
  /// A table of 2^log2 empty slots; one that is false if memory is out.
  static Table MakeTable(unsigned log2) noexcept;
  /// Returns whether the place was empty; otherwise it was that of an erased handle.
  static bool Insert(Table table, uint64_t key, uint64_t value) noexcept;
  bool Grow() noexcept;

  std::atomic<uintptr_t> table_{0};
  size_t used_ = 0;  ///< slots that are not empty, erased ones included
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

template <typename Wants>
void HandleMap::EraseIf(Wants&& wants) noexcept {
  const MutexLock lock(mutex_);
  const Table table(table_.load(std::memory_order_relaxed));
  for (size_t at = 0; table && at < table.slots(); ++at) {
    const uint64_t key = table[at].key.load(std::memory_order_relaxed);
    if (key <= kErased) continue;
    const uint64_t value = table[at].value.load(std::memory_order_relaxed);
    if (wants(reinterpret_cast<const void*>(key), value)) EraseAt(table, at);
  }
}

}  // namespace cupola::intercept
