#include "device/compiler/fatbin/elf_images.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "base/prng.h"
#include "tests/unit/fatbin/container_builder.h"
#include "tests/unit/fatbin/nvcc_fixture.h"

namespace cupola::fatbin {
namespace {

using ElfImages = NvccTest;

// "PTX compute_90 zstd" -> how many.
std::map<std::string, int> Count(const FileImages& found) {
  std::map<std::string, int> count;
  for (const Image& image : found.images) {
    ++count[ToString(image.kind) + " " + image.ArchName() + " " + ToString(image.compression) +
            (image.relocatable ? " unit" : "")];
  }
  return count;
}

using Counts = std::map<std::string, int>;

Counts CountFile(const std::string& path) {
  const Result<ImageFile> file = OpenImageFile(path);
  if (!file) return {{file.error().ToString(), 0}};
  for (const Error& damage : file->images.damages) ADD_FAILURE() << damage.ToString();
  for (const Image& image : file->images.images) {
    if (image.kind == ImageKind::kLtoIr) continue;
    const Result<ImageBytes> contents = image.Contents();
    EXPECT_TRUE(contents.ok()) << contents.error().ToString();
    if (!contents) continue;
    if (image.kind == ImageKind::kPtx) {
      EXPECT_NE(contents->text().find(".visible .entry plain("), std::string_view::npos);
      EXPECT_EQ(contents->text().find('\0'), std::string_view::npos);
    } else {
      EXPECT_EQ(contents->text().substr(0, 4), "\177ELF");
    }
  }
  return Count(file->images);
}

TEST_F(ElfImages, EveryCompressionMode) {
  const std::string out = Path("a.o");
  const std::string flags = "-c -arch=sm_90 ";
  CompileSample(flags, out);
  EXPECT_EQ(CountFile(out), (Counts{{"PTX compute_90 zstd", 1}, {"cubin sm_90 stored", 1}}));
  CompileSample(flags + "--compress-mode=size", out);
  EXPECT_EQ(CountFile(out), (Counts{{"PTX compute_90 zstd", 1}, {"cubin sm_90 zstd", 1}}));
  CompileSample(flags + "--compress-mode=speed", out);
  EXPECT_EQ(CountFile(out), (Counts{{"PTX compute_90 lz4", 1}, {"cubin sm_90 stored", 1}}));
  CompileSample(flags + "--compress-mode=none", out);
  EXPECT_EQ(CountFile(out), (Counts{{"PTX compute_90 stored", 1}, {"cubin sm_90 stored", 1}}));
  CompileSample(flags + "--compress-mode=balance", out);
  EXPECT_EQ(CountFile(out), (Counts{{"PTX compute_90 zstd", 1}, {"cubin sm_90 stored", 1}}));
  CompileSample(flags + "-G", out);
  EXPECT_EQ(CountFile(out), (Counts{{"PTX compute_90 zstd", 1}, {"cubin sm_90 zstd", 1}}));
}

TEST_F(ElfImages, ArchitecturesAndSuffixes) {
  const std::string out = Path("a.o");
  CompileSample("-c -arch=sm_90a", out);
  Counts counts = CountFile(out);
  EXPECT_EQ(counts["cubin sm_90a stored"], 1);
  EXPECT_EQ(counts["PTX compute_90a zstd"], 1);
  CompileSample("-c -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=compute_90",
                out);
  EXPECT_EQ(CountFile(out), (Counts{{"PTX compute_90 zstd", 1}, {"cubin sm_80 stored", 1}}));
  CompileSample("-c -gencode arch=compute_90,code=sm_90", out);
  EXPECT_EQ(CountFile(out), (Counts{{"cubin sm_90 stored", 1}}));
  CompileSample("-dc -gencode arch=compute_90,code=lto_90", out);
  const Result<ImageFile> lto = OpenImageFile(out);
  ASSERT_TRUE(lto.ok());
  ASSERT_EQ(lto->images.images.size(), 1u);
  EXPECT_EQ(lto->images.images[0].kind, ImageKind::kLtoIr);
  EXPECT_EQ(lto->images.images[0].ArchName(), "compute_90");
}

TEST_F(ElfImages, OptionsAndNames) {
  CompileSample("-c -arch=sm_90 -lineinfo -maxrregcount=32 -Xptxas -O1", Path("a.o"));
  const Result<ImageFile> file = OpenImageFile(Path("a.o"));
  ASSERT_TRUE(file.ok());
  const Image& ptx = file->images.images.at(file->images.images[0].kind == ImageKind::kPtx ? 0 : 1);
  EXPECT_NE(ptx.options.find("maxrregcount=32"), std::string_view::npos) << ptx.options;
  EXPECT_NE(ptx.name.find("sample"), std::string_view::npos) << ptx.name;
  EXPECT_EQ(ptx.major, 9);
}

TEST_F(ElfImages, LinkedProgramOfUnits) {
  const std::string one =
      WriteSource("one.cu",
                  "extern __device__ int helper(int);\n"
                  "extern \"C\" __global__ void plain(int* p) { *p = helper(*p); }\n"
                  "int main() { plain<<<1, 1>>>(nullptr); }\n");
  const std::string two = WriteSource("two.cu",
                                      "__device__ int helper(int i) { return i + 1; }\n"
                                      "__global__ void other(int* p) { *p = 2; }\n");
  Nvcc("-rdc=true -arch=sm_90 '" + one + "' '" + two + "' -o '" + Path("app") + "'");
  const Result<ImageFile> file = OpenImageFile(Path("app"));
  ASSERT_TRUE(file.ok()) << file.error().ToString();
  EXPECT_TRUE(file->images.damages.empty());
  EXPECT_EQ(Count(file->images), (Counts{{"PTX compute_90 zstd unit", 2},
                                         {"cubin sm_90 zstd unit", 2},
                                         {"cubin sm_90 stored", 1}}));
  int units = 0;
  for (const ContainerPlace& place : file->images.containers) {
    units += place.is_unit;
    EXPECT_NE(place.address, 0u);
    EXPECT_FALSE(place.section.empty());
  }
  EXPECT_EQ(units, 2);
}

TEST_F(ElfImages, BareFilesOfEachKind) {
  CompileSample("-fatbin -arch=sm_90", Path("a.fatbin"));
  Result<ImageFile> file = OpenImageFile(Path("a.fatbin"));
  ASSERT_TRUE(file.ok()) << file.error().ToString();
  EXPECT_EQ(file->images.form, FileForm::kContainer);
  EXPECT_EQ(file->images.images.size(), 2u);
  EXPECT_TRUE(file->images.damages.empty());
  CompileSample("-cubin -arch=sm_90", Path("a.cubin"));
  EXPECT_EQ(OpenImageFile(Path("a.cubin"))->images.form, FileForm::kCubin);
  CompileSample("-ptx -arch=sm_90", Path("a.ptx"));
  EXPECT_EQ(OpenImageFile(Path("a.ptx"))->images.form, FileForm::kPtxText);
}

TEST_F(ElfImages, StrippedAndDamagedPrograms) {
  CompileSample("-arch=sm_90 -cudart shared", Path("app"));
  ASSERT_EQ(system(("strip '" + Path("app") + "'").c_str()), 0);
  Result<ImageFile> file = OpenImageFile(Path("app"));
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->images.damages.empty());
  ASSERT_GE(file->images.images.size(), 2u);
  EXPECT_EQ(file->images.build_id.size(), 40u);
  // Without its end, where the section headers are, the images are still there.
  std::filesystem::resize_file(Path("app"), file->file.bytes().size() - 100);
  file = OpenImageFile(Path("app"));
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(file->images.damages.size(), 1u);
  EXPECT_EQ(file->images.damages[0].where.file, Path("app"));
  EXPECT_TRUE(file->images.damages[0].where.offset.has_value());
  EXPECT_GE(file->images.images.size(), 2u);
  // A damaged magic is damage, not a program without images.
  CompileSample("-c -arch=sm_90", Path("a.o"));
  const uint64_t at = OpenImageFile(Path("a.o"))->images.containers.at(0).offset;
  std::fstream(Path("a.o"), std::ios::in | std::ios::out).seekp(static_cast<std::streamoff>(at))
      << "X";
  file = OpenImageFile(Path("a.o"));
  ASSERT_EQ(file->images.damages.size(), 1u);
  EXPECT_EQ(file->images.damages[0].where.offset, at);
}

TEST(ElfImagesPlain, ProgramsWithoutImagesHaveNone) {
  const Result<ImageFile> file = OpenImageFile("/proc/self/exe");
  ASSERT_TRUE(file.ok()) << file.error().ToString();
  EXPECT_TRUE(file->images.images.empty());
  EXPECT_TRUE(file->images.damages.empty());
}

TEST(ElfImagesPlain, RefusesOtherFiles) {
  EXPECT_EQ(OpenImageFile("/nowhere/at/all").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(OpenImageFile("/tmp").error().code, ErrorCode::kIo);
  const std::string script = "#!/bin/sh\n";
  const Bytes bytes(reinterpret_cast<const uint8_t*>(script.data()), script.size());
  EXPECT_EQ(ReadImages(bytes, "a.sh").error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(ReadImages({}, "empty").error().code, ErrorCode::kUnsupported);
}

TEST(ElfImagesPlain, ScanGoesOnAfterADamagedContainer) {
  std::vector<uint8_t> bytes = BuildContainer({{.contents = SamplePtx(80)}});
  const uint64_t second = bytes.size();
  bytes[16 + 4] = 1;  // the first entry's header size
  const std::vector<uint8_t> good = BuildContainer({{.contents = SamplePtx(90)}});
  bytes.insert(bytes.end(), good.begin(), good.end());
  const Result<FileImages> found = ReadImages(bytes, "two.fatbin");
  ASSERT_TRUE(found.ok());
  ASSERT_EQ(found->damages.size(), 1u);
  ASSERT_EQ(found->containers.size(), 2u);
  EXPECT_EQ(found->containers[1].offset, second);
  EXPECT_EQ(found->images.at(0).ArchName(), "compute_90");
  EXPECT_EQ(found->images.at(0).container, 1u);
}

}  // namespace
}  // namespace cupola::fatbin
