#include "device/compiler/fatbin/loaded_image.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/unit/fatbin/container_builder.h"

namespace cupola::fatbin {
namespace {

struct Wrapper {
  uint32_t magic;
  uint32_t version;
  const void* data;
  const void* filename_or_fatbins;
};

TEST(LoadedImage, ReadsABareContainer) {
  const std::vector<uint8_t> bytes =
      BuildContainer({{.kind = 2, .contents = "cubin"},
                      {.contents = SamplePtx(90), .compression = EntrySpec::kZstd}});
  const Result<LoadedImage> loaded = ReadLoadedImage(bytes.data());
  ASSERT_TRUE(loaded.ok()) << loaded.error().ToString();
  EXPECT_EQ(loaded->form, LoadedForm::kContainer);
  EXPECT_EQ(loaded->bytes.data(), bytes.data());
  EXPECT_EQ(loaded->bytes.size(), bytes.size());
  ASSERT_EQ(loaded->images.size(), 2u);
  EXPECT_EQ(loaded->images[1].Contents()->text(), SamplePtx(90));
}

TEST(LoadedImage, FollowsAWrapper) {
  const std::vector<uint8_t> bytes = BuildContainer({{.contents = SamplePtx(90)}});
  const Wrapper wrapper{kWrapperMagic, 1, bytes.data(), nullptr};
  const Result<LoadedImage> loaded = ReadLoadedImage(&wrapper);
  ASSERT_TRUE(loaded.ok()) << loaded.error().ToString();
  EXPECT_EQ(loaded->form, LoadedForm::kWrapper);
  EXPECT_EQ(loaded->containers, 1u);
  EXPECT_FALSE(loaded->images.at(0).relocatable);
}

TEST(LoadedImage, FollowsALinkedWrapperToItsUnits) {
  const std::vector<uint8_t> linked = BuildContainer({{.kind = 2, .contents = "cubin"}});
  const std::vector<uint8_t> one = BuildContainer({{.contents = SamplePtx(90, "one")}});
  const std::vector<uint8_t> two = BuildContainer({{.contents = SamplePtx(90, "two")}});
  const void* units[] = {one.data(), two.data(), nullptr};
  const Wrapper wrapper{kWrapperMagic, 2, linked.data(), units};
  const Result<LoadedImage> loaded = ReadLoadedImage(&wrapper);
  ASSERT_TRUE(loaded.ok()) << loaded.error().ToString();
  EXPECT_EQ(loaded->form, LoadedForm::kLinkedWrapper);
  EXPECT_EQ(loaded->containers, 3u);
  ASSERT_EQ(loaded->images.size(), 3u);
  EXPECT_FALSE(loaded->images[0].relocatable);
  EXPECT_TRUE(loaded->images[2].relocatable);
  EXPECT_EQ(loaded->images[2].container, 2u);
  EXPECT_EQ(loaded->images[2].Contents()->text(), SamplePtx(90, "two"));
}

TEST(LoadedImage, ReadsTextUpToItsEnd) {
  const std::string ptx = SamplePtx(75);
  const Result<LoadedImage> loaded = ReadLoadedImage(ptx.c_str());
  ASSERT_TRUE(loaded.ok()) << loaded.error().ToString();
  EXPECT_EQ(loaded->form, LoadedForm::kPtxText);
  EXPECT_EQ(loaded->images.at(0).Contents()->text(), ptx);
  EXPECT_TRUE(BestPtx(loaded->images, 90).has_value());
}

TEST(LoadedImage, MeasuresAnElf) {
  std::vector<uint8_t> bytes(sizeof(Elf64_Ehdr) + 40 + 2 * sizeof(Elf64_Shdr));
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_shoff = sizeof(Elf64_Ehdr) + 40;
  header.e_shnum = 2;
  header.e_shentsize = sizeof(Elf64_Shdr);
  std::memcpy(bytes.data(), &header, sizeof(header));
  const Result<LoadedImage> loaded = ReadLoadedImage(bytes.data());
  ASSERT_TRUE(loaded.ok()) << loaded.error().ToString();
  EXPECT_EQ(loaded->form, LoadedForm::kCubin);
  EXPECT_EQ(loaded->bytes.size(), bytes.size());
}

TEST(LoadedImage, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(ReadLoadedImage(nullptr).error().code, ErrorCode::kInvalidArgument);
  const uint32_t junk[8] = {0x12345678};
  EXPECT_EQ(ReadLoadedImage(junk).error().code, ErrorCode::kDamaged);
  EXPECT_EQ(ReadLoadedImage("").error().code, ErrorCode::kDamaged);
  const Wrapper nowhere{kWrapperMagic, 1, nullptr, nullptr};
  EXPECT_EQ(ReadLoadedImage(&nowhere).error().code, ErrorCode::kDamaged);
  const Wrapper elsewhere{kWrapperMagic, 1, junk, nullptr};
  EXPECT_EQ(ReadLoadedImage(&elsewhere).error().code, ErrorCode::kDamaged);
}

Image Ptx(uint32_t arch, char suffix = 0) {
  Image image;
  image.arch = arch;
  image.arch_suffix = suffix;
  return image;
}

TEST(BestPtx, TakesTheHighestThatFits) {
  const std::vector<Image> images = {Ptx(75), Ptx(90), Ptx(80), Ptx(120)};
  EXPECT_EQ(BestPtx(images, 90), 1u);
  EXPECT_EQ(BestPtx(images, 89), 2u);
  EXPECT_EQ(BestPtx(images, 121), 3u);
  EXPECT_EQ(BestPtx(images, 70), std::nullopt);
}

TEST(BestPtx, SuffixesFitTheirOwnDevicesOnly) {
  EXPECT_EQ(BestPtx(std::vector{Ptx(90), Ptx(90, 'a')}, 90), 1u);
  EXPECT_EQ(BestPtx(std::vector{Ptx(80), Ptx(90, 'a')}, 100), 0u);
  EXPECT_EQ(BestPtx(std::vector{Ptx(90), Ptx(100, 'f')}, 103), 1u);
  EXPECT_EQ(BestPtx(std::vector{Ptx(100), Ptx(100, 'f')}, 103), 0u);
  EXPECT_EQ(BestPtx(std::vector{Ptx(90), Ptx(100, 'f')}, 120), 0u);
}

TEST(BestPtx, IgnoresOtherKinds) {
  Image cubin = Ptx(90);
  cubin.kind = ImageKind::kCubin;
  EXPECT_EQ(BestPtx(std::vector{cubin}, 90), std::nullopt);
}

}  // namespace
}  // namespace cupola::fatbin
