// The table of `cupola build`, whole: what people see.
#include "base/settings/variables.h"
#include "cli/build_print.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "device/compiler/store/bundle.h"
#include "tests/paths.h"

namespace cupola {
namespace {

using build::ImageReport;
using build::ImageState;
using build::KernelReport;

KernelReport Kernel(const std::string& name, uint32_t flags, uint32_t registers,
                    uint32_t variant_registers) {
  KernelReport kernel{.name = name, .flags = flags};
  kernel.registers = registers;
  kernel.variant_registers = variant_registers;
  kernel.threads = 256;
  kernel.before = build::OccupancyOf({256, registers, 0}, 90);
  kernel.after = build::OccupancyOf({256, variant_registers, 0}, 90);
  return kernel;
}

build::BuildReport Sample() {
  build::BuildReport report;
  ImageReport app{
      .file = "/bin/app", .offset = 0x1000, .section = ".nv_fatbin", .state = ImageState::kBuilt};
  app.kernels.push_back(Kernel("_Z5scalePfi", store::kPreemptible | store::kSliced | store::kTask, 20, 26));
  app.kernels.push_back(
      Kernel("_Z4gemmPf", store::kPreemptible | store::kSliced | store::kNotBitExact, 32, 40));
  app.kernels.back().differences = "preemptible: FFMA 12 (original 14)";
  app.kernels.back().variant_local_bytes = 16;
  app.kernels.push_back(Kernel("_Z4scanPi", store::kSliced | store::kMayWaitOnBlocks, 22, 0));
  app.kernels.back().sliced_registers = 24;
  app.kernels.back().refusal = "preemptible: warp operations after an early return";
  app.kernels.back().task_refusal = "warp operations after an early return";
  app.kernels.push_back(Kernel("_Z4gridPi", 0, 22, 0));
  app.kernels.back().refusal = "grid synchronisation: all blocks must run at once";
  ImageReport found = app;
  found.file = "/lib/libx.so";
  found.state = ImageState::kInStore;
  found.kernels = {Kernel("plain", store::kPreemptible | store::kOneDimensionalBlocks, 8, 24)};
  ImageReport machine_code{
      .file = "/lib/liby.so", .state = ImageState::kRefused, .reason = "no PTX: machine code only"};
  machine_code.kernels = {{.name = "a"}, {.name = "b"}};
  ImageReport failed{.file = "/lib/liby.so", .state = ImageState::kFailed, .reason = "line 3: bad"};
  report.images = {app, found, machine_code, machine_code, failed};
  report.evicted = {2, 1234};
  return report;
}

const BuildFacts kFacts{"/store", "ptxas cuda_13.0", 90, 1.25, {"libplugin.so"}};

// CUPOLA_REBASE=1 writes the file anew.
TEST(BuildPrint, TheTable) {
  const std::string path = std::string(CUPOLA_SOURCE_DIR) + "/tests/golden/cli/build_table.txt";
  const std::string text = BuildText(Sample(), kFacts, {});
  if (settings::Flag("CUPOLA_REBASE")) std::ofstream(path) << text;
  std::ifstream file(path);
  const std::string golden{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(text, golden);
}

TEST(BuildPrint, NothingToBuild) {
  const std::string text = BuildText({}, kFacts, {});
  EXPECT_NE(text.find("No kernels: nothing to build"), std::string::npos) << text;
}

TEST(BuildPrint, JsonHasAllOfIt) {
  const auto json = nlohmann::json::parse(BuildJson(Sample(), kFacts));
  EXPECT_EQ(json["kernels"], 9);
  EXPECT_EQ(json["preemptible"], 3);
  EXPECT_EQ(json["preemptible_bit_exact"], 2);
  EXPECT_EQ(json["sliced_bit_exact"], 3);
  EXPECT_EQ(json["tasks"], 1);
  EXPECT_EQ(json["arch"], "sm_90");
  EXPECT_EQ(json["images"][0]["kernels"][1]["preemptible_bit_exact"], false);
  EXPECT_EQ(json["images"][0]["kernels"][1]["sliced_bit_exact"], true);
  EXPECT_EQ(json["images"][0]["kernels"][0]["demangled"], "scale(float*, int)");
  EXPECT_EQ(json["images"][1]["state"], "in store");
  EXPECT_EQ(json["images"][4]["reason"], "line 3: bad");
}

TEST(BuildPrint, ProgressLines) {
  const build::BuildReport report = Sample();
  EXPECT_EQ(BuildProgressLine(report.images[0]), "built app+0x1000: 4 kernels, 0.0 s");
  EXPECT_EQ(BuildProgressLine(report.images[4]), "failed liby.so+0x0: line 3: bad");
}

}  // namespace
}  // namespace cupola
