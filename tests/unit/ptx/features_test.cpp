#include "device/compiler/ptx/features.h"

#include <gtest/gtest.h>

#include "device/compiler/ptx/parse.h"

namespace cupola::ptx {
namespace {

constexpr char kHead[] = ".version 9.0\n.target sm_90a\n.address_size 64\n";

KernelFeatures FeaturesOf(const std::string& body, const std::string& before = "",
                          const std::string& attributes = "") {
  const std::string text = kHead + before + "\n.visible .entry k(.param .u64 p, .param .u32 n)\n" +
                           attributes + "\n{\n.reg .pred %p<9>;\n.reg .b32 %r<29>;\n" +
                           ".reg .b64 %rd<9>;\n" + body + "\n}\n";
  const Result<Module> module = Parse(text, "test.ptx");
  EXPECT_TRUE(module.ok()) << (module ? "" : module.error().ToString());
  if (!module) return {};
  const std::vector<KernelFeatures> kernels = AnalyzeKernels(*module);
  EXPECT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels.at(0).kernel, "k");
  return kernels.at(0);
}

std::string DetailOf(const KernelFeatures& features, Feature wanted) {
  for (const FeatureNote& note : features.notes) {
    if (note.feature == wanted) return note.detail;
  }
  return "absent";
}

TEST(Features, ASimpleKernelHasNone) {
  EXPECT_TRUE(FeaturesOf("mov.u32 %r1, %ctaid.x;\nret;").notes.empty());
}

TEST(Features, SingleInstructions) {
  const struct {
    const char* body;
    Feature feature;
  } cases[] = {
      {"bar.sync 0;", Feature::kBlockBarrier},
      {"barrier.cta.sync 0;", Feature::kBlockBarrier},
      {"bar.red.popc.u32 %r1, 0, %p1;", Feature::kBlockBarrier},
      {"bar.sync 1;", Feature::kNamedBarrier},
      {"bar.sync 0, 64;", Feature::kNamedBarrier},
      {"bar.sync %r1;", Feature::kNamedBarrier},
      {"bar.arrive 1, 64;", Feature::kNamedBarrier},
      {"bar.red.and.pred %p1, 0, 64, %p2;", Feature::kNamedBarrier},
      {"bar.warp.sync -1;", Feature::kWarpSync},
      {"shfl.sync.idx.b32 %r1, %r2, 0, 31, -1;", Feature::kWarpSync},
      {"vote.sync.any.pred %p1, %p2, -1;", Feature::kWarpSync},
      {"mov.u32 %r1, %envreg1;", Feature::kGridSync},
      {"barrier.cluster.arrive.aligned;", Feature::kCluster},
      {"mov.u32 %r1, %cluster_ctarank;", Feature::kCluster},
      {"mapa.u64 %rd1, %rd2, %r1;", Feature::kCluster},
      {"mbarrier.init.shared::cta.b64 [%r1], 1;", Feature::kMbarrier},
      {"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 16, "
       "[%r2];",
       Feature::kBulkCopy},
      {"griddepcontrol.wait;", Feature::kProgrammaticLaunch},
      {"mov.u32 %r1, %smid;", Feature::kPlacement},
      {"mov.u64 %rd1, %gridid;", Feature::kPlacement},
      {"setmaxnreg.inc.sync.aligned.u32 160;", Feature::kRegisterReallocation},
      {"wgmma.fence.sync.aligned;", Feature::kTensorCore},
      {"tex.2d.v4.f32.f32 {%r1, %r2, %r3, %r4}, [%rd1, {%r5, %r6}];", Feature::kTexture},
      {"red.global.add.f32 [%rd1], %r1;", Feature::kFloatAtomic},
  };
  for (const auto& [body, feature] : cases) {
    const KernelFeatures features = FeaturesOf(std::string(body) + "\nret;");
    EXPECT_TRUE(features.Has(feature)) << body;
    EXPECT_EQ(features.notes.size(), 1u) << body << " also " << ToString(features.notes[0].feature);
  }
}

TEST(Features, AttributesOfClusters) {
  EXPECT_TRUE(FeaturesOf("ret;", "", ".explicitcluster\n.reqnctapercluster 2, 1, 1")
                  .Has(Feature::kCluster));
  EXPECT_TRUE(FeaturesOf("ret;", "", ".maxntid 128, 1, 1").notes.empty());
}

TEST(Features, MemoryAndVariables) {
  const KernelFeatures features = FeaturesOf(
      ".local .align 4 .b8 depot[816];\n.shared .align 4 .f32 s[256];\n"
      "mov.u64 %rd1, taps;\nld.global.u32 %r1, [counter];\nmov.u32 %r2, dyn;\n"
      "mov.u32 %r3, tile;\nmov.u64 %rd3, $str;\nret;",
      ".const .align 4 .f32 taps[8];\n.global .align 4 .u32 counter;\n.global .u32 unused;\n"
      ".extern .shared .align 16 .b8 dyn[];\n.shared .align 8 .b64 tile[4];\n"
      ".global .align 1 .b8 $str[4] = {37, 100, 10, 0};\n");
  EXPECT_EQ(DetailOf(features, Feature::kLocalMemory), "816 bytes");
  EXPECT_EQ(DetailOf(features, Feature::kStaticShared), "1056 bytes");
  EXPECT_TRUE(features.Has(Feature::kDynamicShared));
  EXPECT_EQ(DetailOf(features, Feature::kModuleVariable), "counter, taps");
}

TEST(Features, CallsAreFollowed) {
  const std::string functions =
      ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n"
      ".extern .func outside();\n"
      ".func waits()\n{\nbar.sync 0;\nret;\n}\n"
      ".func votes()\n{\n.reg .pred %p<3>;\nvote.sync.any.pred %p1, %p2, -1;\nret;\n}\n"
      ".global .align 8 .u64 table[1] = {votes};\n";
  EXPECT_TRUE(FeaturesOf("call.uni waits, ();\nret;", functions).Has(Feature::kBlockBarrier));
  EXPECT_TRUE(FeaturesOf("mov.u64 %rd1, votes;\nret;", functions).Has(Feature::kWarpSync));
  EXPECT_FALSE(FeaturesOf("ret;", functions).Has(Feature::kWarpSync));
  EXPECT_EQ(DetailOf(FeaturesOf("call.uni outside, ();\nret;", functions), Feature::kUnknownCall),
            "outside");
  const KernelFeatures indirect = FeaturesOf(
      "ld.global.u64 %rd1, [table];\nproto: .callprototype _ ();\ncall %rd1, (), proto;\nret;",
      functions);
  EXPECT_TRUE(indirect.Has(Feature::kIndirectCall));
  EXPECT_TRUE(indirect.Has(Feature::kWarpSync)) << "through the table's initializer";
  const KernelFeatures prints = FeaturesOf(
      "{\n.param .b64 a;\n.param .b64 b;\n.param .b32 r;\ncall.uni (r), vprintf, (a, b);\n}\nret;",
      functions);
  for (const char* name : {"__cudaCDP2LaunchDeviceV2_ptsz", "cudaLaunchDeviceV2",
                           "cudaGetParameterBufferV2"}) {
    const std::string launch = std::string("call.uni ") + name + ", ();\nret;";
    const std::string declared = std::string(".extern .func ") + name + "();\n";
    const KernelFeatures launches = FeaturesOf(launch, declared);
    EXPECT_TRUE(launches.Has(Feature::kDynamicParallelism)) << name;
    EXPECT_FALSE(launches.Has(Feature::kUnknownCall)) << name;
  }
  EXPECT_TRUE(prints.Has(Feature::kPrintf));
  EXPECT_FALSE(prints.Has(Feature::kUnknownCall));
}

TEST(Features, ReadsThatMayWaitForOthers) {
  const std::string loop = "\nsetp.eq.s32 %p1, %r1, 0;\n@%p1 bra L;\nret;";
  EXPECT_TRUE(
      FeaturesOf("L: ld.volatile.global.u32 %r1, [%rd1];" + loop).Has(Feature::kMayWait));
  EXPECT_TRUE(
      FeaturesOf("L: ld.acquire.gpu.global.u32 %r1, [%rd1];" + loop).Has(Feature::kMayWait));
  EXPECT_TRUE(
      FeaturesOf("L: atom.global.cas.b32 %r1, [%rd1], 0, 1;" + loop).Has(Feature::kMayWait));
  EXPECT_FALSE(
      FeaturesOf("L: atom.global.add.u32 %r9, [%rd1], 1;" + loop).Has(Feature::kMayWait))
      << "its result is not read";
  EXPECT_EQ(DetailOf(FeaturesOf("L: ld.global.u32 %r1, [%rd1];" + loop), Feature::kMayWait),
            "a loop ends by what ld.global reads each time");
  EXPECT_FALSE(FeaturesOf("L: add.s64 %rd1, %rd1, 4;\nld.global.u32 %r1, [%rd1];" + loop)
                   .Has(Feature::kMayWait));
  EXPECT_FALSE(
      FeaturesOf("L: ld.volatile.shared.u32 %r1, [%r2];" + loop).Has(Feature::kMayWait));
  EXPECT_FALSE(
      FeaturesOf("ld.volatile.global.u32 %r1, [%rd1];\nL:" + loop).Has(Feature::kMayWait));
}

bool ReturnsEarly(const std::string& body, const std::string& before = "") {
  return FeaturesOf(body, before).Has(Feature::kEarlyReturn);
}

constexpr char kByThread[] = "mov.u32 %r1, %tid.x;\nsetp.gt.u32 %p1, %r1, 7;\n";
constexpr char kByBlock[] = "mov.u32 %r1, %ctaid.x;\nsetp.gt.u32 %p1, %r1, 7;\n";

TEST(EarlyReturn, OnlyWhereThreadsOfABlockPart) {
  const std::string before_barrier = "@%p1 bra END;\nbar.sync 0;\nEND: ret;";
  EXPECT_TRUE(ReturnsEarly(kByThread + before_barrier));
  EXPECT_FALSE(ReturnsEarly(kByBlock + before_barrier));
  EXPECT_TRUE(ReturnsEarly(std::string(kByThread) + "@%p1 ret;\nbar.sync 0;\nret;"));
  EXPECT_TRUE(ReturnsEarly(std::string(kByThread) + "@!%p1 exit;\nbarrier.sync 0;\nret;"));
  EXPECT_FALSE(ReturnsEarly(std::string(kByThread) + "@%p1 trap;\nbar.sync 0;\nret;"));
}

TEST(EarlyReturn, AfterTheLastBarrierIsNotEarly) {
  EXPECT_FALSE(ReturnsEarly(std::string("bar.sync 0;\n") + kByThread +
                            "@%p1 bra END;\nadd.u32 %r2, %r1, 1;\nEND: ret;"));
}

constexpr char kLoopEnd[] =
    "bar.sync 0;\nadd.u32 %r5, %r5, 1;\nsetp.lt.u32 %p2, %r5, %r6;\n@%p2 bra L;\nret;";

TEST(EarlyReturn, LoopsThatABlockRunsTogether) {
  const std::string start = "ld.param.u32 %r6, [n];\nmov.u32 %r5, 0;\nL:\n";
  EXPECT_FALSE(ReturnsEarly(start + kLoopEnd));
  // A branch of threads in the body, as in a reduction, leaves the counter alone.
  EXPECT_FALSE(
      ReturnsEarly(start + kByThread + "@%p1 bra SKIP;\nadd.u32 %r9, %r1, 1;\nSKIP:\n" + kLoopEnd));
}

TEST(EarlyReturn, ThreadsThatMeetAgainBeforeTheNextBarrier) {
  const std::string start = "ld.param.u32 %r6, [n];\nmov.u32 %r5, 0;\nL:\nbar.sync 0;\n";
  const std::string end = "add.u32 %r5, %r5, 1;\nsetp.lt.u32 %p2, %r5, %r6;\n@%p2 bra L;\nret;";
  const std::string part = std::string(kByThread) + "@%p1 bra SKIP;\nadd.u32 %r9, %r1, 1;\n";
  EXPECT_FALSE(ReturnsEarly(start + part + "SKIP:\n" + end));
  EXPECT_TRUE(ReturnsEarly(start + part + "bar.sync 0;\nSKIP:\n" + end));
  EXPECT_TRUE(ReturnsEarly(start + part + "ret;\nSKIP:\n" + end));
  EXPECT_TRUE(ReturnsEarly(start + part + "add.u32 %r5, %r5, 1;\nSKIP:\n" + end))
      << "the loop's counter is another on one of the ways";
}

TEST(EarlyReturn, InnerLoopsWhoseLengthDependsOnTheThread) {
  const std::string inner =
      "mov.u32 %r7, %tid.x;\nmov.u32 %r8, 0;\nM:\nsub.u32 %r7, %r7, 1;\nadd.u32 %r8, %r8, 1;\n"
      "setp.gt.s32 %p1, %r7, 0;\n@%p1 bra M;\n";
  const std::string start = "ld.param.u32 %r6, [n];\nmov.u32 %r5, 0;\nL:\nbar.sync 0;\n";
  const auto end = [](const std::string& step) {
    return "add.u32 %r5, %r5, " + step + ";\nsetp.lt.u32 %p2, %r5, %r6;\n@%p2 bra L;\nret;";
  };
  EXPECT_FALSE(ReturnsEarly(start + inner + end("1")));
  EXPECT_TRUE(ReturnsEarly(start + inner + end("%r8"))) << "how often the inner loop ran";
}

TEST(EarlyReturn, LoopsWhoseLengthDependsOnTheThread) {
  EXPECT_TRUE(ReturnsEarly(std::string("mov.u32 %r6, %tid.x;\nmov.u32 %r5, 0;\nL:\n") + kLoopEnd));
  const std::string counts = "mov.u32 %r5, 0;\nL:\n";
  EXPECT_TRUE(ReturnsEarly("mov.u32 %r7, %tid.x;\ncvt.u64.u32 %rd1, %r7;\n"
                           "ld.global.u32 %r6, [%rd1];\n" + counts + kLoopEnd));
  // All load one value from one address, unless it may change meanwhile or is each thread's own.
  EXPECT_FALSE(ReturnsEarly("ld.global.u32 %r6, [%rd1];\n" + counts + kLoopEnd));
  EXPECT_TRUE(ReturnsEarly("ld.volatile.global.u32 %r6, [%rd1];\n" + counts + kLoopEnd));
  EXPECT_TRUE(ReturnsEarly("ld.local.u32 %r6, [%rd1];\n" + counts + kLoopEnd));
  EXPECT_TRUE(ReturnsEarly("ld.u32 %r6, [%rd1];\n" + counts + kLoopEnd));
  // The bound is a constant on each way, but the way depends on the thread.
  EXPECT_TRUE(
      ReturnsEarly(std::string(kByThread) +
                   "mov.u32 %r6, 3;\n@%p1 bra GO;\nmov.u32 %r6, 5;\nGO:\nmov.u32 %r5, 0;\n" +
                   "L:\n" + kLoopEnd));
}

// One node that is a loop of its own: the counter differs once threads have left it.
TEST(EarlyReturn, WhatALoopOfThreadsCountedDiffersBehindIt) {
  EXPECT_TRUE(ReturnsEarly(
      "mov.u32 %r6, %tid.x;\nmov.u32 %r5, 0;\nL:\nadd.u32 %r5, %r5, 1;\n"
      "setp.lt.u32 %p2, %r5, %r6;\n@%p2 bra L;\nsetp.gt.u32 %p1, %r5, 3;\n@%p1 ret;\n"
      "bar.sync 0;\nret;"));
}

TEST(EarlyReturn, BarriersInCalledFunctionsCount) {
  const std::string function = ".func waits()\n{\nbar.sync 0;\nret;\n}\n";
  EXPECT_TRUE(
      ReturnsEarly(std::string(kByThread) + "@%p1 ret;\ncall.uni waits, ();\nret;", function));
  EXPECT_FALSE(
      ReturnsEarly(std::string(kByBlock) + "@%p1 ret;\ncall.uni waits, ();\nret;", function));
}

TEST(EarlyReturn, JumpTables) {
  const std::string rest =
      "\nT: .branchtargets A, B;\nbrx.idx %r1, T;\nA: bar.sync 0;\nret;\nB: ret;";
  EXPECT_TRUE(ReturnsEarly("mov.u32 %r1, %tid.x;" + rest));
  EXPECT_FALSE(ReturnsEarly("mov.u32 %r1, %ctaid.x;" + rest));
}

}  // namespace
}  // namespace cupola::ptx
