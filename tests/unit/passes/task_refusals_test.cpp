// What the pass `task` refuses: for every reason a small kernel that has it, beside one that is as
// near to it as can be and is a task.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "device/compiler/passes/task_module.h"
#include "device/compiler/ptx/parse.h"
#include "device/compiler/ptx/write.h"
#include "device/runtime/master_image.h"
#include "tests/paths.h"
#include "tests/unit/sim/golden_kernel.h"

namespace cupola::passes {
namespace {

namespace fs = std::filesystem;

const ptx::Module& MasterModule() {
  static const auto master = ptx::Parse(runtime::MasterImage(), "master_image");
  return *master;
}

struct RefusalCase {
  const char* name;
  const char* reason;  ///< "": it is a task
  const char* body;
  const char* outside = "";  ///< of the module, before the kernel
  const char* parameters = ".param .u64 p";
};

constexpr char kInFunction[] =
    "a device function that is called, not inlined, reads indices, waits or has shared memory";
constexpr char kMatrix[] = "matrix instructions: warps of a task may be partial";
constexpr char kOddIndices[] = "reads thread or block indices as a vector or as 16 bits";
constexpr char kWaits[] = "blocks may wait on one another: ld.volatile.global in a loop";
constexpr char kWaitsSomehow[] = "blocks may wait on one another: ";
constexpr char kTextures[] =
    "textures or surfaces: nothing orders what they read behind what earlier tasks wrote";
constexpr char kCounted[] = "barriers of a counted number of threads";
constexpr char kReduces[] = "barriers with a reduction";
constexpr char kOverAligned[] = "shared memory aligned to more than 512";
constexpr char kCallOfF[] = "call.uni f, ();";

constexpr RefusalCase kCases[] = {
    // Parameters.
    {"ParametersThatFillARecord", "", "", "", ".param .b8 p[160]"},
    {"ParametersThatAreTooMany", "more than 160 bytes of parameters: 161", "", "",
     ".param .b8 p[161]"},
    {"ParametersThatAreTooManyTogether", "more than 160 bytes of parameters: 168", "", "",
     ".param .b8 p[156], .param .u64 q"},
    // Blocks that wait.
    {"ReadsAWordOnce", "", "ld.param.u64 %d0, [p];\nld.volatile.global.u32 %r0, [%d0];"},
    {"WaitsOnAWord", kWaits,
     "ld.param.u64 %d0, [p];\nAGAIN:\nld.volatile.global.u32 %r0, [%d0];\n"
     "setp.eq.u32 %p0, %r0, 0;\n@%p0 bra AGAIN;"},
    {"WaitsOnAWordReadPlainly",
     "blocks may wait on one another: a loop ends by what ld.global.cg reads each time",
     "ld.param.u64 %d0, [p];\nAGAIN:\nld.global.cg.u32 %r0, [%d0];\n"
     "setp.eq.u32 %p0, %r0, 0;\n@%p0 bra AGAIN;"},
    {"GoesThroughAList", "",
     "ld.param.u64 %d0, [p];\nAGAIN:\nld.global.cg.u64 %d0, [%d0];\n"
     "setp.ne.u64 %p0, %d0, 0;\n@%p0 bra AGAIN;"},
    // Caches that are not coherent.
    {"ReadsAnArray", "", "ld.param.u64 %d0, [p];\nld.global.nc.v2.u32 {%r0, %r1}, [%d0];"},
    {"ReadsATexture", kTextures,
     "ld.param.u64 %d0, [p];\ntex.1d.v4.u32.s32 {%r0, %r1, %r2, %r3}, [%d0, {%r4}];"},
    {"GathersFromATexture", kTextures,
     "ld.param.u64 %d0, [p];\ntld4.r.2d.v4.u32.f32 {%r0, %r1, %r2, %r3}, [%d0, {%f0, %f1}];"},
    {"ReadsASurface", kTextures,
     "ld.param.u64 %d0, [p];\nsuld.b.1d.b32.trap {%r0}, [%d0, {%r4}];"},
    {"WritesASurface", kTextures,
     "ld.param.u64 %d0, [p];\nsust.b.1d.b32.trap [%d0, {%r4}], {%r0};"},
    {"ReducesASurface", kTextures,
     "ld.param.u64 %d0, [p];\nsured.b.add.1d.u32.trap [%d0, {%r4}], %r0;"},
    {"AsksForTheSizeOfATexture", kTextures,
     "ld.param.u64 %d0, [p];\ntxq.width.b32 %r0, [%d0];"},
    {"AsksForTheSizeOfASurface", kTextures,
     "ld.param.u64 %d0, [p];\nsuq.width.b32 %r0, [%d0];"},
    // Alignment of shared memory.
    {"AlignedToAUnit", "", "mov.u32 %r0, s;", ".shared .align 512 .b8 s[16];"},
    {"AlignedToMore", kOverAligned, "mov.u32 %r0, s;", ".shared .align 1024 .b8 s[16];"},
    {"DynamicAlignedToMore", kOverAligned, "mov.u32 %r0, s;",
     ".extern .shared .align 1024 .b8 s[];"},
    {"AlignedToMoreButNotNamed", "", "", ".shared .align 1024 .b8 s[16];"},
    {"AlignedToAUnitInTheBody", "", ".shared .align 512 .b8 s[16];\nmov.u32 %r0, s;"},
    {"AlignedToMoreInTheBody", kOverAligned, ".shared .align 1024 .b8 s[16];\nmov.u32 %r0, s;"},
    // Barriers.
    {"ABarrier", "", "bar.sync 0;"},
    {"ABarrierOfAWarp", "", "bar.warp.sync -1;"},
    {"ACountedBarrier", kCounted, "bar.sync 1, 64;"},
    {"ACountedBarrierThatReduces", kCounted,
     "setp.eq.u32 %p0, %r0, 0;\nbar.red.popc.u32 %r1, 1, 64, %p0;"},
    {"ABarrierThatReduces", kReduces, "setp.eq.u32 %p0, %r0, 0;\nbar.red.popc.u32 %r1, 0, %p0;"},
    // Whole warps.
    {"AShuffle", "", "shfl.sync.bfly.b32 %r1, %r0, 1, 31, -1;"},
    {"Mma", kMatrix,
     "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r0, %r1}, {%r2}, {%r3}, {%r4, %r5};"},
    {"Wmma", kMatrix,
     "wmma.mma.sync.aligned.row.col.m8n8k32.s32.u4.u4.s32 {%r0, %r1}, {%r2}, {%r3}, {%r4, %r5};"},
    {"Wgmma", kMatrix, "wgmma.fence.sync.aligned;"},
    {"LdMatrix", kMatrix, "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%r1];"},
    {"StMatrix", kMatrix, "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r1], {%r0};"},
    {"MovMatrix", kMatrix, "movmatrix.sync.aligned.m8n8.trans.b16 %r0, %r1;"},
    // Sizes and indices.
    {"ReadsItsDynamicSharedSize", "reads the size of its shared memory",
     "mov.u32 %r0, %dynamic_smem_size;"},
    {"ReadsIndices", "",
     "mov.u32 %r0, %tid.x;\nmov.u32 %r1, %ntid.y;\nmov.u32 %r2, %ctaid.z;\nmov.u32 %r3, "
     "%nctaid.x;"},
    {"ReadsAThreadIndexAs16Bits", kOddIndices, "mov.u16 %h0, %tid.x;"},
    {"ConvertsAThreadIndexFrom16Bits", kOddIndices, "cvt.u32.u16 %r0, %tid.x;"},
    {"ReadsASizeAs16Bits", kOddIndices, "mov.u16 %h0, %ntid.z;"},
    {"ReadsThreadIndicesAsAVector", kOddIndices, "mov.v4.u32 {%r0, %r1, %r2, %r3}, %tid;"},
    {"ReadsSizesAsAVector", kOddIndices, "mov.v4.u32 {%r0, %r1, %r2, %r3}, %ntid;"},
    // Functions that are called.
    {"CallsAFunction", "", kCallOfF,
     ".func f()\n{\n.reg .b32 %r<2>;\nmov.u32 %r0, 1;\nmembar.gl;\nret;\n}"},
    {"CallsOneThatReadsIndices", kInFunction, kCallOfF,
     ".func f()\n{\n.reg .b32 %r<2>;\nmov.u32 %r0, %tid.x;\nret;\n}"},
    {"CallsOneThatReadsASize", kInFunction, kCallOfF,
     ".func f()\n{\n.reg .b32 %r<2>;\nmov.u32 %r0, %nctaid.y;\nret;\n}"},
    {"CallsOneThatWaits", kInFunction, kCallOfF, ".func f()\n{\nbar.sync 0;\nret;\n}"},
    {"CallsOneThatShuffles", kInFunction, kCallOfF,
     ".func f()\n{\n.reg .b32 %r<2>;\nshfl.sync.bfly.b32 %r1, %r0, 1, 31, -1;\nret;\n}"},
    {"CallsOneThatMeetsItsWarp", kInFunction, kCallOfF, ".func f()\n{\nbar.warp.sync -1;\nret;\n}"},
    {"CallsOneThatNamesShared", kInFunction, kCallOfF,
     ".shared .align 4 .b32 s;\n.func f()\n{\n.reg .b32 %r<2>;\nld.shared.u32 %r0, [s];\nret;\n}"},
    {"CallsOneThatHasShared", kInFunction, kCallOfF,
     ".func f()\n{\n.shared .align 4 .b32 s;\nret;\n}"},
    {"CallsOneThatCallsOneThatWaits", kInFunction, kCallOfF,
     ".func g()\n{\nbar.sync 0;\nret;\n}\n.func f()\n{\ncall.uni g, ();\nret;\n}"},
    {"HasAFunctionThatItDoesNotCall", "", "", ".func f()\n{\nbar.sync 0;\nret;\n}"},
    // The MasterKernel's own names.
    {"NamesAFunctionOfTheMasterKernel",
     "a name of the program and of the MasterKernel alike: cupola_sync_block",
     "call.uni cupola_sync_block, ();", ".func cupola_sync_block()\n{\nret;\n}"},
    {"NamesItsOwnFunction", "", "call.uni sync_block, ();", ".func sync_block()\n{\nret;\n}"},
    // Reasons of the preemptible variant are reasons here, and come first.
    {"IsNotPreemptible", "placement (%smid, %warpid, %gridid): blocks share a worker",
     "mov.u32 %r0, %smid;\nbar.sync 1, 64;"},
    {"MovesRegisters", "setmaxnreg: registers would stay moved in the next block",
     "setmaxnreg.inc.sync.aligned.u32 64;"},
    {"ReadsItsTotalSharedSize", "reads the size of its shared memory",
     "mov.u32 %r0, %total_smem_size;"},
};

std::string TextOf(const RefusalCase& each) {
  return std::string(".version 8.0\n.target sm_90a\n.address_size 64\n") + each.outside +
         "\n.visible .entry k(" + each.parameters +
         ")\n{\n.reg .b32 %r<8>;\n.reg .b64 %d<2>;\n.reg .b16 %h<2>;\n.reg .pred %p<2>;\n" +
         each.body + "\nret;\n}\n";
}

class TaskRefusalTest : public testing::TestWithParam<RefusalCase> {};

TEST_P(TaskRefusalTest, HasItsReason) {
  const auto module = ptx::Parse(TextOf(GetParam()), GetParam().name);
  ASSERT_TRUE(module) << module.error().ToString();
  const auto made = MakeTaskModule(*module, MasterModule());
  ASSERT_TRUE(made) << made.error().ToString();
  ASSERT_EQ(made->kernels.size(), 1u);
  EXPECT_EQ(made->kernels[0].refusal, GetParam().reason);
  const bool is_task = std::string_view(GetParam().reason).empty();
  EXPECT_EQ(made->HasTasks(), is_task);
  EXPECT_EQ(made->module.FindFunction("k__cupola_task") != nullptr, is_task);
  EXPECT_EQ(made->module.FindFunction(kMasterName) != nullptr, is_task);
}

INSTANTIATE_TEST_SUITE_P(, TaskRefusalTest, testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

// The golden kernels that are no tasks; all others are, so that task_test.cpp runs them.
const std::map<std::string, std::string> kRefusedGoldens = {
    {"sim/async_copies", "mbarrier: its phases would live on into the next block"},
    {"sim/atomics_contended", kWaitsSomehow},
    {"sim/barrier_all_names", "the number of a counted barrier is in a register"},
    {"sim/barrier_pipeline",
     "arrives at a named barrier without waiting: it may be left half full"},
    {"sim/barrier_reductions", kCounted},
    {"sim/barriers", "arrives at a named barrier without waiting: it may be left half full"},
    {"sim/calls", "calls through pointers kept in variables"},
    {"sim/calls_indirect", "calls through pointers kept in variables"},
    {"sim/fault_two_barriers", "counted barriers after an early return"},
    {"sim/fences_between_blocks", kWaitsSomehow},
    {"sim/grid_sync", "grid synchronisation: all blocks must run at once"},
    {"sim/lock_within_a_warp", kWaitsSomehow},
    {"sim/match_member_masks", "warp operations after an early return"},
    {"sim/matrices", kMatrix},
    {"sim/matrix_moves", kMatrix},
    {"sim/memory_spaces", "reads the size of its shared memory"},
    {"sim/mma_bf16", kMatrix},
    {"sim/mma_f16", kMatrix},
    {"sim/mma_f16_accumulators", kMatrix},
    {"sim/mma_int8", kMatrix},
    {"sim/mma_special_values", kMatrix},
    {"sim/mma_tf32", kMatrix},
    {"sim/redux_member_masks", "warp operations after an early return"},
    {"sim/release_acquire", kWaitsSomehow},
    {"sim/shuffle_member_masks", "warp operations after an early return"},
    {"sim/store_buffering", kWaitsSomehow},
    {"sim/timers", "placement (%smid, %warpid, %gridid): blocks share a worker"},
    {"sim/volatile_flags", kWaitsSomehow},
    {"sim/warp_barrier_masks", "warp operations after an early return"},
    {"sim/wmma_bf16", kMatrix},
    {"sim/wmma_f16", kMatrix},
    {"sim/wmma_f16_accumulators", kMatrix},
    {"sim/wmma_shared_memory", kMatrix},
    {"kernels/early_return_reductions", kReduces},
    {"kernels/function_barrier", kInFunction},
    {"kernels/function_block_ids", kInFunction},
    {"kernels/look_back", kWaitsSomehow},
    {"kernels/named_barriers", kCounted},
    {"kernels/reductions", kReduces},
};

TEST(TaskGoldensTest, OnlyTheseAreRefused) {
  std::vector<fs::path> files = sim::GoldenKernelFiles();
  for (const auto& entry :
       fs::directory_iterator(fs::path(CUPOLA_SOURCE_DIR) / "tests/golden/passes/kernels")) {
    files.push_back(entry.path());
  }
  size_t tasks = 0, refused = 0;
  for (const fs::path& file : files) {
    std::stringstream text;
    text << std::ifstream(file).rdbuf();
    const std::string name = file.parent_path().filename() / file.stem();
    const auto module = ptx::Parse(text.str(), name);
    ASSERT_TRUE(module) << name << ": " << module.error().ToString();
    const auto made = MakeTaskModule(*module, MasterModule());
    ASSERT_TRUE(made) << name << ": " << made.error().ToString();
    const auto expected = kRefusedGoldens.find(name);
    for (const TaskFacts& kernel : made->kernels) {
      const std::string reason = expected == kRefusedGoldens.end() ? "" : expected->second;
      const bool somehow = reason == kWaitsSomehow;
      EXPECT_EQ(somehow ? kernel.refusal.substr(0, reason.size()) : kernel.refusal, reason) << name;
      ++(kernel.refusal.empty() ? tasks : refused);
    }
  }
  EXPECT_EQ(refused, kRefusedGoldens.size());
  EXPECT_GE(tasks, 90u);
}

// One that is refused costs the others of its module nothing.
TEST(TaskModuleTest, ARefusedKernelLeavesTheOthers) {
  const auto module = ptx::Parse(
      ".version 8.0\n.target sm_90\n.address_size 64\n"
      ".visible .entry a()\n{\nret;\n}\n"
      ".visible .entry b()\n{\nbar.sync 1, 64;\nret;\n}\n"
      ".visible .entry c()\n{\nbar.sync 0;\nret;\n}\n",
      "");
  ASSERT_TRUE(module);
  const auto made = MakeTaskModule(*module, MasterModule());
  ASSERT_TRUE(made) << made.error().ToString();
  ASSERT_EQ(made->kernels.size(), 3u);
  EXPECT_EQ(made->kernels[0].refusal, "");
  EXPECT_EQ(made->kernels[1].refusal, kCounted);
  EXPECT_EQ(made->kernels[2].refusal, "");
  EXPECT_EQ(made->kernels[0].body, 0u);
  EXPECT_EQ(made->kernels[2].body, 1u);
  EXPECT_FALSE(made->kernels[0].uses_barrier);
  EXPECT_TRUE(made->kernels[2].uses_barrier);
  EXPECT_EQ(made->module.FindFunction("b__cupola_task"), nullptr);
  const auto unknown = MakeTaskModule(*module, MasterModule(), {.kernels = {"d"}});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
}

// Between tasks nothing orders what is read through caches that are not coherent: all such loads are
// plain ones, in functions too, whatever else they say.
TEST(TaskModuleTest, ReadsCoherently) {
  const auto module = ptx::Parse(
      ".version 8.0\n.target sm_90\n.address_size 64\n"
      ".func (.param .b32 r) f(.param .b64 p)\n{\n.reg .b32 %r<2>;\n.reg .b64 %d<2>;\n"
      "ld.param.u64 %d0, [p];\nld.global.nc.u32 %r0, [%d0];\nst.param.b32 [r], %r0;\nret;\n}\n"
      ".visible .entry k(.param .u64 p)\n{\n.reg .b32 %r<8>;\n.reg .b64 %d<4>;\n"
      "ld.param.u64 %d0, [p];\nld.global.nc.u32 %r0, [%d0];\n"
      "createpolicy.fractional.L2::evict_last.b64 %d1, 1.0;\n"
      "ld.global.L1::no_allocate.nc.L2::cache_hint.v4.u32 {%r0, %r1, %r2, %r3}, [%d0], %d1;\n"
      "ld.global.cg.nc.L2::128B.u64 %d2, [%d0];\nldu.global.v2.u32 {%r0, %r1}, [%d0];\n"
      "ldu.u32 %r0, [%d0];\n{\n.param .b64 a;\n.param .b32 b;\nst.param.b64 [a], %d0;\n"
      "call (b), f, (a);\n}\nret;\n}\n",
      "");
  ASSERT_TRUE(module) << module.error().ToString();
  const auto made = MakeTaskModule(*module, MasterModule());
  ASSERT_TRUE(made) << made.error().ToString();
  EXPECT_EQ(made->kernels.at(0).refusal, "");
  const std::string text = ptx::Write(made->module);
  EXPECT_EQ(text.find(".nc"), std::string::npos);
  EXPECT_EQ(text.find("ldu"), std::string::npos);
  for (const char* load : {"ld.global.L1::no_allocate.L2::cache_hint.v4.u32", "ld.global.v2.u32",
                           "ld.global.cg.L2::128B.u64", "ld.u32 %r0, [%d0]"}) {
    EXPECT_NE(text.find(load), std::string::npos) << load;
  }
}

// Dynamic shared memory begins where its variable may: behind what is static.
TEST(TaskModuleTest, DynamicSharedMemoryIsAligned) {
  const auto module = ptx::Parse(
      ".version 8.0\n.target sm_90\n.address_size 64\n"
      ".shared .align 4 .b8 few[20];\n.extern .shared .align 128 .b8 more[];\n"
      ".visible .entry k()\n{\n.reg .b32 %r<2>;\nmov.u32 %r0, few;\nmov.u32 %r1, more;\nret;\n}\n",
      "");
  ASSERT_TRUE(module);
  const auto made = MakeTaskModule(*module, MasterModule());
  ASSERT_TRUE(made) << made.error().ToString();
  EXPECT_EQ(made->kernels.at(0).refusal, "");
  EXPECT_EQ(made->kernels.at(0).static_shared, 128u);
}

// A copy that nobody waited for has landed before its block's shared memory is another's.
TEST(TaskModuleTest, ABlockEndsBehindItsCopies) {
  const auto module = ptx::Parse(
      ".version 8.0\n.target sm_90\n.address_size 64\n.shared .align 16 .b8 tile[16];\n"
      ".visible .entry k(.param .u64 in)\n{\n.reg .pred %p<1>;\n.reg .b32 %r<2>;\n.reg .b64 %d<1>;\n"
      "mov.u32 %r0, tile;\nld.param.u64 %d0, [in];\n"
      "cp.async.ca.shared.global [%r0], [%d0], 16;\n"
      "mov.u32 %r1, %tid.x;\nsetp.eq.u32 %p0, %r1, 0;\n@%p0 ret;\nbar.sync 0;\nexit;\n}\n",
      "");
  ASSERT_TRUE(module) << module.error().ToString();
  const auto made = MakeTaskModule(*module, MasterModule());
  ASSERT_TRUE(made) << made.error().ToString();
  ASSERT_EQ(made->kernels.at(0).refusal, "");
  const ptx::Function* const body = made->module.FindFunction("k__cupola_task");
  ASSERT_NE(body, nullptr);
  std::vector<std::string> last;  // the two instructions before each return
  std::vector<const ptx::Instruction*> before;
  for (const ptx::Statement& statement : body->body->statements) {
    const auto* const each = std::get_if<ptx::Instruction>(&statement.node);
    if (each == nullptr) continue;
    if (each->opcode == "ret" && before.size() >= 2) {
      for (const auto* one : {before.end()[-2], before.back()}) {
        EXPECT_EQ(one->guard.has_value(), each->guard.has_value());
        last.push_back(one->opcode);
      }
    }
    before.push_back(each);
  }
  // `@%p0 ret`, the exit, and the end of the body.
  const std::vector<std::string> expected{"cp", "call", "cp", "call", "cp", "call"};
  EXPECT_EQ(last, expected);
}

}  // namespace
}  // namespace cupola::passes
