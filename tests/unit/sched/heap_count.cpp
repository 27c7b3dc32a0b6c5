#include "heap_count.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int> scopes{0};
std::atomic<int64_t> held{0};

/// In front of each allocation; keeps what follows aligned.
struct alignas(__STDCPP_DEFAULT_NEW_ALIGNMENT__) Head {
  int64_t counted = 0;  ///< bytes that count; 0 = it was allocated outside of all scopes
};

}  // namespace

void* operator new(size_t bytes) {
  void* memory = std::malloc(sizeof(Head) + bytes);
  if (memory == nullptr) throw std::bad_alloc();
  auto* head = new (memory) Head;
  if (scopes.load(std::memory_order_relaxed) != 0) {
    head->counted = static_cast<int64_t>(bytes);
    held.fetch_add(head->counted, std::memory_order_relaxed);
  }
  return head + 1;
}

void operator delete(void* memory) noexcept {
  if (memory == nullptr) return;
  auto* head = static_cast<Head*>(memory) - 1;
  held.fetch_sub(head->counted, std::memory_order_relaxed);
  std::free(head);
}

void operator delete(void* memory, size_t) noexcept { operator delete(memory); }
void* operator new[](size_t bytes) { return operator new(bytes); }
void operator delete[](void* memory) noexcept { operator delete(memory); }
void operator delete[](void* memory, size_t) noexcept { operator delete(memory); }

void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return operator new(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new[](size_t bytes, const std::nothrow_t& none) noexcept { return operator new(bytes, none); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { operator delete(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { operator delete(memory); }

namespace cupola {

HeapScope::HeapScope() { scopes.fetch_add(1); }
HeapScope::~HeapScope() { scopes.fetch_sub(1); }

int64_t HeapScopeBytes() { return held.load(); }

}  // namespace cupola
