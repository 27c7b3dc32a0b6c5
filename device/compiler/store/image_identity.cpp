#include "device/compiler/store/image_identity.h"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstring>

namespace cupola::store {
namespace {

// docs/formats.md; fatbinary_section.h.
constexpr uint32_t kWrapperMagic = 0x466243B1;
constexpr uint32_t kContainerMagic = 0xBA55ED50;
constexpr size_t kContainerHeader = 16;

// What nvcc's host code hands to the driver for a fatbin.
struct Wrapper {
  uint32_t magic;
  uint32_t version;
  const void* container;
  const void* units;  // of device linking; not read here
};

template <typename T>
T Load(const void* at, size_t offset = 0) {
  T value;
  std::memcpy(&value, static_cast<const char*>(at) + offset, sizeof(T));
  return value;
}

// Finds the build id in the notes of a segment, which are in memory at `notes`.
void ReadBuildId(const char* notes, size_t bytes, LoadedPlace& place) {
  size_t at = 0;
  while (at + sizeof(ElfW(Nhdr)) <= bytes) {
    const auto note = Load<ElfW(Nhdr)>(notes + at);
    const size_t name = at + sizeof(note);
    const size_t payload = name + ((note.n_namesz + size_t{3}) & ~size_t{3});
    const size_t next = payload + ((note.n_descsz + size_t{3}) & ~size_t{3});
    if (payload > bytes || note.n_descsz > bytes - payload) return;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
        std::memcmp(notes + name, "GNU", 4) == 0 && note.n_descsz <= place.build_id.size()) {
      std::memcpy(place.build_id.data(), notes + payload, note.n_descsz);
      place.build_id_bytes = note.n_descsz;
      return;
    }
    at = next;
  }
}

struct Search {
  uintptr_t address;
  LoadedPlace place;
  bool found;
};

// Called by dl_iterate_phdr for each loaded object, with a Search. Returns 1, which ends the
// iteration, for the object that has the address in a part of a segment that comes from the file,
// not in what is zeroed behind that part.
int LookAtObject(dl_phdr_info* info, size_t, void* data) {
  Search& search = *static_cast<Search*>(data);
  for (int i = 0; i < info->dlpi_phnum && !search.found; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    const uintptr_t start = info->dlpi_addr + segment.p_vaddr;
    if (segment.p_type != PT_LOAD || search.address < start ||
        search.address - start >= segment.p_filesz) {
      continue;
    }
    search.place.offset = segment.p_offset + (search.address - start);
    search.found = true;
  }
  if (!search.found) return 0;
  for (int i = 0; i < info->dlpi_phnum && search.place.build_id_bytes == 0; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    ReadBuildId(reinterpret_cast<const char*>(info->dlpi_addr + segment.p_vaddr), segment.p_filesz,
                search.place);
  }
  return 1;
}

// The size of an ELF in memory: the end of whatever lies last in it. 0 when its headers make no
// sense, or it is larger than `max_bytes`.
uint64_t ElfBytes(const void* image, uint64_t max_bytes) {
  const auto header = Load<Elf64_Ehdr>(image);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB) return 0;
  uint64_t end = sizeof(header);
  const auto reach = [&](uint64_t offset, uint64_t bytes) {
    const bool wraps = offset > max_bytes || bytes > max_bytes;
    end = wraps ? UINT64_MAX : std::max(end, offset + bytes);
  };
  reach(header.e_shoff, uint64_t{header.e_shnum} * header.e_shentsize);
  reach(header.e_phoff, uint64_t{header.e_phnum} * header.e_phentsize);
  if (end > max_bytes || (header.e_shnum != 0 && header.e_shentsize != sizeof(Elf64_Shdr)))
    return 0;
  for (uint32_t i = 0; i < header.e_shnum; ++i) {
    const auto section = Load<Elf64_Shdr>(image, header.e_shoff + i * sizeof(Elf64_Shdr));
    if (section.sh_type != SHT_NOBITS) reach(section.sh_offset, section.sh_size);
  }
  return end > max_bytes ? 0 : end;
}

}  // namespace

std::optional<LoadedPlace> FindLoadedPlace(const void* address) {
  Search search{reinterpret_cast<uintptr_t>(address), {}, false};
  dl_iterate_phdr(LookAtObject, &search);
  if (!search.found) return std::nullopt;
  return search.place;
}

std::span<const std::byte> IdentityOfFile(std::span<const std::byte> file) {
  if (file.empty()) return {};
  const auto* text = reinterpret_cast<const char*>(file.data());
  const bool is_container = file.size() >= kContainerHeader &&
                            Load<uint32_t>(text) == kContainerMagic;
  const bool is_elf = file.size() >= sizeof(Elf64_Ehdr) && std::memcmp(text, ELFMAG, SELFMAG) == 0;
  if (is_container || is_elf) return IdentityBytes(text, file.size());
  // A container or ELF that is cut off counts as neither, and binary data of another kind is no
  // text that was built.
  return file.first(strnlen(text, file.size()));
}

std::span<const std::byte> IdentityBytes(const void* image, size_t max_bytes) {
  if (image == nullptr) return {};
  // PTX may be a text of a few bytes. So more than one byte is read only where the first byte is
  // that of a magic.
  const char first = *static_cast<const char*>(image);
  if (static_cast<uint8_t>(first) == (kWrapperMagic & 0xFF) &&
      Load<uint32_t>(image) == kWrapperMagic) {
    image = Load<Wrapper>(image).container;
    if (image == nullptr) return {};
  }
  const auto* start = static_cast<const std::byte*>(image);
  switch (static_cast<uint8_t>(*start)) {
    case kContainerMagic & 0xFF: {
      if (Load<uint32_t>(image) != kContainerMagic) return {};
      const uint64_t header = Load<uint16_t>(image, 6);
      const uint64_t rest = Load<uint64_t>(image, 8);
      if (header < kContainerHeader || rest > max_bytes || header + rest > max_bytes) return {};
      return {start, header + rest};
    }
    case 0x7F: {
      if (std::memcmp(image, ELFMAG, SELFMAG) != 0) return {};
      return {start, ElfBytes(image, max_bytes)};
    }
    default: {
      const size_t bytes = strnlen(static_cast<const char*>(image), max_bytes);
      if (bytes == max_bytes) return {};
      return {start, bytes};
    }
  }
}

}  // namespace cupola::store
