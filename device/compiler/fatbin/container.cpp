#include "device/compiler/fatbin/container.h"

#include <elf.h>

#include <algorithm>
#include <cstddef>

namespace cupola::fatbin {
namespace {

// The container's header as it lies in the file.
struct ContainerHeader {
  uint32_t magic;
  uint16_t version;
  uint16_t header_size;
  uint64_t size;  // of everything behind the header
};
static_assert(sizeof(ContainerHeader) == kContainerHeaderBytes);

// An entry's header as it lies in the file. Strings and options follow, up to header_size.
struct EntryHeader {
  uint16_t kind;
  uint16_t version;
  uint32_t header_size;
  uint64_t payload_size;  // including padding: the stride to the next entry
  uint32_t compressed_size;
  uint32_t options_offset;
  uint16_t minor;
  uint16_t major;
  uint32_t arch;
  uint32_t name_offset;
  uint32_t name_size;
  uint64_t flags;
  uint64_t reserved;
  uint64_t uncompressed_size;
};
static_assert(sizeof(EntryHeader) == kEntryHeaderBytes);

std::string_view DropTrailingNuls(std::string_view text) {
  while (!text.empty() && text.back() == '\0') text.remove_suffix(1);
  return text;
}

// The text that a block {offset, size} relative to the entry names; empty where it leaves the
// header.
std::string_view HeaderText(Bytes header, uint32_t offset, uint32_t size) {
  const std::optional<Bytes> slice = SliceAt(header, offset, size);
  return slice ? DropTrailingNuls(AsText(*slice)) : std::string_view();
}

// For cubins of sm_100 and later the same field leads to bytes that are no text: the function
// ignores them.
std::string_view ReadOptions(Bytes header, const EntryHeader& fields) {
  if (fields.options_offset == 0 || ImageKind{fields.kind} == ImageKind::kCubin) return {};
  const auto offset = ReadAt<uint32_t>(header, fields.options_offset);
  const auto size = ReadAt<uint32_t>(header, uint64_t{fields.options_offset} + 4);
  if (!offset || !size) return {};
  return HeaderText(header, *offset, *size);
}

Compression CompressionOf(const EntryHeader& fields, Bytes payload) {
  if (fields.compressed_size == 0) return Compression::kStored;
  if ((fields.flags & kFlagZstd) != 0) return Compression::kZstd;
  if ((fields.flags & kFlagLz4) != 0) return Compression::kLz4;
  constexpr uint32_t kZstdMagic = 0xFD2FB528;
  return ReadAt<uint32_t>(payload, 0) == kZstdMagic ? Compression::kZstd : Compression::kUnknown;
}

bool IsRelocatable(const Image& image) {
  if (image.kind == ImageKind::kPtx) {
    return image.options.find("--compile-only") != std::string_view::npos;
  }
  if (image.kind != ImageKind::kCubin || image.compression != Compression::kStored) return false;
  return ReadAt<uint16_t>(image.payload, offsetof(Elf64_Ehdr, e_type)) == uint16_t{ET_REL};
}

Error DamageAt(uint64_t offset, std::string_view file, std::string message) {
  Location where{.file = std::string(file)};
  where.offset = offset;
  return MakeError(ErrorCode::kDamaged, std::move(message), std::move(where));
}

// Reads the entry at `at` of `body`; advances `at` past it.
Result<Image> ReadEntry(Bytes container, uint64_t& at, uint64_t base, std::string_view file) {
  const auto fields = ReadAt<EntryHeader>(container, at);
  if (!fields) return DamageAt(base + at, file, "the container ends inside the header of an image");
  if (fields->header_size < kEntryHeaderBytes) {
    return DamageAt(base + at, file,
                    "the header of an image claims " + std::to_string(fields->header_size) +
                        " bytes, less than the " + std::to_string(kEntryHeaderBytes) +
                        " that every header has");
  }
  const std::optional<Bytes> header = SliceAt(container, at, fields->header_size);
  const uint64_t payload_at = at + fields->header_size;
  const std::optional<Bytes> padded =
      header ? SliceAt(container, payload_at, fields->payload_size) : std::nullopt;
  if (!padded) {
    return DamageAt(base + at, file,
                    "an image of " + std::to_string(fields->payload_size) +
                        " bytes goes beyond the end of its container");
  }
  if (fields->compressed_size > fields->payload_size) {
    return DamageAt(base + at, file, "an image is said to be longer compressed than its payload");
  }
  Image image;
  image.kind = ImageKind{fields->kind};
  image.entry_version = fields->version;
  image.major = fields->major;
  image.minor = fields->minor;
  image.arch = fields->arch;
  image.flags = fields->flags;
  if ((fields->flags & kFlagArchSpecific) != 0) image.arch_suffix = 'a';
  if ((fields->flags & kFlagFamilySpecific) != 0) image.arch_suffix = 'f';
  image.name = HeaderText(*header, fields->name_offset, fields->name_size);
  image.options = ReadOptions(*header, *fields);
  image.compression = CompressionOf(*fields, *padded);
  image.payload = fields->compressed_size == 0 ? *padded : padded->first(fields->compressed_size);
  image.uncompressed_size =
      fields->compressed_size == 0 ? image.payload.size() : fields->uncompressed_size;
  image.offset = base + payload_at;
  image.relocatable = IsRelocatable(image);
  at = payload_at + fields->payload_size;
  return image;
}

}  // namespace

std::string ToString(ImageKind kind) {
  switch (kind) {
    case ImageKind::kPtx:
      return "PTX";
    case ImageKind::kCubin:
      return "cubin";
    case ImageKind::kLtoIr:
      return "LTO-IR";
  }
  return "kind " + std::to_string(static_cast<unsigned>(kind));
}

std::string Image::ArchName() const {
  if (arch == 0) return "unknown";
  std::string text = kind == ImageKind::kCubin ? "sm_" : "compute_";
  text += std::to_string(arch);
  if (arch_suffix != 0) text += arch_suffix;
  return text;
}

Result<ImageBytes> Image::Contents() const {
  // Of packed LTO-IR the compressed data appears only after an encoding that NVIDIA does not
  // publish.
  if (kind == ImageKind::kLtoIr && compression != Compression::kStored) {
    Error error = MakeError(ErrorCode::kUnsupported,
                            "packed LTO-IR: its encoding is NVIDIA's own and not published");
    error.where.offset = offset;
    return error;
  }
  Result<ImageBytes> contents = Decompress(compression, payload, uncompressed_size);
  if (!contents) {
    contents.error().where.offset = offset;
    return contents;
  }
  if (kind == ImageKind::kPtx) contents->DropTrailingNuls();
  return contents;
}

bool IsContainer(Bytes bytes) { return ReadAt<uint32_t>(bytes, 0) == kContainerMagic; }

ContainerReading ReadContainer(Bytes bytes, uint64_t offset, std::string_view file) {
  ContainerReading reading;
  const auto header = ReadAt<ContainerHeader>(bytes, 0);
  if (!header) {
    reading.damage = DamageAt(offset, file, "the file ends inside the header of a container");
    return reading;
  }
  if (header->magic != kContainerMagic || header->version != 1 ||
      header->header_size < kContainerHeaderBytes) {
    reading.damage = DamageAt(offset, file, "not the header of a container of version 1");
    return reading;
  }
  const uint64_t available = bytes.size();
  Bytes container = bytes;
  reading.size = available;
  const bool size_is_false =
      header->header_size > available || header->size > available - header->header_size;
  if (size_is_false) {
    reading.damage = DamageAt(
        offset, file,
        "a container claims " + std::to_string(header->size) +
            " bytes after its header, but only " +
            std::to_string(available - std::min<uint64_t>(available, header->header_size)) +
            " are there");
  } else {
    reading.size = header->header_size + header->size;
    container = bytes.first(static_cast<size_t>(reading.size));
  }
  uint64_t at = header->header_size;
  while (at < container.size()) {
    Result<Image> image = ReadEntry(container, at, offset, file);
    if (!image) {
      if (!reading.damage) reading.damage = std::move(image).error();
      break;
    }
    reading.images.push_back(*std::move(image));
  }
  // `consumed` goes past what was read, never back into it, so a scan that goes on from here stays
  // linear. A container whose end is known is skipped as a whole.
  reading.consumed = size_is_false ? std::min(at, available) : reading.size;
  return reading;
}

}  // namespace cupola::fatbin
