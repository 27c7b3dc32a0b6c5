// Where parameters lie by ptxas against where the passes have put them, for every golden kernel of the
// passes and some of odd alignments; what differs or is not told is refused.
#include "device/compiler/build/parameter_check.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "device/compiler/build/module_build.h"
#include "device/compiler/passes/preemptible.h"
#include "device/compiler/ptx/parse.h"
#include "device/compiler/ptx/write.h"
#include "device/compiler/store/bundle.h"
#include "device/runtime/preempt_control.h"
#include "tests/paths.h"
#include "tests/unit/build/real_ptxas.h"

namespace cupola::build {
namespace {

namespace fs = std::filesystem;

// Alignments up to 128 with small ones and arrays between; more bytes than the short records hold.
constexpr char kAligned[] = R"(.version 8.1
.target sm_75
.address_size 64
.visible .entry steps(.param .u64 a, .param .u8 b, .param .align 32 .b8 c[32], .param .u16 d,
    .param .align 128 .b8 e[128], .param .f32 f, .param .align 64 .b8 g[20], .param .align 8 .b8 h[72])
{
  .reg .b64 %a<3>; .reg .b32 %r<2>;
  ld.param.u64 %a0, [a];
  ld.param.u32 %r0, [g+16];
  cvta.to.global.u64 %a1, %a0;
  st.global.u32 [%a1], %r0;
  ret;
}
.visible .entry row(.param .align 64 .b8 a[1], .param .align 64 .b8 b[1], .param .u8 c, .param .align 32 .b8 d[3])
{ ret; }
.visible .entry large(.param .u64 a, .param .align 32 .b8 b[20000], .param .u16 c) { ret; }
.visible .entry none() { ret; }
)";

constexpr uint8_t kShortRecord = 0x17;  // EIATTR_KPARAM_INFO, in format 4 with 12 bytes

// ptxas, but that records of parameters of modules with `where` in their text are changed.
class ChangingCompiler final : public RealPtxas {
 public:
  Result<std::vector<uint8_t>> Compile(const CompileInput& input) const override {
    Result<std::vector<uint8_t>> cubin = RealPtxas::Compile(input);
    if (!cubin || where.empty() || input.ptx.find(where) == std::string_view::npos) return cubin;
    for (size_t at = 0; at + 16 <= cubin->size(); at += 4) {
      const uint8_t head[] = {4, kShortRecord, 12, 0};
      uint16_t ordinal = 0, offset = 0;
      std::memcpy(&ordinal, &(*cubin)[at + 8], 2);
      std::memcpy(&offset, &(*cubin)[at + 10], 2);
      if (std::memcmp(&(*cubin)[at], head, 4) != 0 || ordinal != changed) continue;
      offset = static_cast<uint16_t>(offset + 16);
      std::memcpy(&(*cubin)[at + 10], &offset, 2);
      if (removes) (*cubin)[at + 1] = 0x7e;  // no attribute that anybody knows
    }
    return cubin;
  }

  std::string where;
  uint16_t changed = 2;
  bool removes = false;
};

class ParameterCheck : public RealPtxasTest {
 protected:
  // Kernels of a text by name, as ptxas makes them.
  std::map<std::string, fatbin::CubinKernel> Compile(const std::string& ptx, uint32_t arch) {
    std::map<std::string, fatbin::CubinKernel> kernels;
    const auto bytes = compiler_.Compile({.ptx = ptx, .arch = arch, .options = {"-O1"}});
    EXPECT_TRUE(bytes) << bytes.error().ToString();
    if (!bytes) return kernels;
    const auto cubin = fatbin::ReadCubin(*bytes);
    EXPECT_TRUE(cubin);
    for (const fatbin::CubinKernel& kernel : cubin->kernels) kernels[kernel.name] = kernel;
    return kernels;
  }

