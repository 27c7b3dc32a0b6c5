// How many bytes one part of a program holds on the heap: what is allocated within a HeapScope counts until it is freed,
// wherever that happens. By operators new and delete, which heap_count.cpp replaces. Any thread; a scope counts what all
// threads allocate meanwhile.
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
