#include "intercept/process/handle_map.h"

#include <sys/mman.h>

namespace cupola::intercept {

namespace {
constexpr unsigned kLeastLog2 = 10;
}

// Takes zero pages from the system, because Cupola must not call the program's allocator here.
HandleMap::Table HandleMap::MakeTable(unsigned log2) noexcept {
  void* memory = mmap(nullptr, sizeof(Slot) << log2, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? Table(0) : Table(static_cast<Slot*>(memory), log2);
}

// Puts the key, which is not in the table, into the first place on its path that is empty or
// erased. The value is stored before the key, so that a reader that sees the key (acquire) sees the
// value. A reader that saw the key that was erased here, and reads the value only now, gets the new
// value; it looks up a handle that is being destroyed. All other readers pass the place, before as
// after.
bool HandleMap::Insert(Table table, uint64_t key, uint64_t value) noexcept {
  size_t at = Hash(key);
  while (table[at].key.load(std::memory_order_relaxed) > kErased) ++at;
  const bool was_empty = table[at].key.load(std::memory_order_relaxed) == kEmpty;
  table[at].value.store(value, std::memory_order_relaxed);
  table[at].key.store(key, std::memory_order_release);
  return was_empty;
}

// Erases the key at a place. If the place is the last of a run, it and the erased places before it
// become empty: no key of the run lies beyond, so that a reader that stops here misses none. A
// reader that has passed these places already stops behind them.
void HandleMap::EraseAt(Table table, size_t at) noexcept {
  table[at].key.store(kErased, std::memory_order_release);
  if (table[at + 1].key.load(std::memory_order_relaxed) != kEmpty) return;
  for (; table[at].key.load(std::memory_order_relaxed) == kErased; --at) {
    table[at].key.store(kEmpty, std::memory_order_release);
    --used_;
  }
}

bool HandleMap::Grow() noexcept {
  const Table old(table_.load(std::memory_order_relaxed));
  const size_t old_slots = old ? old.slots() : 0;
  unsigned log2 = kLeastLog2;
  while (size_t{1} << log2 <= old_slots) ++log2;
  const Table table = MakeTable(log2);
  if (!table) return false;
  used_ = 0;
  for (size_t i = 0; i < old_slots; ++i) {
    const uint64_t key = old[i].key.load(std::memory_order_relaxed);
    if (key > kErased) used_ += Insert(table, key, old[i].value.load(std::memory_order_relaxed));
  }
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
  used_ += Insert(Table(table_.load(std::memory_order_relaxed)), key, value);
  return true;
}

bool HandleMap::Erase(const void* handle) noexcept {
  const uint64_t key = reinterpret_cast<uint64_t>(handle);
  if (key <= kErased) return false;
  const MutexLock lock(mutex_);
  const Table table(table_.load(std::memory_order_relaxed));
  for (size_t at = Hash(key); table; ++at) {
    const uint64_t found = table[at].key.load(std::memory_order_relaxed);
    if (found == kEmpty) return false;
    if (found == key) {
      EraseAt(table, at);
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