  // How many variants of a module were compared.
  uint32_t CompareAll(const std::string& text, const std::string& name, uint32_t arch) {
    uint32_t compared = 0;
    const auto module = ptx::Parse(text, name);
    EXPECT_TRUE(module) << name;
    const auto side = passes::MakeSideModule(*module, {.arch = arch});
    EXPECT_TRUE(side) << name;
    const auto originals = Compile(text, arch);
    if (!side->HasVariants()) return 0;
    const auto variants = Compile(ptx::Write(side->module), arch);
    for (const passes::KernelFacts& facts : side->kernels) {
      const fatbin::CubinKernel& original = originals.at(facts.name);
      EXPECT_EQ(CompareOriginal(&original, facts.parameters), "") << name << " " << facts.name;
      for (const auto& [variant, bytes] :
           {std::pair{passes::Variant::kPreemptible, sizeof(runtime::PreemptParams)},
            std::pair{passes::Variant::kSliced, sizeof(runtime::SliceParams)}}) {
        const auto found = variants.find(passes::VariantName(facts.name, variant));
        if (found == variants.end()) continue;
        ++compared;
        EXPECT_EQ(CompareVariant(original, found->second, bytes), "") << name << " " << facts.name;
        EXPECT_EQ(found->second.params.back().offset, facts.launch_offset) << facts.name;
      }
    }
    return compared;
  }

  store::BundleView Build(const std::string& ptx, uint32_t arch = 90) {
    const ModuleInput input{.name = "test", .ptx = ptx, .arch = arch};
    Result<BuiltModule> built = BuildModule(input, {}, compiler_);
    EXPECT_TRUE(built) << built.error().ToString();
    if (!built) return {};
    bundle_ = std::move(built->bundle);
    Result<store::BundleView> view = store::BundleView::Open(bundle_);
    EXPECT_TRUE(view);
    return view ? *view : store::BundleView();
  }

