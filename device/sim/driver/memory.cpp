#include "device/sim/driver/memory.h"

#include <sys/mman.h>

#include <vector>

namespace cupola::sim {
namespace {

constexpr uint64_t kPage = 4096;

uint64_t PageCeil(uint64_t bytes) { return (bytes + kPage - 1) & ~(kPage - 1); }

}  // namespace

uint64_t MemoryTable::AllocateDevice(uint64_t bytes, MemoryKind kind, Context* context,
                                     void* pool) {
  if (bytes == 0) return 0;
  const uint64_t address = device_->Allocate(bytes);
  if (address == 0) return 0;
  std::lock_guard lock(mutex_);
  by_start_[address] = {address, bytes, kind, 0, context, next_id_++, pool};
  return address;
}

uint64_t MemoryTable::AllocateHost(uint64_t bytes, MemoryKind kind, uint32_t flags,
                                   Context* context) {
  if (bytes == 0 || bytes > device_->config().memory_bytes * 16) return 0;
  void* memory = mmap(nullptr, PageCeil(bytes), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return 0;
  const auto address = reinterpret_cast<uint64_t>(memory);
  device_->MapHost(address, bytes);
  std::lock_guard lock(mutex_);
  by_start_[address] = {address, bytes, kind, flags, context, next_id_++, nullptr};
  return address;
}

bool MemoryTable::Register(uint64_t address, uint64_t bytes, uint32_t flags, Context* context) {
  std::lock_guard lock(mutex_);
  auto next = by_start_.lower_bound(address);
  if (next != by_start_.end() && next->first < address + bytes) return false;
  if (next != by_start_.begin()) {
    const Allocation& before = std::prev(next)->second;
    if (before.start + before.bytes > address) return false;
  }
  by_start_[address] = {address, bytes, MemoryKind::kRegistered, flags, context, next_id_++,
                        nullptr};
  device_->MapHost(address, bytes);
  return true;
}

std::optional<Allocation> MemoryTable::TakeIf(uint64_t address, bool (*fits)(const Allocation&)) {
  std::lock_guard lock(mutex_);
  auto it = by_start_.find(address);
  if (it == by_start_.end() || !fits(it->second)) return std::nullopt;
  Allocation allocation = it->second;
  by_start_.erase(it);
  return allocation;
}

void MemoryTable::Release(const Allocation& allocation) {
  switch (allocation.kind) {
    case MemoryKind::kDevice:
    case MemoryKind::kPool: device_->Free(allocation.start); return;
    case MemoryKind::kHost:
    case MemoryKind::kManaged:
      device_->UnmapHost(allocation.start);
      munmap(reinterpret_cast<void*>(allocation.start), PageCeil(allocation.bytes));
      return;
    case MemoryKind::kRegistered: device_->UnmapHost(allocation.start); return;
    case MemoryKind::kVariable: return;
  }
}

bool MemoryTable::FreeDevice(uint64_t address) {
  auto taken = TakeIf(address, [](const Allocation& a) { return !a.is_host(); });
  if (taken) Release(*taken);
  return taken.has_value();
}

bool MemoryTable::FreeHost(uint64_t address) {
  auto taken =
      TakeIf(address, [](const Allocation& a) { return a.kind == MemoryKind::kHost; });
  if (taken) Release(*taken);
  return taken.has_value();
}

bool MemoryTable::Unregister(uint64_t address) {
  auto taken =
      TakeIf(address, [](const Allocation& a) { return a.kind == MemoryKind::kRegistered; });
  if (taken) Release(*taken);
  return taken.has_value();
}

bool MemoryTable::Forget(uint64_t address) {
  return TakeIf(address, [](const Allocation& a) {
           return a.kind == MemoryKind::kDevice || a.kind == MemoryKind::kPool;
         }).has_value();
}

void MemoryTable::FreeAll(Context* context) {
  std::vector<Allocation> owned;
  {
    std::lock_guard lock(mutex_);
    for (auto it = by_start_.begin(); it != by_start_.end();) {
      const bool is_owned = it->second.context == context;
      if (is_owned) owned.push_back(it->second);
      it = is_owned ? by_start_.erase(it) : std::next(it);
    }
  }
  for (const Allocation& allocation : owned) Release(allocation);
}

std::optional<Allocation> MemoryTable::Find(uint64_t address) const {
  {
    std::lock_guard lock(mutex_);
    auto it = by_start_.upper_bound(address);
    if (it != by_start_.begin()) {
      const Allocation& before = std::prev(it)->second;
      if (address - before.start < before.bytes) return before;
    }
  }
  const Device::Range range = device_->FindRange(address);
  if (range.bytes == 0) return std::nullopt;
  return Allocation{range.start, range.bytes, MemoryKind::kVariable};
}

bool MemoryTable::Holds(uint64_t address, uint64_t bytes) const {
  const std::optional<Allocation> found = Find(address);
  return found && bytes <= found->bytes - (address - found->start);
}

}  // namespace cupola::sim
