#include "intercept/handle_map.h"

#include <sys/mman.h>

#include "intercept/mutex_lock.h"

namespace cupola::intercept {

// Zero pages straight from the system: the host's allocator is not ours to call.
HandleMap::Table* HandleMap::MakeTable(size_t slots) noexcept {
  void* memory = mmap(nullptr, sizeof(Table) + slots * sizeof(Slot), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* table = static_cast<Table*>(memory);
  table->mask = slots - 1;
  return table;
}

// The value goes in before the key: a reader that sees the key (acquire) sees the value.
void HandleMap::Insert(Table* table, uint64_t key, uint64_t value) noexcept {
  size_t at = Hash(key) & table->mask;
  while (table->slots[at].key.load(std::memory_order_relaxed) != kEmpty)
    at = (at + 1) & table->mask;
  table->slots[at].value.store(value, std::memory_order_relaxed);
  table->slots[at].key.store(key, std::memory_order_release);
}

bool HandleMap::Grow() noexcept {
  Table* old = table_.load(std::memory_order_relaxed);
  size_t live = 0;
  if (old != nullptr) {
    for (size_t i = 0; i <= old->mask; ++i) {
      live += old->slots[i].key.load(std::memory_order_relaxed) > kErased;
    }
  }
  size_t slots = 1024;
  while (slots < live * 4) slots *= 2;
  Table* table = MakeTable(slots);
  if (table == nullptr) return false;
  for (size_t i = 0; old != nullptr && i <= old->mask; ++i) {
    const uint64_t key = old->slots[i].key.load(std::memory_order_relaxed);
    if (key > kErased) Insert(table, key, old->slots[i].value.load(std::memory_order_relaxed));
  }
  used_ = live;
  table_.store(table, std::memory_order_release);
  return true;
}

void HandleMap::Set(const void* handle, uint64_t value) noexcept {
  const uint64_t key = reinterpret_cast<uint64_t>(handle);
  if (key <= kErased) return;
  const MutexLock lock(mutex_);
  Table* table = table_.load(std::memory_order_relaxed);
  for (size_t at = Hash(key); table != nullptr; ++at) {
    Slot& slot = table->slots[at & table->mask];
    const uint64_t found = slot.key.load(std::memory_order_relaxed);
    if (found == key) return slot.value.store(value, std::memory_order_relaxed);
    if (found == kEmpty) break;
  }
  if ((table == nullptr || used_ * 2 > table->mask) && !Grow()) return;
  Insert(table_.load(std::memory_order_relaxed), key, value);
  ++used_;
}

void HandleMap::Erase(const void* handle) noexcept {
  const uint64_t key = reinterpret_cast<uint64_t>(handle);
  if (key <= kErased) return;
  const MutexLock lock(mutex_);
  Table* table = table_.load(std::memory_order_relaxed);
  for (size_t at = Hash(key); table != nullptr; ++at) {
    Slot& slot = table->slots[at & table->mask];
    const uint64_t found = slot.key.load(std::memory_order_relaxed);
    if (found == kEmpty) return;
    if (found == key) return slot.key.store(kErased, std::memory_order_release);
  }
}

void HandleMap::ResetAfterFork() noexcept {
  mutex_ = PTHREAD_MUTEX_INITIALIZER;
  used_ = 0;
  table_.store(nullptr, std::memory_order_release);
}

}  // namespace cupola::intercept
