#include "device/compiler/store/image_identity.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <vector>

namespace cupola::store {
namespace {

// Constant data of this program: in its file at an offset of its own.
alignas(64) const char kMarker[] = "a marker that occurs once: 1f0c2e77 d1b3";

TEST(FindLoadedPlace, IsTheOffsetInTheFile) {
  const auto place = FindLoadedPlace(kMarker);
  ASSERT_TRUE(place);
  std::FILE* self = std::fopen("/proc/self/exe", "rb");
  ASSERT_NE(self, nullptr);
  char bytes[sizeof(kMarker)] = {};
  std::fseek(self, static_cast<long>(place->offset), SEEK_SET);
  EXPECT_EQ(std::fread(bytes, 1, sizeof(bytes), self), sizeof(bytes));
  std::fclose(self);
  EXPECT_STREQ(bytes, kMarker);
}

TEST(FindLoadedPlace, KnowsBuildIdsOfLibraries) {
  const auto place = FindLoadedPlace(reinterpret_cast<const void*>(&std::puts));
  ASSERT_TRUE(place);
  EXPECT_GT(place->offset, 0u);
}

TEST(FindLoadedPlace, OtherMemoryHasNone) {
  const std::vector<char> heap(100);
  const int local = 0;
  EXPECT_FALSE(FindLoadedPlace(heap.data()));
  EXPECT_FALSE(FindLoadedPlace(&local));
  EXPECT_FALSE(FindLoadedPlace(nullptr));
}

struct Container {
  uint32_t magic = 0xBA55ED50;
  uint16_t version = 1, header = 16;
  uint64_t rest = 24;
  char payload[24] = {};
};

struct Wrapper {
  uint32_t magic = 0x466243B1, version = 1;
  const void* data = nullptr;
  const void* units = nullptr;
};

TEST(IdentityBytes, ContainersAndTheirWrappers) {
  Container container;
  EXPECT_EQ(IdentityBytes(&container).size(), 40u);
  Wrapper wrapper;
  wrapper.data = &container;
  EXPECT_EQ(static_cast<const void*>(IdentityBytes(&wrapper).data()), &container);
  wrapper.version = 2;
  EXPECT_EQ(IdentityBytes(&wrapper).size(), 40u);
  wrapper.data = nullptr;
  EXPECT_TRUE(IdentityBytes(&wrapper).empty());
}

TEST(IdentityBytes, ImpossibleSizesAreNothing) {
  Container container;
  container.rest = ~uint64_t{0};
  EXPECT_TRUE(IdentityBytes(&container).empty());
  container.rest = 24;
  EXPECT_TRUE(IdentityBytes(&container, 39).empty());
  container.header = 8;
  EXPECT_TRUE(IdentityBytes(&container).empty());
  EXPECT_TRUE(IdentityBytes(nullptr).empty());
}

std::span<const std::byte> OfFile(std::string_view file) {
  return IdentityOfFile(std::as_bytes(std::span(file)));
}

TEST(IdentityOfFile, IsThatOfTheSameInMemory) {
  const std::string text = ".version 8.0\n";
  EXPECT_EQ(OfFile(text).size(), text.size());
  EXPECT_EQ(OfFile(text + std::string(3, '\0')).size(), text.size());
  EXPECT_TRUE(OfFile("").empty());
}

TEST(IdentityOfFile, LooksAtNothingBeyondIt) {
  // Heads of containers, ELF files and wrappers, cut off at every length, in memory of their size.
  std::string container("\x50\xED\x55\xBA\x01\0\x10\0\x20\0\0\0\0\0\0\0", 16);
  container += std::string(32, 'x');
  std::string elf("\x7F" "ELF\x02\x01\x01", 7);
  elf += std::string(80, '\x11');
  std::string wrapper("\xB1\x43\x62\x46\x01\0\0\0", 8);
  wrapper += std::string(16, '\x41');
  EXPECT_EQ(OfFile(container).size(), 48u);
  for (const std::string& whole : {container, elf, wrapper}) {
    for (size_t size = 0; size <= whole.size(); ++size) {
      const std::vector<char> cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
      EXPECT_LE(OfFile({cut.data(), cut.size()}).size(), size);
    }
  }
}

TEST(IdentityBytes, TextWithoutItsNul) {
  const char text[] = ".version 9.0\n";
  EXPECT_EQ(IdentityBytes(text).size(), sizeof(text) - 1);
  EXPECT_TRUE(IdentityBytes(text, 5).empty());
  EXPECT_TRUE(IdentityBytes("").empty());
}

TEST(IdentityBytes, ElfEndsWithItsLastSection) {
  struct {
    Elf64_Ehdr header{};
    Elf64_Shdr sections[2]{};
    char contents[40]{};
  } image;
  std::memcpy(image.header.e_ident, ELFMAG, SELFMAG);
  image.header.e_ident[EI_CLASS] = ELFCLASS64;
  image.header.e_ident[EI_DATA] = ELFDATA2LSB;
  image.header.e_shoff = sizeof(Elf64_Ehdr);
  image.header.e_shnum = 2;
  image.header.e_shentsize = sizeof(Elf64_Shdr);
  image.sections[1].sh_type = SHT_PROGBITS;
  image.sections[1].sh_offset = sizeof(Elf64_Ehdr) + 2 * sizeof(Elf64_Shdr);
  image.sections[1].sh_size = 40;
  EXPECT_EQ(IdentityBytes(&image).size(), sizeof(image));
  image.sections[1].sh_size = ~uint64_t{0};
  EXPECT_TRUE(IdentityBytes(&image).empty());
  image.sections[1].sh_type = SHT_NOBITS;
  EXPECT_EQ(IdentityBytes(&image).size(), sizeof(image) - 40);
  image.header.e_shoff = ~uint64_t{0} - 4;
  EXPECT_TRUE(IdentityBytes(&image).empty());
}

}  // namespace
}  // namespace cupola::store
