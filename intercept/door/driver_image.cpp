#include "intercept/door/driver_image.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cupola::intercept {
namespace {

/// A file mapped into memory. Every read checks the file's bounds first.
class Image {
 public:
  explicit Image(const char* path) noexcept {
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return;
    struct stat status;
    if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
      bytes_ = static_cast<size_t>(status.st_size);
      void* const memory = mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE, file, 0);
      at_ = memory != MAP_FAILED ? static_cast<const char*>(memory) : nullptr;
    }
    close(file);
  }
  ~Image() {
    if (at_ != nullptr) munmap(const_cast<char*>(at_), bytes_);
  }
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;

  /// `count` values at `offset`, or null when the file ends before.
  template <typename Value>
  const Value* At(uint64_t offset, uint64_t count = 1) const noexcept {
    const bool fits = at_ != nullptr && offset <= bytes_ && count <= (bytes_ - offset) / sizeof(Value);
    return fits && offset % alignof(Value) == 0 ? reinterpret_cast<const Value*>(at_ + offset) : nullptr;
  }

  /// Whether the text at `offset` is `wanted`.
  bool HasText(uint64_t offset, const char* wanted) const noexcept {
    const size_t length = strlen(wanted) + 1;
    const char* const text = At<char>(offset, length);
    return text != nullptr && memcmp(text, wanted, length) == 0;
  }

  uint64_t bytes() const noexcept { return at_ != nullptr ? bytes_ : 0; }

 private:
  const char* at_ = nullptr;
  size_t bytes_ = 0;
};

/// The offset in the file that is loaded at an object's address; the file's size if there is none.
uint64_t OffsetOf(const Image& image, const Elf64_Phdr* segments, uint32_t count, uint64_t address) {
  for (uint32_t i = 0; i < count; ++i) {
    const Elf64_Phdr& segment = segments[i];
    if (segment.p_type != PT_LOAD || address < segment.p_vaddr) continue;
    if (address - segment.p_vaddr < segment.p_filesz) return address - segment.p_vaddr + segment.p_offset;
  }
  return image.bytes();
}

/// Whether a symbol of this name is defined. Linkers write the dynamic symbols before the dynamic strings, and
/// only the hash tables tell their number; so all entries up to the strings, or the file's end, are checked.
bool Exports(const Image& image, uint64_t symbols, uint64_t strings, uint64_t string_bytes, const char* name) {
  const uint64_t end = symbols < strings ? strings : image.bytes();
  for (uint64_t at = symbols; at + sizeof(Elf64_Sym) <= end; at += sizeof(Elf64_Sym)) {
    const auto* const symbol = image.At<Elf64_Sym>(at);
    if (symbol == nullptr || symbol->st_name >= string_bytes) return false;
    if (symbol->st_shndx != SHN_UNDEF && image.HasText(strings + symbol->st_name, name)) return true;
  }
  return false;
}

}  // namespace

ImageKind KindOfImage(const char* path) noexcept {
  const Image image(path);
  const auto* const header = image.At<Elf64_Ehdr>(0);
  if (header == nullptr || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != EM_X86_64) {
    return ImageKind::kNone;
  }
  const uint32_t count = header->e_phnum;
  const auto* const segments = image.At<Elf64_Phdr>(header->e_phoff, count);
  if (segments == nullptr) return ImageKind::kNone;
  uint64_t symbols = 0, strings = 0, string_bytes = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (segments[i].p_type != PT_DYNAMIC) continue;
    const uint64_t entries = segments[i].p_filesz / sizeof(Elf64_Dyn);
    const auto* const dynamic = image.At<Elf64_Dyn>(segments[i].p_offset, entries);
    if (dynamic == nullptr) return ImageKind::kNone;
    for (uint64_t at = 0; at < entries && dynamic[at].d_tag != DT_NULL; ++at) {
      const uint64_t value = dynamic[at].d_un.d_ptr;
      if (dynamic[at].d_tag == DT_SYMTAB) symbols = OffsetOf(image, segments, count, value);
      if (dynamic[at].d_tag == DT_STRTAB) strings = OffsetOf(image, segments, count, value);
      if (dynamic[at].d_tag == DT_STRSZ) string_bytes = value;
    }
  }
  if (symbols == 0 || strings == 0) return ImageKind::kNone;
  const bool is_driver = Exports(image, symbols, strings, string_bytes, "cuInit") &&
                         Exports(image, symbols, strings, string_bytes, "cuDriverGetVersion");
  return is_driver ? ImageKind::kDriver : ImageKind::kOther;
}

}  // namespace cupola::intercept
