#include "cli/inspect.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/inspect_print.h"
#include "tests/unit/fatbin/container_builder.h"
#include "tests/unit/fatbin/nvcc_fixture.h"

namespace cupola {
namespace {

using InspectBuilt = fatbin::NvccTest;

std::string WriteFile(const std::string& name, const std::vector<uint8_t>& bytes) {
  const std::string path = testing::TempDir() + name;
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  return path;
}

std::vector<uint8_t> BytesOf(const std::string& text) { return {text.begin(), text.end()}; }

TEST(Inspect, KernelsAreMergedAcrossImages) {
  const std::string path = WriteFile(
      "merged.fatbin", fatbin::BuildContainer({{.contents = fatbin::SamplePtx(80, "_Z5scalePf")},
                                               {.contents = fatbin::SamplePtx(90, "_Z5scalePf")},
                                               {.contents = fatbin::SamplePtx(90, "other")}}));
  const Result<Inspection> inspection = Inspect(path, {});
  ASSERT_TRUE(inspection.ok()) << inspection.error().ToString();
  EXPECT_TRUE(inspection->damages.empty());
  ASSERT_EQ(inspection->kernels.size(), 2u);
  EXPECT_EQ(inspection->kernels[0].demangled, "scale(float*)");
  EXPECT_EQ(inspection->kernels[0].ptx.size(), 1u) << "one for each architecture in the text";
  EXPECT_EQ(inspection->kernels[0].CodeFor(90), nullptr);
  const std::string text = InspectionText(*inspection, {});
  EXPECT_NE(text.find("scale(float*)"), std::string::npos) << text;
  EXPECT_NE(text.find("2 kernels, each with PTX"), std::string::npos) << text;
  EXPECT_NE(InspectionText(*inspection, {.mangled = true}).find("_Z5scalePf"), std::string::npos);
}

TEST(Inspect, FiltersByPartOfEitherName) {
  const std::string path = WriteFile(
      "filter.fatbin", fatbin::BuildContainer({{.contents = fatbin::SamplePtx(90, "_Z5scalePf")},
                                               {.contents = fatbin::SamplePtx(90, "other")}}));
  EXPECT_EQ(Inspect(path, {.image = {}, .kernels = "float*"})->kernels.size(), 1u);
  EXPECT_EQ(Inspect(path, {.image = {}, .kernels = "_Z5"})->kernels.size(), 1u);
  EXPECT_EQ(Inspect(path, {.image = {}, .kernels = "nothing"})->kernels.size(), 0u);
  EXPECT_EQ(Inspect(path, {.image = 1, .kernels = ""})->kernels.at(0).name, "other");
  EXPECT_EQ(Inspect(path, {.image = 2, .kernels = ""}).error().code, ErrorCode::kInvalidArgument);
}

TEST(Inspect, DamageIsToldAndTheRestShown) {
  const std::string path = WriteFile(
      "damaged.fatbin", fatbin::BuildContainer({{.contents = fatbin::SamplePtx(90, "good")},
                                                {.contents = ".version 9.0\n.target }{"}}));
  const Result<Inspection> inspection = Inspect(path, {});
  ASSERT_TRUE(inspection.ok());
  ASSERT_EQ(inspection->damages.size(), 1u);
  const Error& damage = inspection->damages[0];
  EXPECT_EQ(damage.where.file, path);
  EXPECT_TRUE(damage.where.offset.has_value());
  EXPECT_NE(damage.message.find("image 1"), std::string::npos) << damage.message;
  EXPECT_FALSE(inspection->images.at(1).readable);
  EXPECT_EQ(inspection->kernels.size(), 1u);
}

TEST(Inspect, PtxTextByItself) {
  const std::string path = WriteFile("bare.ptx", BytesOf(fatbin::SamplePtx(90)));
  const Result<Inspection> inspection = Inspect(path, {});
  ASSERT_TRUE(inspection.ok());
  EXPECT_EQ(inspection->images.at(0).arch, "compute_90");
  EXPECT_EQ(inspection->images.at(0).version, "9.0");
  EXPECT_EQ(inspection->kernels.size(), 1u);
  const std::string broken = WriteFile("broken.ptx", BytesOf(".version 9.0\n.target sm_90\n}"));
  const Result<Inspection> damaged = Inspect(broken, {});
  ASSERT_TRUE(damaged.ok());
  ASSERT_EQ(damaged->damages.size(), 1u);
  EXPECT_EQ(damaged->damages[0].where.file, broken);
  EXPECT_EQ(damaged->damages[0].where.line, 3u);
}

TEST(Inspect, ProgramsWithoutImagesAreToldSo) {
  const Result<Inspection> inspection = Inspect("/proc/self/exe", {});
  ASSERT_TRUE(inspection.ok()) << inspection.error().ToString();
  EXPECT_NE(InspectionText(*inspection, {}).find("no kernels of its own"), std::string::npos);
}

TEST(Inspect, NamesThatAreNoUtf8StillGiveJson) {
  const std::string path =
      WriteFile("utf8.fatbin",
                fatbin::BuildContainer({{.contents = fatbin::SamplePtx(90), .name = "\xff.cu"}}));
  const auto json = nlohmann::json::parse(InspectionJson(*Inspect(path, {})), nullptr, false);
  EXPECT_FALSE(json.is_discarded());
}

TEST_F(InspectBuilt, EverySideOfAKernel) {
  CompileSample(
      "-c -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 "
      "-gencode arch=compute_90,code=compute_90",
      Path("a.o"));
  const Result<Inspection> inspection =
      Inspect(Path("a.o"), {.image = {}, .kernels = "shared_sum"});
  ASSERT_TRUE(inspection.ok());
  ASSERT_EQ(inspection->kernels.size(), 1u);
  const InspectedKernel& kernel = inspection->kernels[0];
  EXPECT_EQ(kernel.demangled, "shared_sum(float const*, float*, Big, char, double)");
  ASSERT_EQ(kernel.code.size(), 2u);
  EXPECT_EQ(kernel.CodeFor(90)->arch, "sm_90");
  EXPECT_EQ(kernel.CodeFor(86)->arch, "sm_80");
  EXPECT_EQ(kernel.CodeFor(90)->facts.shared_bytes, 1024u);
  const KernelPtx* ptx = kernel.PtxFor(90);
  ASSERT_NE(ptx, nullptr);
  const ptx::KernelFeatures features{.kernel = "", .notes = ptx->features};
  EXPECT_TRUE(features.Has(ptx::Feature::kBlockBarrier));
  EXPECT_FALSE(features.Has(ptx::Feature::kEarlyReturn));
  EXPECT_TRUE(features.Has(ptx::Feature::kModuleVariable));
  const auto json = nlohmann::json::parse(InspectionJson(*inspection));
  EXPECT_EQ(json["kernels"][0]["code"][1]["shared_bytes"], 1024);
  EXPECT_EQ(json["kernels"][0]["code"][1]["params"].size(), 5u);
  EXPECT_EQ(json["images"].size(), 3u);
}

TEST_F(InspectBuilt, KernelsWithoutPtxSaySo) {
  CompileSample("-c -gencode arch=compute_90,code=sm_90", Path("a.o"));
  const std::string text = InspectionText(*Inspect(Path("a.o"), {}), {});
  EXPECT_NE(text.find("no PTX"), std::string::npos) << text;
  EXPECT_NE(text.find("3 kernels, 3 without PTX"), std::string::npos) << text;
}

}  // namespace
}  // namespace cupola
