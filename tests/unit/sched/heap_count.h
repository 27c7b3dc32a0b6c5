// Counts how many bytes one part of a program holds on the heap: what is allocated within a HeapScope counts until it
// is freed, wherever that happens. heap_count.cpp replaces the operators new and delete for this. Any thread; a scope
// counts what all threads allocate while it lives.
#pragma once

#include <cstdint>

namespace cupola {

class HeapScope {
 public:
  HeapScope();
  HeapScope(const HeapScope&) = delete;
  HeapScope& operator=(const HeapScope&) = delete;
  ~HeapScope();
};

/// Bytes that were asked for within scopes and have not been freed.
int64_t HeapScopeBytes();

}  // namespace cupola
