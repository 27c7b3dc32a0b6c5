// An ELF in memory, read by libelf: its headers, and its sections with checked bounds. What reads
// cubins and the images in programs (cubin.h, elf_images.h) opens one for each file. It borrows the
// bytes, which must outlive it. Movable; one thread at a time.
#pragma once

#include <gelf.h>

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "device/compiler/fatbin/bytes.h"

namespace cupola::fatbin {

/// One section. `contents` is empty for SHT_NOBITS.
struct ElfSection {
  std::string_view name;
  GElf_Shdr header{};
  Bytes contents;
  bool cut = false;  ///< the section reaches beyond the end of the file; `contents` is what is there
};

class ElfFile {
 public:
  /// Errors, with the offset: kDamaged where the headers do not hold together, kUnsupported for
  /// ELFs that are not 64-bit little-endian.
  static Result<ElfFile> Open(Bytes bytes);

  const GElf_Ehdr& header() const { return header_; }
  const std::vector<ElfSection>& sections() const { return sections_; }
  Bytes bytes() const { return bytes_; }

  /// The section of that name, or null.
  const ElfSection* Find(std::string_view name) const;

  /// The string at `offset` of section `index`; empty where there is none.
  std::string_view String(size_t index, size_t offset) const;

 private:
  struct Closer {
    void operator()(Elf* elf) const { elf_end(elf); }
  };
  std::unique_ptr<Elf, Closer> elf_;
  Bytes bytes_;
  GElf_Ehdr header_{};
  std::vector<ElfSection> sections_;
};

/// Whether `bytes` begins as an ELF does.
bool IsElf(Bytes bytes);

}  // namespace cupola::fatbin
