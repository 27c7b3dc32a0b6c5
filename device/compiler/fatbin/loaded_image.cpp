#include "device/compiler/fatbin/loaded_image.h"

#include <elf.h>

#include <algorithm>
#include <cctype>
#include <cstring>

namespace cupola::fatbin {
namespace {

// fatbinary_section.h of the toolkit: __fatBinC_Wrapper_t.
struct Wrapper {
  uint32_t magic;
  uint32_t version;
  const void* data;
  const void* filename_or_fatbins;
};

template <typename T>
T Load(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

// The bytes of the container at `start`; its header gives their number.
Result<Bytes> ContainerAt(const void* start) {
  if (start == nullptr) return MakeError(ErrorCode::kDamaged, "a fatbin wrapper points nowhere");
  if (Load<uint32_t>(start) != kContainerMagic) {
    return MakeError(ErrorCode::kDamaged, "a fatbin wrapper points to no container");
  }
  const auto* first = static_cast<const uint8_t*>(start);
  const uint64_t size = Load<uint16_t>(first + 6) + Load<uint64_t>(first + 8);
  return Bytes(first, static_cast<size_t>(size));
}

Status AddContainer(const void* start, bool linked_together, LoadedImage& loaded) {
  const Result<Bytes> bytes = ContainerAt(start);
  if (!bytes) return bytes.error();
  ContainerReading reading = ReadContainer(*bytes);
  if (reading.damage) return *reading.damage;
  if (loaded.containers == 0) loaded.bytes = *bytes;
  for (Image& image : reading.images) {
    image.container = loaded.containers;
    image.relocatable = image.relocatable || linked_together;
    loaded.images.push_back(image);
  }
  ++loaded.containers;
  return {};
}

Result<LoadedImage> ReadWrapper(const void* start) {
  const auto wrapper = Load<Wrapper>(start);
  LoadedImage loaded;
  loaded.form = wrapper.version == 2 ? LoadedForm::kLinkedWrapper : LoadedForm::kWrapper;
  if (const Status status = AddContainer(wrapper.data, false, loaded); !status) {
    return status.error();
  }
  if (loaded.form != LoadedForm::kLinkedWrapper || wrapper.filename_or_fatbins == nullptr) {
    return loaded;
  }
  const auto* unit = static_cast<const void* const*>(wrapper.filename_or_fatbins);
  for (; *unit != nullptr; ++unit) {
    if (const Status status = AddContainer(*unit, true, loaded); !status) return status.error();
  }
  return loaded;
}

LoadedImage BareImage(LoadedForm form, ImageKind kind, Bytes bytes) {
  Image image;
  image.kind = kind;
  image.payload = bytes;
  image.uncompressed_size = bytes.size();
  image.flags = kFlag64Bit;
  return LoadedImage{.form = form, .bytes = bytes, .images = {image}};
}

// PTX starts with white space, a comment or a directive.
bool LooksLikeText(char first) {
  return first == '.' || first == '/' || std::isspace(static_cast<unsigned char>(first)) != 0;
}

bool Fits(const Image& image, uint32_t sm) {
  if (image.kind != ImageKind::kPtx || image.arch > sm) return false;
  if (image.arch_suffix == 'a') return image.arch == sm;
  if (image.arch_suffix == 'f') return image.arch / 10 == sm / 10;
  return true;
}

}  // namespace

uint64_t ElfSize(const void* start) {
  const auto header = Load<Elf64_Ehdr>(start);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB) {
    return 0;
  }
  const auto* first = static_cast<const uint8_t*>(start);
  uint64_t end = sizeof(Elf64_Ehdr);
  if (header.e_phoff != 0) {
    end = std::max<uint64_t>(end, header.e_phoff + uint64_t{header.e_phnum} * header.e_phentsize);
  }
  if (header.e_shoff == 0 || header.e_shentsize != sizeof(Elf64_Shdr)) return end;
  // Above 65,279 sections the count moves to the first section header (ELF, e_shnum).
  uint64_t sections = header.e_shnum;
  if (sections == 0) sections = Load<Elf64_Shdr>(first + header.e_shoff).sh_size;
  end = std::max(end, header.e_shoff + sections * sizeof(Elf64_Shdr));
  for (uint64_t i = 1; i < sections; ++i) {
    const auto section = Load<Elf64_Shdr>(first + header.e_shoff + i * sizeof(Elf64_Shdr));
    if (section.sh_type == SHT_NOBITS) continue;
    end = std::max(end, section.sh_offset + section.sh_size);
  }
  return end;
}

Result<LoadedImage> ReadLoadedImage(const void* image) {
  if (image == nullptr)
    return MakeError(ErrorCode::kInvalidArgument, "the image is a null pointer");
  const auto* text = static_cast<const char*>(image);
  // The first byte decides whether the data may be text. Text can be shorter than a magic number.
  if (LooksLikeText(*text)) {
    const Bytes bytes(reinterpret_cast<const uint8_t*>(text), std::strlen(text));
    return BareImage(LoadedForm::kPtxText, ImageKind::kPtx, bytes);
  }
  if (*text == '\0') return MakeError(ErrorCode::kDamaged, "the image is empty");
  const auto magic = Load<uint32_t>(image);
  if (magic == kWrapperMagic) return ReadWrapper(image);
  if (magic == kContainerMagic) {
    LoadedImage loaded;
    if (const Status status = AddContainer(image, false, loaded); !status) return status.error();
    return loaded;
  }
  if (std::memcmp(text, ELFMAG, SELFMAG) == 0) {
    const uint64_t size = ElfSize(image);
    if (size == 0) return MakeError(ErrorCode::kDamaged, "the image is not a 64-bit ELF");
    const Bytes bytes(static_cast<const uint8_t*>(image), static_cast<size_t>(size));
    return BareImage(LoadedForm::kCubin, ImageKind::kCubin, bytes);
  }
  return MakeError(ErrorCode::kDamaged, "the image is neither a fatbin, nor an ELF, nor PTX text");
}

std::optional<size_t> BestPtx(std::span<const Image> images, uint32_t sm) {
  std::optional<size_t> best;
  const auto rank = [sm](const Image& image) {
    const bool own_form = image.arch_suffix != 0 && image.arch == sm;
    return uint64_t{image.arch} * 4 + (own_form ? 2 : image.arch_suffix == 0 ? 1 : 0);
  };
  for (size_t i = 0; i < images.size(); ++i) {
    if (!Fits(images[i], sm)) continue;
    if (!best || rank(images[i]) > rank(images[*best])) best = i;
  }
  return best;
}

}  // namespace cupola::fatbin
