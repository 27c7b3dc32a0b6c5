#include "device/sim/exec/memory.h"

#include <sys/mman.h>

#include <algorithm>

namespace cupola::sim {
namespace {

constexpr uint64_t kAlign = 256;
constexpr uint64_t kPage = 4096;

uint64_t Reserve(uint64_t bytes, int protection) {
  void* address =
      mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return address == MAP_FAILED ? 0 : reinterpret_cast<uint64_t>(address);
}

}  // namespace

AddressSpace::AddressSpace(uint64_t memory_bytes)
    : arena_(Reserve(memory_bytes, PROT_READ | PROT_WRITE)),
      arena_bytes_(memory_bytes),
      free_bytes_(memory_bytes) {
  windows_.base = Reserve(Windows::kBytes * Windows::kCount, PROT_NONE);
  if (arena_ != 0) {
    free_[arena_] = memory_bytes;
    madvise(reinterpret_cast<void*>(arena_), memory_bytes, MADV_DONTDUMP);
  }
}

AddressSpace::~AddressSpace() {
  if (arena_ != 0) munmap(reinterpret_cast<void*>(arena_), arena_bytes_);
  if (windows_.base != 0) {
    munmap(reinterpret_cast<void*>(windows_.base), Windows::kBytes * Windows::kCount);
  }
}

uint64_t AddressSpace::Allocate(uint64_t bytes) {
  if (bytes == 0 || bytes > arena_bytes_) return 0;
  const uint64_t padded = (bytes + kAlign - 1) / kAlign * kAlign;
  std::lock_guard lock(mutex_);
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (it->second < padded) continue;
    const uint64_t start = it->first;
    const uint64_t rest = it->second - padded;
    free_.erase(it);
    if (rest != 0) free_[start + padded] = rest;
    allocated_[start] = bytes;
    free_bytes_ -= padded;
    Changed();
    return start;
  }
  return 0;
}

bool AddressSpace::Free(uint64_t address) {
  std::lock_guard lock(mutex_);
  const auto it = allocated_.find(address);
  if (it == allocated_.end()) return false;
  uint64_t start = address;
  uint64_t bytes = (it->second + kAlign - 1) / kAlign * kAlign;
  allocated_.erase(it);
  free_bytes_ += bytes;
  // Whole pages go back to the operating system; their addresses stay reserved.
  const uint64_t first_page = (start + kPage - 1) / kPage * kPage;
  const uint64_t end_page = (start + bytes) / kPage * kPage;
  if (end_page > first_page) {
    madvise(reinterpret_cast<void*>(first_page), end_page - first_page, MADV_DONTNEED);
  }
  auto next = free_.lower_bound(start);
  if (next != free_.end() && next->first == start + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == start) {
      start = before->first;
      bytes += before->second;
      free_.erase(before);
    }
  }
  free_[start] = bytes;
  Changed();
  return true;
}

void AddressSpace::MapHost(uint64_t address, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  host_[address] = bytes;
  Changed();
}

void AddressSpace::UnmapHost(uint64_t address) {
  std::lock_guard lock(mutex_);
  host_.erase(address);
  Changed();
}

MemoryRange AddressSpace::Find(uint64_t address) const {
  std::lock_guard lock(mutex_);
  for (const auto* ranges : {&allocated_, &host_}) {
    auto it = ranges->upper_bound(address);
    if (it == ranges->begin()) continue;
    --it;
    if (address - it->first < it->second) return {it->first, it->second, ranges == &host_};
  }
  return {};
}

uint64_t AddressSpace::FreeBytes() const {
  std::lock_guard lock(mutex_);
  return free_bytes_;
}

std::shared_ptr<const AddressSpace::Snapshot> AddressSpace::Current() const {
  std::lock_guard lock(mutex_);
  const uint64_t now = version();
  if (!snapshot_ || snapshot_version_ != now) {
    auto fresh = std::make_shared<Snapshot>();
    fresh->reserve(allocated_.size() + host_.size());
    for (const auto& [start, bytes] : allocated_) fresh->push_back({start, bytes, false});
    for (const auto& [start, bytes] : host_) fresh->push_back({start, bytes, true});
    std::sort(fresh->begin(), fresh->end(),
              [](const MemoryRange& a, const MemoryRange& b) { return a.start < b.start; });
    snapshot_ = std::move(fresh);
    snapshot_version_ = now;
  }
  return snapshot_;
}

void MemoryView::Reload() {
  version_ = space_->version();
  snapshot_ = space_->Current();
  last_ = {};
}

bool MemoryView::Search(uint64_t address, uint64_t size) {
  if (!snapshot_) return false;
  auto it = std::upper_bound(snapshot_->begin(), snapshot_->end(), address,
                             [](uint64_t a, const MemoryRange& r) { return a < r.start; });
  if (it == snapshot_->begin()) return false;
  --it;
  const uint64_t offset = address - it->start;
  if (offset >= it->bytes || it->bytes - offset < size) return false;
  last_ = *it;
  return true;
}

bool MemoryView::ContainsSlow(uint64_t address, uint64_t size) {
  if (Search(address, size)) return true;
  if (version_ == space_->version()) return false;
  Reload();
  return Search(address, size);
}

}  // namespace cupola::sim
