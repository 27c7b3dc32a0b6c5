// The device's address space: an arena for device memory, host ranges that kernels may reach, and
// the windows through which a generic address names shared, local or parameter memory [PTX ISA
// 5.1, 6.4.1.1]. A device pointer is a host address, so addresses are never translated, only
// checked. The Device owns one AddressSpace, which any thread may use. Each thread that executes
// kernels has a MemoryView of its own, which reads without locks.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace cupola::sim {

/// The windows lie in one reserved, inaccessible range of the process's address space, so that no
/// pointer of the program can point into them.
struct Windows {
  static constexpr uint64_t kBytes = 16ull << 20;  ///< size of each window
  static constexpr uint64_t kCount = 3;
  uint64_t base = 0;
  uint64_t shared() const { return base; }
  uint64_t local() const { return base + kBytes; }
  uint64_t param() const { return base + 2 * kBytes; }
};

struct MemoryRange {
  uint64_t start = 0;
  uint64_t bytes = 0;
  bool is_host = false;
};

class AddressSpace {
 public:
  explicit AddressSpace(uint64_t memory_bytes);
  ~AddressSpace();
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  /// False when the operating system refused the reservation.
  bool ok() const { return arena_ != 0 && windows_.base != 0; }
  uint64_t arena() const { return arena_; }  ///< where device memory starts
  const Windows& windows() const { return windows_; }

  uint64_t Allocate(uint64_t bytes);  ///< address, 256-byte aligned; 0 when there is not enough
  bool Free(uint64_t address);        ///< false: not the start of an allocation
  void MapHost(uint64_t address, uint64_t bytes);
  void UnmapHost(uint64_t address);
  MemoryRange Find(uint64_t address) const;  ///< the range of `address`; 0 bytes: none
  uint64_t FreeBytes() const;

  /// Sorted by start; ranges of one kind do not overlap.
  using Snapshot = std::vector<MemoryRange>;
  /// The ranges as they are now. After a change, the next call makes a new snapshot.
  std::shared_ptr<const Snapshot> Current() const;
  /// Grows with every change of the ranges.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }

 private:
  void Changed() { version_.fetch_add(1, std::memory_order_acq_rel); }

  uint64_t arena_ = 0;
  uint64_t arena_bytes_ = 0;
  uint64_t free_bytes_ = 0;
  Windows windows_;
  mutable std::mutex mutex_;
  std::map<uint64_t, uint64_t> free_;       ///< start -> bytes; adjacent ranges are merged
  std::map<uint64_t, uint64_t> allocated_;  ///< start -> bytes asked for
  std::map<uint64_t, uint64_t> host_;       ///< start -> bytes
  mutable std::shared_ptr<const Snapshot> snapshot_;
  mutable uint64_t snapshot_version_ = 0;
  std::atomic<uint64_t> version_{1};
};

/// One thread's cached view of the address space: the last range it touched and a snapshot of all.
/// When a range is freed while a kernel uses it, the view sees that at the next Refresh or miss.
class MemoryView {
 public:
  explicit MemoryView(const AddressSpace* space) : space_(space) {}

  /// Whether [address, +size) lies in one allocation or mapped range.
  bool Contains(uint64_t address, uint64_t size) {
    const uint64_t offset = address - last_.start;
    if (offset < last_.bytes && last_.bytes - offset >= size) return true;
    return ContainsSlow(address, size);
  }

  /// Drops what is cached if ranges were added or removed since it was cached.
  void Refresh() {
    if (version_ != space_->version()) Reload();
  }

 private:
  bool ContainsSlow(uint64_t address, uint64_t size);
  bool Search(uint64_t address, uint64_t size);
  void Reload();

  const AddressSpace* space_;
  MemoryRange last_;
  std::shared_ptr<const AddressSpace::Snapshot> snapshot_;
  uint64_t version_ = 0;
};

}  // namespace cupola::sim
