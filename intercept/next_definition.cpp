#include "intercept/next_definition.h"

#include <cstring>

#include <dlfcn.h>
#include <link.h>

#include "intercept/driver.h"
#include "intercept/handle_map.h"

namespace cupola::intercept {

HandleMap definitions[static_cast<size_t>(DoorName::kCount)];

namespace {

constexpr const char* kDoorNames[] = {
    "cudaLaunchKernel",    "cudaLaunchKernel_ptsz",    "__cudaLaunchKernel",
    "__cudaLaunchKernel_ptsz", "cudaLaunchKernelExC",  "cudaLaunchKernelExC_ptsz",
    "cudaLaunchCooperativeKernel", "cudaLaunchCooperativeKernel_ptsz",
};
static_assert(sizeof(kDoorNames) / sizeof(*kDoorNames) == static_cast<size_t>(DoorName::kCount));

const char* BaseName(const char* path) {
  const char* slash = strrchr(path, '/');
  return slash != nullptr ? slash + 1 : path;
}

bool IsRuntime(const char* path) { return strncmp(BaseName(path), "libcudart.so", 12) == 0; }

// An entry of an object's dynamic section.
const ElfW(Dyn)* FindDynamic(const link_map* object, ElfW(Sxword) tag) {
  for (const ElfW(Dyn)* entry = object->l_ld; entry != nullptr && entry->d_tag != DT_NULL;
       ++entry) {
    if (entry->d_tag == tag) return entry;
  }
  return nullptr;
}

// An object's strings. glibc relocates the pointer, but not in a read-only dynamic section (the
// vDSO).
const char* StringsOf(const link_map* object) {
  const ElfW(Dyn)* entry = FindDynamic(object, DT_STRTAB);
  if (entry == nullptr) return nullptr;
  const ElfW(Addr) at = entry->d_un.d_ptr;
  return reinterpret_cast<const char*>(at < object->l_addr ? at + object->l_addr : at);
}

// A handle on a loaded file that keeps it loaded for good: pointers into it are kept for ever.
void* Pin(const char* path) { return RealDlopen(path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE); }

void* DefinitionIn(const char* path, const char* name) {
  void* handle = Pin(path);
  if (handle == nullptr) return nullptr;
  void* found = RealDlsym(handle, name);
  dlclose(handle);
  return found;
}

bool HasSoname(const link_map* object, const char* soname) {
  const char* texts = StringsOf(object);
  const ElfW(Dyn)* own = FindDynamic(object, DT_SONAME);
  if (texts == nullptr || own == nullptr) return strcmp(BaseName(object->l_name), soname) == 0;
  return strcmp(texts + own->d_un.d_val, soname) == 0;
}

link_map* FirstObject(link_map* any) {
  while (any->l_prev != nullptr) any = any->l_prev;
  return any;
}

// The libcudart among the caller's needed libraries.
void* FromNeeded(link_map* caller, const char* name) {
  const char* texts = StringsOf(caller);
  if (texts == nullptr) return nullptr;
  for (const ElfW(Dyn)* entry = caller->l_ld; entry->d_tag != DT_NULL; ++entry) {
    const char* soname = texts + entry->d_un.d_val;
    if (entry->d_tag != DT_NEEDED || !IsRuntime(soname)) continue;
    for (link_map* object = FirstObject(caller); object != nullptr; object = object->l_next) {
      if (!HasSoname(object, soname)) continue;
      if (void* found = DefinitionIn(object->l_name, name)) return found;
    }
  }
  return nullptr;
}

// Any libcudart of the process: a caller that got at it without needing it.
void* FromAny(link_map* start, const char* name) {
  for (link_map* object = FirstObject(start); object != nullptr; object = object->l_next) {
    if (!IsRuntime(object->l_name)) continue;
    if (void* found = DefinitionIn(object->l_name, name)) return found;
  }
  return nullptr;
}

void* Resolve(const char* name, const void* caller) {
  Dl_info info;
  link_map* object = nullptr;
  if (dladdr1(caller, &info, reinterpret_cast<void**>(&object), RTLD_DL_LINKMAP) == 0) {
    object = nullptr;
  }
  void* found = object != nullptr ? FromNeeded(object, name) : nullptr;
  if (found == nullptr) found = RealDlsym(RTLD_NEXT, name);
  if (found == nullptr && object != nullptr) found = FromAny(object, name);
  return found;
}

}  // namespace

void* NextDefinition(DoorName door, const void* caller) noexcept {
  if (void* known = KnownDefinition(door, caller)) [[likely]] return known;
  const size_t index = static_cast<size_t>(door);
  void* found = Resolve(kDoorNames[index], caller);
  if (found != nullptr) definitions[index].Set(caller, reinterpret_cast<uint64_t>(found));
  return found;
}

}  // namespace cupola::intercept
