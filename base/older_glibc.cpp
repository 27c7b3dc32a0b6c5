// Two functions that the compiler's static libraries (libstdc++, libgcc_eh) take from the C library where they were
// built with a new one. With these two, what is shipped runs on glibc 2.34 and later. They are hidden: each object that
// is linked with this file has its own. Nothing here allocates or throws.
#include <cstddef>
#include <cstdint>

#include <dlfcn.h>
#include <link.h>
#include <sys/random.h>

#define CUPOLA_OWN extern "C" __attribute__((visibility("hidden")))

/// For std::random_device. glibc has it from 2.36 on. Like glibc's it ends in a trap where the system has no random
/// numbers, since it has no way to report that [arc4random(3)].
CUPOLA_OWN unsigned cupola_arc4random() noexcept __asm__("arc4random");
unsigned cupola_arc4random() noexcept {
  unsigned number = 0;
  if (getentropy(&number, sizeof(number)) != 0) __builtin_trap();
  return number;
}

#ifdef DLFO_EH_SEGMENT_TYPE

namespace {

struct Search {
  uintptr_t address;
  dl_find_object* found;
};

int LookAtObject(dl_phdr_info* object, size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  uintptr_t start = UINTPTR_MAX, end = 0, frames = 0;
  for (unsigned i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    const uintptr_t at = object->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == DLFO_EH_SEGMENT_TYPE) frames = at;
    if (segment.p_type != PT_LOAD) continue;
    if (at < start) start = at;
    if (at + segment.p_memsz > end) end = at + segment.p_memsz;
  }
  if (search.address < start || search.address >= end || frames == 0) return 0;
  search.found->dlfo_map_start = reinterpret_cast<void*>(start);
  search.found->dlfo_map_end = reinterpret_cast<void*>(end);
  search.found->dlfo_eh_frame = reinterpret_cast<void*>(frames);
  return 1;
}

}  // namespace

/// For the unwinder, which reads `dlfo_eh_frame`. glibc has it from 2.35 on; with an older one, the unwinder itself did
/// what this function does. Returns 0 where an object holds the address, else -1 [GNU C Library manual, "Dynamic Linker
/// Introspection"].
CUPOLA_OWN int cupola_find_object(void* address, dl_find_object* found) noexcept __asm__("_dl_find_object");
int cupola_find_object(void* address, dl_find_object* found) noexcept {
  *found = {};
  Search search{reinterpret_cast<uintptr_t>(address), found};
  return dl_iterate_phdr(&LookAtObject, &search) == 1 ? 0 : -1;
}

#endif
