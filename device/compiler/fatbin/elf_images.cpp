#include "device/compiler/fatbin/elf_images.h"

#include <algorithm>
#include <cctype>
#include <cstring>

#include "device/compiler/fatbin/elf_file.h"

namespace cupola::fatbin {
namespace {

constexpr uint16_t kElfOfDevice = 190;       // EM_CUDA
constexpr uint64_t kContainerAlignment = 8;  // containers begin at multiples of this in a section
constexpr std::string_view kUnitSection = "__nv_relfatbin";  // units of -rdc=true: to be linked

// A stretch of the file in which to look for containers.
struct Range {
  uint64_t begin;
  uint64_t end;
  uint64_t address;  // virtual address of `begin`
  std::string_view section;
};

Error DamageAt(std::string_view file, uint64_t offset, std::string message) {
  Location where{.file = std::string(file)};
  where.offset = offset;
  return MakeError(ErrorCode::kDamaged, std::move(message), std::move(where));
}

uint64_t AlignUp(uint64_t offset) {
  return (offset + kContainerAlignment - 1) / kContainerAlignment * kContainerAlignment;
}

// Adds a container and its images to what was found.
void AddReading(ContainerReading reading, ContainerPlace place, FileImages& found) {
  place.first_image = static_cast<uint32_t>(found.images.size());
  place.image_count = static_cast<uint32_t>(reading.images.size());
  place.size = reading.size;
  for (Image& image : reading.images) {
    image.container = static_cast<uint32_t>(found.containers.size());
    image.relocatable = image.relocatable || place.is_unit;
    found.images.push_back(image);
  }
  found.containers.push_back(std::move(place));
  if (reading.damage) found.damages.push_back(*std::move(reading.damage));
}

// Whether a container begins here. In a section that is for containers the magic is enough, so that
// a damaged header is reported. Elsewhere the magic also occurs in code that handles fatbins, so
// there the version (1) and the header's size (16) must follow it.
bool BeginsContainer(Bytes bytes, bool in_device_section) {
  if (!IsContainer(bytes)) return false;
  if (in_device_section) return true;
  constexpr uint32_t kVersionAndHeaderSize = 0x00100001;
  return ReadAt<uint32_t>(bytes, 4) == kVersionAndHeaderSize;
}

// Looks for containers in a stretch. Reads every byte at most once, so that damaged input costs no
// more than its length. Bytes that begin no container and are not zero are damage only in a section
// that is for containers.
void ScanRange(Bytes file, std::string_view name, const Range& range, FileImages& found) {
  const bool device_section = range.section == ".nv_fatbin" || range.section == kUnitSection;
  uint64_t at = AlignUp(range.begin);
  bool said = !device_section;  // true: do not report bytes between containers until the next one
  while (at + kContainerHeaderBytes <= range.end) {
    const Bytes rest = file.subspan(at, range.end - at);
    if (!BeginsContainer(rest, device_section)) {
      if (!said && ReadAt<uint64_t>(rest, 0) != uint64_t{0}) {
        found.damages.push_back(DamageAt(name, at, "no container where one should begin"));
        said = true;
      }
      at += kContainerAlignment;
      continue;
    }
    ContainerReading reading = ReadContainer(rest, at, name);
    said = !device_section || reading.damage.has_value();
    const uint64_t consumed = std::max(reading.consumed, kContainerHeaderBytes);
    ContainerPlace place{.offset = at, .address = range.address + (at - range.begin)};
    place.section = std::string(range.section);
    place.is_unit = range.section == kUnitSection;
    AddReading(std::move(reading), std::move(place), found);
    at += AlignUp(consumed);
  }
}

// The allocated sections as ranges in file order that do not overlap: where two do in a damaged
// file, the later one begins where the earlier one ends. Reports sections that are cut off.
std::vector<Range> AllocatedRanges(const ElfFile& elf, std::string_view name, FileImages& found) {
  std::vector<Range> ranges;
  for (const ElfSection& section : elf.sections()) {
    if (section.cut) {
      found.damages.push_back(DamageAt(name, section.header.sh_offset,
                                       "section " + std::string(section.name) + " of " +
                                           std::to_string(section.header.sh_size) +
                                           " bytes goes beyond the end of the file"));
    }
    if ((section.header.sh_flags & SHF_ALLOC) == 0 || section.contents.empty()) continue;
    const uint64_t begin = section.header.sh_offset;
    ranges.push_back(
        {begin, begin + section.contents.size(), section.header.sh_addr, section.name});
  }
  std::stable_sort(ranges.begin(), ranges.end(),
                   [](const Range& a, const Range& b) { return a.begin < b.begin; });
  uint64_t end = 0;
  for (Range& range : ranges) {
    const uint64_t begin = std::clamp(end, range.begin, std::max(range.begin, range.end));
    range.address += begin - range.begin;
    range.begin = begin;
    end = std::max(end, range.end);
  }
  return ranges;
}

std::string BuildIdOf(const ElfFile& elf) {
  const ElfSection* section = elf.Find(".note.gnu.build-id");
  if (section == nullptr) return {};
  const auto note = ReadAt<Elf64_Nhdr>(section->contents, 0);
  if (!note || note->n_type != NT_GNU_BUILD_ID) return {};
  const uint64_t at = sizeof(Elf64_Nhdr) + (uint64_t{note->n_namesz} + 3) / 4 * 4;
  const auto id = SliceAt(section->contents, at, note->n_descsz);
  if (!id) return {};
  std::string text;
  for (const uint8_t byte : *id) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

// The whole file as one image without a container.
FileImages BareImage(FileForm form, ImageKind kind, Bytes bytes) {
  FileImages found;
  found.form = form;
  Image image;
  image.kind = kind;
  image.flags = kFlag64Bit;
  image.payload = bytes;
  image.uncompressed_size = bytes.size();
  found.images.push_back(image);
  return found;
}

// Reads an ELF. Sets `*unsupported`, and finds nothing, where it is of a kind that cannot be read.
FileImages ReadElf(Bytes file, std::string_view name, Error* unsupported) {
  Result<ElfFile> elf = ElfFile::Open(file);
  FileImages found;
  if (!elf) {
    elf.error().where.file = std::string(name);
    if (elf.error().code == ErrorCode::kUnsupported) {
      *unsupported = elf.error();
      return found;
    }
    // Containers that a broken section table no longer names may still be there.
    found.damages.push_back(elf.error());
    ScanRange(file, name, {0, file.size(), 0, {}}, found);
    return found;
  }
  if (elf->header().e_machine == kElfOfDevice) {
    FileImages cubin = BareImage(FileForm::kCubin, ImageKind::kCubin, file);
    cubin.images[0].relocatable = elf->header().e_type == ET_REL;
    return cubin;
  }
  found.build_id = BuildIdOf(*elf);
  if (elf->sections().empty()) {
    ScanRange(file, name, {0, file.size(), 0, {}}, found);
    return found;
  }
  for (const Range& range : AllocatedRanges(*elf, name, found)) {
    ScanRange(file, name, range, found);
  }
  return found;
}

// PTX begins with white space, comments or directives, and says its version early.
bool IsPtxText(Bytes file) {
  const std::string_view head = AsText(file.first(std::min<size_t>(file.size(), 16384)));
  if (head.empty()) return false;
  const char first = head.front();
  if (first != '.' && first != '/' && std::isspace(static_cast<unsigned char>(first)) == 0) {
    return false;
  }
  return head.find(".version") != std::string_view::npos;
}

}  // namespace

const char* ToString(FileForm form) {
  switch (form) {
    case FileForm::kElf:
      return "ELF file";
    case FileForm::kContainer:
      return "fatbin";
    case FileForm::kCubin:
      return "cubin";
    case FileForm::kPtxText:
      return "PTX text";
  }
  return "file";
}

Result<FileImages> ReadImages(Bytes file, std::string_view name) {
  if (IsElf(file)) {
    Error unsupported;
    FileImages found = ReadElf(file, name, &unsupported);
    if (!unsupported.message.empty()) return unsupported;
    return found;
  }
  if (IsContainer(file)) {
    FileImages found;
    found.form = FileForm::kContainer;
    ScanRange(file, name, {0, file.size(), 0, {}}, found);
    // The scan finds nothing in a file that is shorter than a header; this reports it as damage.
    if (found.containers.empty()) AddReading(ReadContainer(file, 0, name), {}, found);
    return found;
  }
  if (IsPtxText(file)) return BareImage(FileForm::kPtxText, ImageKind::kPtx, file);
  return MakeError(ErrorCode::kUnsupported,
                   "neither an ELF program or library, nor a fatbin, a cubin or PTX text",
                   Location{.file = std::string(name)});
}

Result<ImageFile> OpenImageFile(const std::string& path) {
  Result<MappedFile> file = MappedFile::Open(path);
  if (!file) return file.error();
  Result<FileImages> images = ReadImages(file->bytes(), path);
  if (!images) return images.error();
  return ImageFile{*std::move(file), *std::move(images)};
}

}  // namespace cupola::fatbin
