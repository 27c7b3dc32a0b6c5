#include "device/compiler/fatbin/container.h"

#include <gtest/gtest.h>

#include "base/prng.h"
#include "tests/unit/fatbin/container_builder.h"

namespace cupola::fatbin {
namespace {

std::string TextOf(const Image& image) {
  Result<ImageBytes> contents = image.Contents();
  return contents ? std::string(contents->text()) : "error: " + contents.error().ToString();
}

// Everything that a consumer may touch, so that a sanitizer sees a reader that went astray.
size_t TouchAll(const ContainerReading& reading) {
  size_t sum = reading.damage ? reading.damage->ToString().size() : 0;
  for (const Image& image : reading.images) {
    for (const char c : std::string(image.name) + std::string(image.options)) sum += c == 'x';
    sum += image.ArchName().size() + TextOf(image).size();
  }
  return sum;
}

std::vector<uint8_t> SmallContainer() {
  return BuildContainer({{.contents = SamplePtx(90),
                          .compression = EntrySpec::kZstd,
                          .name = "a.cu",
                          .options = "-maxrregcount=32 "},
                         {.contents = SamplePtx(80), .compression = EntrySpec::kLz4},
                         {.kind = 2, .contents = "not really a cubin", .arch = 90}});
}

TEST(Container, ReadsEveryCompression) {
  for (const auto compression : {EntrySpec::kStored, EntrySpec::kLz4, EntrySpec::kZstd}) {
    EntrySpec spec{.contents = SamplePtx(90)};
    spec.compression = compression;
    const std::vector<uint8_t> bytes = BuildContainer({spec});
    const ContainerReading reading = ReadContainer(bytes);
    ASSERT_FALSE(reading.damage.has_value()) << reading.damage->ToString();
    ASSERT_EQ(reading.images.size(), 1u);
    EXPECT_EQ(TextOf(reading.images[0]), spec.contents);
    EXPECT_EQ(reading.size, bytes.size());
  }
}

TEST(Container, ReadsHeaderFields) {
  const std::vector<uint8_t> bytes = SmallContainer();
  const ContainerReading reading = ReadContainer(bytes);
  ASSERT_EQ(reading.images.size(), 3u);
  const Image& first = reading.images[0];
  EXPECT_EQ(first.kind, ImageKind::kPtx);
  EXPECT_EQ(first.ArchName(), "compute_90");
  EXPECT_EQ(first.major, 9);
  EXPECT_EQ(first.minor, 0);
  EXPECT_EQ(first.name, "a.cu");
  EXPECT_EQ(first.options, "-maxrregcount=32 ");
  EXPECT_EQ(first.compression, Compression::kZstd);
  EXPECT_EQ(first.uncompressed_size, SamplePtx(90).size());
  EXPECT_EQ(reading.images[1].compression, Compression::kLz4);
  EXPECT_EQ(reading.images[2].kind, ImageKind::kCubin);
  EXPECT_EQ(reading.images[2].ArchName(), "sm_90");
}

TEST(Container, KnowsSuffixesKindsAndRelocatableUnits) {
  const std::vector<uint8_t> bytes =
      BuildContainer({{.contents = SamplePtx(90), .flags = 0x100011},
                      {.contents = SamplePtx(100), .arch = 100, .flags = 0x200011},
                      {.contents = SamplePtx(90), .options = "--compile-only  "},
                      {.kind = 8, .contents = "opaque", .flags = 0x10011},
                      {.kind = 64, .contents = "new"}});
  const ContainerReading reading = ReadContainer(bytes);
  ASSERT_EQ(reading.images.size(), 5u);
  EXPECT_EQ(reading.images[0].ArchName(), "compute_90a");
  EXPECT_EQ(reading.images[1].ArchName(), "compute_100f");
  EXPECT_FALSE(reading.images[1].relocatable);
  EXPECT_TRUE(reading.images[2].relocatable);
  EXPECT_EQ(ToString(reading.images[3].kind), "LTO-IR");
  EXPECT_EQ(ToString(reading.images[4].kind), "kind 64");
}

TEST(Container, PackedLtoIrIsListedAndNotRead) {
  const std::vector<uint8_t> bytes = BuildContainer(
      {{.kind = 8, .contents = std::string(200, 'x'), .compression = EntrySpec::kLz4},
       {.contents = SamplePtx(90)}});
  const ContainerReading reading = ReadContainer(bytes);
  ASSERT_EQ(reading.images.size(), 2u);
  const Result<ImageBytes> contents = reading.images[0].Contents();
  ASSERT_FALSE(contents.ok());
  EXPECT_EQ(contents.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(contents.error().where.offset, reading.images[0].offset);
  EXPECT_EQ(TextOf(reading.images[1]), SamplePtx(90));
}

TEST(Container, DamageKeepsTheImagesBefore) {
  std::vector<uint8_t> bytes = SmallContainer();
  const ContainerReading whole = ReadContainer(bytes);
  // The second entry claims a header of 3 bytes.
  const uint64_t second = whole.images[0].offset + (whole.images[0].payload.size() + 7) / 8 * 8;
  bytes[second + 4] = 3;
  bytes[second + 5] = 0;
  const ContainerReading reading = ReadContainer(bytes, 0x1000, "lib.so");
  ASSERT_EQ(reading.images.size(), 1u);
  EXPECT_EQ(TextOf(reading.images[0]), SamplePtx(90));
  ASSERT_TRUE(reading.damage.has_value());
  EXPECT_EQ(reading.damage->code, ErrorCode::kDamaged);
  EXPECT_EQ(reading.damage->where.file, "lib.so");
  EXPECT_EQ(reading.damage->where.offset, 0x1000 + second);
}

TEST(Container, DamagedDataIsAnErrorWithItsOffset) {
  std::vector<uint8_t> bytes = SmallContainer();
  const uint64_t at = ReadContainer(bytes).images[0].offset;
  for (uint64_t i = at + 12; i < at + 20; ++i) bytes[i] = static_cast<uint8_t>(~bytes[i]);
  const Result<ImageBytes> contents = ReadContainer(bytes).images[0].Contents();
  ASSERT_FALSE(contents.ok());
  EXPECT_EQ(contents.error().code, ErrorCode::kDamaged);
  EXPECT_EQ(contents.error().where.offset, at);
}

TEST(Container, RefusesSizesThatTheFormatCannotReach) {
  const std::vector<uint8_t> data(64, 0);
  for (const auto compression : {Compression::kLz4, Compression::kZstd}) {
    const Result<ImageBytes> huge = Decompress(compression, data, kMaxImageBytes + 1);
    ASSERT_FALSE(huge.ok());
    EXPECT_EQ(huge.error().code, ErrorCode::kExhausted);
    const Result<ImageBytes> large = Decompress(compression, data, kMaxImageBytes);
    ASSERT_FALSE(large.ok());
    EXPECT_EQ(large.error().code, ErrorCode::kDamaged);
    EXPECT_NE(large.error().message.find("cannot"), std::string::npos);
  }
}

TEST(Container, TruncatedAnywhereIsDamageNotACrash) {
  const std::vector<uint8_t> whole = SmallContainer();
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::vector<uint8_t> cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
    const ContainerReading reading = ReadContainer(cut);
    EXPECT_TRUE(reading.damage.has_value()) << "cut to " << size;
    TouchAll(reading);
  }
}

TEST(Container, FlippedBitsAreNeverACrash) {
  const std::vector<uint8_t> whole = SmallContainer();
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::vector<uint8_t> bytes = whole;
    bytes[bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
    TouchAll(ReadContainer(bytes));
  }
  Prng prng(7);
  for (int round = 0; round < 4000; ++round) {
    std::vector<uint8_t> bytes = whole;
    for (int i = 0; i < 4; ++i)
      bytes[prng.Next() % bytes.size()] = static_cast<uint8_t>(prng.Next());
    TouchAll(ReadContainer(bytes));
  }
}

}  // namespace
}  // namespace cupola::fatbin
