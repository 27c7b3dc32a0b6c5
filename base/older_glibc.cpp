// Two functions of newer versions of the C library glibc. The compiler's static libraries (libstdc++, libgcc_eh) call
// them where they were built with such a glibc. Programs and libraries that are shipped are linked with this file, and
// so run on glibc 2.34 and later although they contain those static libraries. The functions are hidden: each linked
// object has its own, and other objects of the process do not see them. Any thread may call them. Nothing here
// allocates or throws.
#include <cstddef>
#include <cstdint>

#include <dlfcn.h>
#include <link.h>
#include <sys/random.h>

// The functions have names of their own in C++, because the C library's headers may declare the real ones. `__asm__`
// below gives them the linker's names that the static libraries ask for.
#define CUPOLA_OWN extern "C" __attribute__((visibility("hidden")))

/// For std::random_device. glibc has it from 2.36 on. Like glibc's it ends in a trap where the system has no random
/// numbers, since it has no way to report that [arc4random(3)].
CUPOLA_OWN unsigned cupola_arc4random() noexcept __asm__("arc4random");
unsigned cupola_arc4random() noexcept {
  unsigned number = 0;
  if (getentropy(&number, sizeof(number)) != 0) __builtin_trap();
  return number;
}

// The headers have this where the glibc of the build has _dl_find_object. Where it has none, nothing asks for it.
#ifdef DLFO_EH_SEGMENT_TYPE

namespace {

struct Search {
  uintptr_t address;      // of code; the object that holds it is wanted
  dl_find_object* found;  // filled in for that object
};

/// For dl_iterate_phdr(3): fills in `found` if the address lies between the first and the last byte of this object's
/// loaded segments and the object has unwind tables. Returns 1, which ends the iteration; else 0.
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
