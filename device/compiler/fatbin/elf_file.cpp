#include "device/compiler/fatbin/elf_file.h"

#include <cstring>

namespace cupola::fatbin {
namespace {

Error ElfError(ErrorCode code, std::string message, uint64_t offset) {
  Location where;
  where.offset = offset;
  return MakeError(code, std::move(message), std::move(where));
}

Bytes ContentsOf(Bytes file, ElfSection& section) {
  if (section.header.sh_type == SHT_NOBITS || section.header.sh_size == 0) return {};
  if (const auto whole = SliceAt(file, section.header.sh_offset, section.header.sh_size)) {
    return *whole;
  }
  section.cut = true;
  if (section.header.sh_offset >= file.size()) return {};
  return file.subspan(section.header.sh_offset);
}

}  // namespace

bool IsElf(Bytes bytes) {
  return bytes.size() >= SELFMAG && std::memcmp(bytes.data(), ELFMAG, SELFMAG) == 0;
}

Result<ElfFile> ElfFile::Open(Bytes bytes) {
  static const bool kVersionKnown = elf_version(EV_CURRENT) != EV_NONE;
  if (!kVersionKnown) return MakeError(ErrorCode::kInternal, elf_errmsg(-1));
  const auto ident = ReadAt<Elf64_Ehdr>(bytes, 0);
  if (!ident) return ElfError(ErrorCode::kDamaged, "the file ends inside the ELF header", 0);
  if (ident->e_ident[EI_CLASS] != ELFCLASS64 || ident->e_ident[EI_DATA] != ELFDATA2LSB) {
    return ElfError(ErrorCode::kUnsupported, "an ELF, but not a 64-bit little-endian one",
                    EI_CLASS);
  }
  ElfFile file;
  file.bytes_ = bytes;
  // elf_memory() only reads from the image, since nothing here asks for ELF_C_WRITE.
  auto* image = const_cast<char*>(reinterpret_cast<const char*>(bytes.data()));
  file.elf_.reset(elf_memory(image, bytes.size()));
  if (!file.elf_ || gelf_getehdr(file.elf_.get(), &file.header_) == nullptr) {
    return ElfError(ErrorCode::kDamaged,
                    std::string("the ELF header is damaged: ") + elf_errmsg(-1), 0);
  }
  size_t count = 0;
  size_t names = 0;
  if (file.header_.e_shoff == 0) return file;
  if (elf_getshdrnum(file.elf_.get(), &count) != 0 || count == 0) {
    return ElfError(ErrorCode::kDamaged, "the section headers lie beyond the end of the file",
                    file.header_.e_shoff);
  }
  const bool named = elf_getshdrstrndx(file.elf_.get(), &names) == 0;
  for (size_t i = 0; i < count; ++i) {
    ElfSection section;
    Elf_Scn* scn = elf_getscn(file.elf_.get(), i);
    if (scn == nullptr || gelf_getshdr(scn, &section.header) == nullptr) {
      return ElfError(ErrorCode::kDamaged, "the section headers lie beyond the end of the file",
                      file.header_.e_shoff);
    }
    if (named) section.name = file.String(names, section.header.sh_name);
    if (i != 0) section.contents = ContentsOf(bytes, section);
    file.sections_.push_back(section);
  }
  return file;
}

const ElfSection* ElfFile::Find(std::string_view name) const {
  for (const ElfSection& section : sections_) {
    if (section.name == name) return &section;
  }
  return nullptr;
}

std::string_view ElfFile::String(size_t index, size_t offset) const {
  const char* text = elf_strptr(elf_.get(), index, offset);
  return text == nullptr ? std::string_view() : std::string_view(text);
}

}  // namespace cupola::fatbin
