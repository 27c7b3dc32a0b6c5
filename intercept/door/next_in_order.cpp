#include "intercept/door/next_in_order.h"

#include <cstdint>

#include <elf.h>
#include <link.h>

// glibc has _r_debug, musl has _dl_debug_addr; both lead to the list of loaded objects. The references are
// weak, so that either loader can load this object.
extern r_debug _r_debug __attribute__((weak));
extern "C" r_debug* const _dl_debug_addr __attribute__((weak));
extern ElfW(Dyn) _DYNAMIC[] __attribute__((visibility("hidden")));

namespace cupola::intercept {
namespace {

// The first object in the order in which the dynamic linker searches: the program. Null for a loader that has neither
// list; then nothing is found.
const link_map* FirstObject() {
  if (&_r_debug != nullptr) return _r_debug.r_map;
  if (&_dl_debug_addr != nullptr && _dl_debug_addr != nullptr) return _dl_debug_addr->r_map;
  return nullptr;
}

// The door's entry in that list, known by the address of its dynamic section.
const link_map* OwnObject() {
  const link_map* object = FirstObject();
  while (object != nullptr && object->l_ld != _DYNAMIC) object = object->l_next;
  return object;
}

// strcmp is not used: no function of any library is called here (next_in_order.h).
bool IsSame(const char* a, const char* b) {
  while (*a != '\0' && *a == *b) ++a, ++b;
  return *a == *b;
}

/// What a lookup needs of an object's dynamic section. glibc has relocated the pointers there, except in a
/// read-only section (the vDSO's); musl has not.
struct Symbols {
  const ElfW(Sym)* table = nullptr;
  const char* names = nullptr;
  const ElfW(Half)* versions = nullptr;  // of DT_VERSYM, by symbol; null: the object has no versions
  const uint32_t* gnu_hash = nullptr;
  const uint32_t* hash = nullptr;

  explicit Symbols(const link_map& object) {
    for (const ElfW(Dyn)* entry = object.l_ld; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
      const ElfW(Addr) given = entry->d_un.d_ptr;
      const ElfW(Addr) at = given < object.l_addr ? given + object.l_addr : given;
      switch (entry->d_tag) {
        case DT_SYMTAB: table = reinterpret_cast<const ElfW(Sym)*>(at); break;
        case DT_STRTAB: names = reinterpret_cast<const char*>(at); break;
        case DT_VERSYM: versions = reinterpret_cast<const ElfW(Half)*>(at); break;
        case DT_GNU_HASH: gnu_hash = reinterpret_cast<const uint32_t*>(at); break;
        case DT_HASH: hash = reinterpret_cast<const uint32_t*>(at); break;
        default: break;
      }
    }
  }

  // A symbol of a hidden version (bit 15) is for programs that were linked with it long ago; a new reference
  // does not mean it.
  bool Defines(uint32_t index, const char* name) const {
    const ElfW(Sym)& symbol = table[index];
    return symbol.st_shndx != SHN_UNDEF && symbol.st_value != 0 &&
           (versions == nullptr || (versions[index] & 0x8000) == 0) &&
           IsSame(names + symbol.st_name, name);
  }

  // The hash table of DT_GNU_HASH: bucket count, first hashed symbol, words of the filter, its shift, the
  // filter (64-bit words), buckets, and for each symbol from the first on its hash, whose bit 0 ends a chain.
  const ElfW(Sym)* FindByGnuHash(const char* name) const {
    uint32_t wanted = 5381;
    for (const char* at = name; *at != '\0'; ++at) wanted = wanted * 33 + static_cast<uint8_t>(*at);
    const uint32_t bucket_count = gnu_hash[0], first = gnu_hash[1], filter_words = gnu_hash[2];
    if (bucket_count == 0) return nullptr;
    const uint32_t* const buckets = gnu_hash + 4 + 2 * filter_words;
    const uint32_t* const chains = buckets + bucket_count;
    for (uint32_t index = buckets[wanted % bucket_count]; index >= first && index != 0; ++index) {
      const uint32_t hash_of_symbol = chains[index - first];
      if ((hash_of_symbol | 1) == (wanted | 1) && Defines(index, name)) return &table[index];
      if ((hash_of_symbol & 1) != 0) return nullptr;
    }
    return nullptr;
  }

  // DT_HASH, of old objects: bucket count, symbol count, buckets, chains. Compares all symbols.
  const ElfW(Sym)* FindInAll(const char* name) const {
    for (uint32_t index = 1; index < hash[1]; ++index) {
      if (Defines(index, name)) return &table[index];
    }
    return nullptr;
  }

  const ElfW(Sym)* Find(const char* name) const {
    if (table == nullptr || names == nullptr) return nullptr;
    if (gnu_hash != nullptr) return FindByGnuHash(name);
    return hash != nullptr ? FindInAll(name) : nullptr;
  }
};

}  // namespace

void* NextInOrder(const char* name) noexcept {
  const link_map* object = OwnObject();
  if (object == nullptr) return nullptr;
  for (object = object->l_next; object != nullptr; object = object->l_next) {
    const ElfW(Sym)* const symbol = Symbols(*object).Find(name);
    if (symbol != nullptr) return reinterpret_cast<void*>(object->l_addr + symbol->st_value);
  }
  return nullptr;
}

const char* OwnPath() noexcept {
  const link_map* const object = OwnObject();
  return object != nullptr ? object->l_name : nullptr;
}

}  // namespace cupola::intercept