  ChangingCompiler compiler_;
  std::vector<std::byte> bundle_;
};

std::vector<uint32_t> OffsetsOf(const store::BundleView& view, const char* kernel) {
  std::vector<uint32_t> offsets;
  for (const store::ParameterEntry& entry : view.parameters(*view.Find(kernel))) {
    offsets.push_back(entry.offset);
  }
  return offsets;
}

TEST_F(ParameterCheck, EveryGoldenKernelIsLaidOutAsPtxasDoes) {
  uint32_t compared = 0;
  for (const auto& file : fs::directory_iterator(CUPOLA_GOLDEN_KERNELS)) {
    std::stringstream text;
    text << std::ifstream(file.path()).rdbuf();
    compared += CompareAll(text.str(), file.path().filename(), 90);
  }
  EXPECT_GT(compared, 30u);
}

TEST_F(ParameterCheck, EveryArchitectureHasABaseOfItsOwn) {
  for (const uint32_t arch : {75u, 80u, 89u, 90u, 100u, 120u}) {
    EXPECT_EQ(CompareAll(kAligned, "aligned", arch), 8u) << arch;
  }
}

TEST_F(ParameterCheck, BundlesSayWhatTheCodeSays) {
  using Offsets = std::vector<uint32_t>;
  store::BundleView view = Build(kAligned, 90);
  EXPECT_EQ(OffsetsOf(view, "steps"), (Offsets{0, 8, 16, 48, 112, 240, 304, 328}));
  EXPECT_EQ(view.Find("steps")->launch_offset, 400u);
  EXPECT_EQ(view.Find("steps")->parameter_bytes, 400u);
  EXPECT_EQ(OffsetsOf(view, "large"), (Offsets{0, 16, 20016}));
  EXPECT_EQ(view.Find("none")->launch_offset, 0u);
  view = Build(kAligned, 80);
  EXPECT_EQ(OffsetsOf(view, "steps"), (Offsets{0, 8, 32, 64, 160, 288, 352, 376}));
  for (const store::KernelEntry& kernel : view.kernels()) {
    EXPECT_EQ(kernel.flags & (store::kPreemptible | store::kSliced),
              store::kPreemptible | store::kSliced);
    EXPECT_EQ(kernel.refusal_offset, 0u) << view.Text(kernel.refusal_offset);
  }
}

TEST_F(ParameterCheck, VariantsThatLieElsewhereAreRefused) {
  compiler_.where = "steps__cupola_preemptible";
  const store::BundleView view = Build(kAligned);
  EXPECT_EQ(view.Find("steps")->flags & (store::kPreemptible | store::kSliced), 0u);
  EXPECT_STREQ(view.Text(view.Find("steps")->refusal_offset),
               "preemptible: parameter 2 lies at 32 in the variant, at 16 in the program's code; "
               "sliced: parameter 2 lies at 32 in the variant, at 16 in the program's code");
  EXPECT_NE(view.Find("none")->flags & store::kPreemptible, 0u);
}

TEST_F(ParameterCheck, AParameterOfOursThatLiesElsewhereIsWhatTheBundleSays) {
  compiler_.where = "steps__cupola_preemptible";
  compiler_.changed = 8;
  const store::BundleView view = Build(kAligned);
  EXPECT_NE(view.Find("steps")->flags & store::kPreemptible, 0u);
  EXPECT_EQ(view.Find("steps")->launch_offset, 416u);
}

TEST_F(ParameterCheck, OriginalsThatLieElsewhereOrDoNotTellAreRefused) {
  for (const bool removes : {false, true}) {
    compiler_.where = ".entry steps(";
    compiler_.removes = removes;
    const store::BundleView view = Build(kAligned);
    const store::KernelEntry& kernel = *view.Find("steps");
    EXPECT_EQ(kernel.flags & (store::kPreemptible | store::kSliced | store::kTask), 0u);
    const std::string why =
        removes ? "the program's code does not say where its parameters lie"
                : "parameter 2 lies at 32 with 32 bytes in the program's code, not at 16 with 32";
    EXPECT_EQ(view.Text(kernel.refusal_offset),
              "preemptible: " + why + "; sliced: " + why);
  }
}

// A task's body reads from the record: what a kernel of so few parameters needs of alignment.
TEST_F(ParameterCheck, TasksReadWhereTheProgramPacks) {
  const std::string head = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(";
  const std::string body = "{\n.reg .b64 %a<3>;\n.reg .b32 %r<4>;\nld.param.u64 %a0, [p];\n"
                           "ld.param.v4.u32 {%r0, %r1, %r2, %r3}, [w+16];\ncvta.to.global.u64 %a1, %a0;\n"
                           "st.global.u32 [%a1], %r3;\nret;\n}\n";
  const std::string parameters = ".param .u64 p, .param .align 32 .b8 w[32])\n";
  store::BundleView view = Build(head + parameters + body);
  EXPECT_NE(view.Find("k")->flags & store::kTask, 0u) << view.Text(view.Find("k")->task_refusal_offset);
  EXPECT_EQ(OffsetsOf(view, "k"), (std::vector<uint32_t>{0, 16}));
  EXPECT_NE(std::string(view.ptx(store::ImageKind::kTasks)).find("add.u32 %cupola_s0, %cupola_a, 16;"),
            std::string::npos);
  compiler_.where = ".entry k(";
  compiler_.changed = 1;
  view = Build(head + parameters + body);
  EXPECT_EQ(view.Find("k")->flags & store::kTask, 0u);
  EXPECT_STREQ(view.Text(view.Find("k")->task_refusal_offset),
               "parameter 1 lies at 32 with 32 bytes in the program's code, not at 16 with 32");
}

TEST_F(ParameterCheck, TasksDoNotTakeTheAddressOfWhatIsAlignedToMoreThanARecord) {
  const store::BundleView view = Build(
      ".version 8.0\n.target sm_80\n.address_size 64\n"
      ".visible .entry k(.param .u64 p, .param .align 32 .b8 w[32])\n{\n.reg .b64 %a<4>;\n.reg .b32 %r<1>;\n"
      "mov.b64 %a0, w;\ncvta.param.u64 %a1, %a0;\nld.u32 %r0, [%a1+4];\nld.param.u64 %a2, [p];\n"
      "cvta.to.global.u64 %a3, %a2;\nst.global.u32 [%a3], %r0;\nret;\n}\n");
  EXPECT_EQ(view.Find("k")->flags & store::kTask, 0u);
  EXPECT_STREQ(view.Text(view.Find("k")->task_refusal_offset),
               "takes the address of a parameter aligned to more than 16");
}

}  // namespace
}  // namespace cupola::build
