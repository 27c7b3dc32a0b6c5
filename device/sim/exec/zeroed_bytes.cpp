#include "device/sim/exec/zeroed_bytes.h"

#include <sys/mman.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace cupola::sim {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kMostKept = 32u << 20;  // bytes of address space per thread

thread_local bool is_over = false;  // this thread has given back what it kept, as it ends

/// Mappings that this thread needs no more. A new page costs more than to clear one that is there.
class KeptPages {
 public:
  ~KeptPages() {
    for (const Mapping& mapping : kept_) munmap(mapping.bytes, mapping.size);
    is_over = true;
  }

  uint8_t* Take(size_t size) {
    const auto found =
        std::find_if(kept_.rbegin(), kept_.rend(), [=](const Mapping& mapping) { return mapping.size == size; });
    if (found == kept_.rend()) return nullptr;
    uint8_t* const bytes = found->bytes;
    kept_.erase(std::next(found).base());
    bytes_ -= size;
    if (Clear(bytes, size)) return bytes;
    munmap(bytes, size);
    return nullptr;
  }

  bool Keep(uint8_t* bytes, size_t size) {
    if (bytes_ + size > kMostKept) return false;
    kept_.push_back({bytes, size});
    bytes_ += size;
    return true;
  }

 private:
  struct Mapping {
    uint8_t* bytes;
    size_t size;
  };

  /// Clears the pages that are there. False if the system does not say which; it says nothing of those in a swap area.
  static bool Clear(uint8_t* bytes, size_t size) {
    struct sysinfo facts;
    if (sysinfo(&facts) != 0 || facts.totalswap != 0) return false;
    unsigned char present[256];
    for (size_t at = 0; at < size; at += sizeof present * kPage) {
      const size_t part = std::min(size - at, sizeof present * kPage);
      if (mincore(bytes + at, part, present) != 0) return false;
      for (size_t page = 0; page * kPage < part; ++page) {
        if ((present[page] & 1) != 0) std::memset(bytes + at + page * kPage, 0, std::min(kPage, part - page * kPage));
      }
    }
    return true;
  }

  std::vector<Mapping> kept_;
  size_t bytes_ = 0;
};

thread_local KeptPages kept_pages;

}  // namespace

uint8_t* MapZeros(size_t size) {
  uint8_t* const kept = is_over ? nullptr : kept_pages.Take(size);
  if (kept != nullptr) return kept;
  void* const mapped =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return mapped == MAP_FAILED ? nullptr : static_cast<uint8_t*>(mapped);
}

void UnmapZeros(uint8_t* bytes, size_t size) {
  if (is_over || !kept_pages.Keep(bytes, size)) munmap(bytes, size);
}

}  // namespace cupola::sim
