#include "intercept/handle_map.h"

#include <sys/mman.h>

namespace cupola::intercept {

namespace {
constexpr unsigned kLeastLog2 = 10;
}

// Zero pages straight from the system: the host's allocator is not ours to call.
HandleMap::Table HandleMap::MakeTable(unsigned log2) noexcept {
  void* memory = mmap(nullptr, sizeof(Slot) << log2, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? Table(0) : Table(static_cast<Slot*>(memory), log2);
}

// The value goes in before the key: a reader that sees the key (acquire) sees the value.
void HandleMap::Insert(Table table, uint64_t key, uint64_t value) noexcept {
  size_t at = Hash(key);
  while (table[at].key.load(std::memory_order_relaxed) != kEmpty) ++at;
  table[at].value.store(value, std::memory_order_relaxed);
  table[at].key.store(key, std::memory_order_release);
}

bool HandleMap::Grow() noexcept {
  const Table old(table_.load(std::memory_order_relaxed));
  const size_t old_slots = old ? old.slots() : 0;
  size_t live = 0;
  for (size_t i = 0; i < old_slots; ++i) {
    live += old[i].key.load(std::memory_order_relaxed) > kErased;
  }
  unsigned log2 = kLeastLog2;
  while (size_t{1} << log2 < live * 4) ++log2;
  const Table table = MakeTable(log2);
  if (!table) return false;
  for (size_t i = 0; i < old_slots; ++i) {
    const uint64_t key = old[i].key.load(std::memory_order_relaxed);
    if (key > kErased) Insert(table, key, old[i].value.load(std::memory_order_relaxed));
  }
  used_ = live;
  table_.store(table.word(), std::memory_order_release);
  return true;
}

bool HandleMap::Set(const void* handle, uint64_t value) noexcept {
  const uint64_t key = reinterpret_cast<uint64_t>(handle);
  if (key <= kErased) return false;
  const MutexLock lock(mutex_);
  const Table table(table_.load(std::memory_order_relaxed));
  for (size_t at = Hash(key); table; ++at) {
    Slot& slot = table[at];
    const uint64_t found = slot.key.load(std::memory_order_relaxed);
    if (found == key) {
      slot.value.store(value, std::memory_order_relaxed);
      return false;
    }
    if (found == kEmpty) break;
  }
  if ((!table || used_ * 2 >= table.slots()) && !Grow()) return false;
  Insert(Table(table_.load(std::memory_order_relaxed)), key, value);
  ++used_;
  return true;
}

bool HandleMap::Erase(const void* handle) noexcept {
  const uint64_t key = reinterpret_cast<uint64_t>(handle);
  if (key <= kErased) return false;
  const MutexLock lock(mutex_);
  const Table table(table_.load(std::memory_order_relaxed));
  for (size_t at = Hash(key); table; ++at) {
    Slot& slot = table[at];
    const uint64_t found = slot.key.load(std::memory_order_relaxed);
    if (found == kEmpty) return false;
    if (found == key) {
      EraseSlot(slot);
      return true;
    }
  }
  return false;
}

void HandleMap::ResetAfterFork() noexcept {
  mutex_ = PTHREAD_MUTEX_INITIALIZER;
  used_ = 0;
  table_.store(0, std::memory_order_release);
}

}  // namespace cupola::intercept
