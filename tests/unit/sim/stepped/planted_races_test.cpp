// Kernels with one planted mistake each (a missing barrier, fence, scope, atomic...) and their
// twins without it: the mistake is found, the twin has nothing to find.
#include <gtest/gtest.h>

#include "tests/unit/sim/stepped/scenario.h"

namespace cupola::sim {
namespace {

struct Planted {
  const char* name;
  KernelUnderTest bad, good;
  std::string finding;  ///< part of what is reported of the bad one
  std::function<std::string(const Buffers&)> check;
  Granularity granularity = Granularity::kWarp;
  bool stale_reads = false;
  bool races = true;  ///< false: only what `check` sees counts
};

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

/// The good kernel, and the bad one that has `from` replaced by `to`.
Planted Plant(const char* name, KernelUnderTest good, const std::string& from,
              const std::string& to, std::string finding,
              std::function<std::string(const Buffers&)> check = nullptr) {
  Planted planted;
  planted.name = name;
  planted.good = good;
  planted.bad = std::move(good);
  planted.bad.body = Replaced(planted.bad.body, from, to);
  planted.finding = std::move(finding);
  planted.check = std::move(check);
  return planted;
}

/// Reverses 64 words through shared memory.
KernelUnderTest Reversal() {
  KernelUnderTest kernel;
  kernel.block.x = 64;
  kernel.shared = ".shared .align 4 .b32 tile[64];";
  kernel.body = R"(
    mov.u32 %r0, tile;
    shl.b32 %r1, %r38, 2;
    add.u32 %r2, %r0, %r1;
    st.shared.u32 [%r2], %r38;
    bar.sync 0;
    sub.u32 %r3, 252, %r1;
    add.u32 %r4, %r0, %r3;
    ld.shared.u32 %r5, [%r4];
    cvt.u64.u32 %rd0, %r1;
    add.s64 %rd1, %a0, %rd0;
    st.global.u32 [%rd1], %r5;)";
  return kernel;
}

std::string CheckReversal(const Buffers& buffers) {
  for (uint32_t i = 0; i < 64; ++i) {
    if (buffers.Word(0, i) != 63 - i) return "word " + std::to_string(i) + " is wrong";
  }
  return "";
}

/// Block 0 hands word 0 to block 1 under the flag in word 16.
KernelUnderTest MessagePassing() {
  KernelUnderTest kernel;
  kernel.grid.x = 2;
  kernel.body = R"(
    setp.eq.u32 %p0, %r39, 1;
    @%p0 bra CONSUMER;
    st.global.u32 [%a0], 42;
    membar.gl;
    st.volatile.global.u32 [%a0+64], 1;
    bra DONE;
  CONSUMER:
    ld.volatile.global.u32 %r0, [%a0+64];
    setp.eq.u32 %p1, %r0, 0;
    @%p1 bra CONSUMER;
    fence.acq_rel.gpu;
    ld.global.u32 %r1, [%a0];
    st.global.u32 [%a0+128], %r1;
  DONE:)";
  return kernel;
}

/// The same with strong data, where no race is left and only old values tell.
KernelUnderTest StrongMessagePassing() {
  KernelUnderTest kernel = MessagePassing();
  kernel.body = Replaced(kernel.body, "st.global.u32 [%a0], 42", "st.relaxed.gpu.u32 [%a0], 42");
  kernel.body = Replaced(kernel.body, "ld.global.u32 %r1", "ld.relaxed.gpu.u32 %r1");
  return kernel;
}

std::string CheckMessage(const Buffers& buffers) {
  return buffers.Word(0, 32) == 42 ? "" : "the message was " + std::to_string(buffers.Word(0, 32));
}

/// Every block adds its number + 1 to word 1 under a lock in word 0.
KernelUnderTest Locking() {
  KernelUnderTest kernel;
  kernel.grid.x = 3;
  kernel.body = R"(
  AGAIN:
    atom.acquire.gpu.global.cas.b32 %r0, [%a0], 0, 1;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra AGAIN;
    ld.global.u32 %r1, [%a0+4];
    add.u32 %r1, %r1, %r39;
    add.u32 %r1, %r1, 1;
    st.global.u32 [%a0+4], %r1;
    atom.release.gpu.global.exch.b32 %r2, [%a0], 0;)";
  return kernel;
}

std::string CheckLocking(const Buffers& buffers) {
  return buffers.Word(0, 1) == 6 ? "" : "the sum is " + std::to_string(buffers.Word(0, 1));
}

/// Lane 1 reads what lane 0 left in shared memory, a warp barrier between.
KernelUnderTest WarpHandOver() {
  KernelUnderTest kernel;
  kernel.block.x = 32;
  kernel.shared = ".shared .align 4 .b32 tile[32];";
  kernel.body = R"(
    mov.u32 %r0, tile;
    shl.b32 %r1, %r38, 2;
    add.u32 %r2, %r0, %r1;
    st.shared.u32 [%r2], %r38;
    bar.warp.sync 0xffffffff;
    xor.b32 %r3, %r1, 4;
    add.u32 %r4, %r0, %r3;
    ld.shared.u32 %r5, [%r4];
    cvt.u64.u32 %rd0, %r1;
    add.s64 %rd1, %a0, %rd0;
    st.global.u32 [%rd1], %r5;)";
  return kernel;
}

/// Copies 16 bytes per thread to shared memory asynchronously and reads its own.
KernelUnderTest AsyncCopy() {
  KernelUnderTest kernel;
  kernel.block.x = 2;
  kernel.shared = ".shared .align 16 .b8 tile[64];";
  kernel.body = R"(
    mov.u32 %r0, tile;
    shl.b32 %r1, %r38, 4;
    add.u32 %r2, %r0, %r1;
    cvt.u64.u32 %rd0, %r1;
    add.s64 %rd1, %a0, %rd0;
    cp.async.cg.shared.global [%r2], [%rd1], 16;
    cp.async.commit_group;
    cp.async.wait_group 0;
    ld.shared.u32 %r3, [%r2];
    st.global.u32 [%rd1+64], %r3;)";
  return kernel;
}

/// Thread 0 of each block counts itself; the last one reads what all blocks left.
KernelUnderTest LastBlock() {
  KernelUnderTest kernel;
  kernel.grid.x = 3;
  kernel.body = R"(
    mul.wide.u32 %rd0, %r39, 4;
    add.s64 %rd1, %a0, %rd0;
    add.u32 %r5, %r39, 1;
    st.global.u32 [%rd1+4], %r5;
    membar.gl;
    atom.global.add.u32 %r0, [%a0], 1;
    setp.ne.u32 %p0, %r0, 2;
    @%p0 bra DONE;
    membar.gl;
    ld.global.u32 %r1, [%a0+4];
    ld.global.u32 %r2, [%a0+8];
    ld.global.u32 %r3, [%a0+12];
    add.u32 %r1, %r1, %r2;
    add.u32 %r1, %r1, %r3;
    st.global.u32 [%a0+64], %r1;
  DONE:)";
  return kernel;
}

std::string CheckLastBlock(const Buffers& buffers) {
  return buffers.Word(0, 16) == 6 ? "" : "the sum is " + std::to_string(buffers.Word(0, 16));
}

/// Two threads copy in turns into one shared buffer; an mbarrier says when it is full.
KernelUnderTest MbarrierHandOver() {
  KernelUnderTest kernel;
  kernel.block.x = 2;
  kernel.shared = ".shared .align 8 .b64 full;\n.shared .align 4 .b32 box;";
  kernel.body = R"(
    mov.u32 %r0, full;
    mov.u32 %r1, box;
    setp.ne.u32 %p0, %r38, 0;
    @!%p0 mbarrier.init.shared.b64 [%r0], 1;
    bar.sync 0;
    @%p0 bra CONSUMER;
    st.shared.u32 [%r1], 7;
    mbarrier.arrive.shared.b64 %rd0, [%r0];
    bra DONE;
  CONSUMER:
    mbarrier.test_wait.parity.shared.b64 %p1, [%r0], 0;
    @!%p1 bra CONSUMER;
    ld.shared.u32 %r2, [%r1];
    st.global.u32 [%a0], %r2;
  DONE:)";
  return kernel;
}

std::vector<Planted> PlantedRaces() {
  std::vector<Planted> cases;
  cases.push_back(
      Plant("MissingBarrier", Reversal(), "bar.sync 0;", "", "data race", CheckReversal));
  cases.push_back(
      Plant("MissingBarrierByItsResult", Reversal(), "bar.sync 0;", "", "is wrong", CheckReversal));
  cases.back().races = false;
  cases.push_back(Plant("BarrierOfTooFew", Reversal(), "bar.sync 0;",
                        "and.b32 %r9, %r38, 32; shr.u32 %r9, %r9, 5; bar.sync %r9, 32;",
                        "data race", CheckReversal));
  cases.push_back(
      Plant("MissingProducerFence", MessagePassing(), "membar.gl;", "", "data race", CheckMessage));
  cases.push_back(Plant("MissingConsumerFence", MessagePassing(), "fence.acq_rel.gpu;", "",
                        "data race", CheckMessage));
  cases.push_back(Plant("FenceOfTheBlockOnly", MessagePassing(), "membar.gl;", "membar.cta;",
                        "data race", CheckMessage));
  cases.push_back(Plant("FlagIsWeak", MessagePassing(), "st.volatile.global.u32 [%a0+64]",
                        "st.global.u32 [%a0+64]", "data race", CheckMessage));
  cases.push_back(Plant("OldValueWithoutProducerFence", StrongMessagePassing(), "membar.gl;", "",
                        "the message was 0", CheckMessage));
  cases.back().stale_reads = true;
  cases.push_back(Plant("OldValueWithoutConsumerFence", StrongMessagePassing(),
                        "fence.acq_rel.gpu;", "", "the message was 0", CheckMessage));
  cases.back().stale_reads = true;
  // Fences order nothing for a cache that is not coherent.
  cases.push_back(Plant("ReadThroughTheReadOnlyCache", MessagePassing(), "ld.global.u32 %r1",
                        "ld.global.nc.u32 %r1", "data race", CheckMessage));
  cases.push_back(Plant("ReadUniformly", MessagePassing(), "ld.global.u32 %r1",
                        "ldu.global.u32 %r1", "data race", CheckMessage));
  cases.push_back(Plant("LockWithoutRelease", Locking(), "atom.release.gpu", "atom.relaxed.gpu",
                        "data race", CheckLocking));
  cases.push_back(Plant("LockWithoutAcquire", Locking(), "atom.acquire.gpu", "atom.relaxed.gpu",
                        "data race", CheckLocking));
  cases.push_back(Plant("LockOfTheBlockOnly", Locking(), "atom.acquire.gpu", "atom.acquire.cta",
                        "data race", CheckLocking));
  cases.push_back(Plant("LostUpdate", Locking(), "atom.acquire.gpu.global.cas.b32 %r0, [%a0], 0, 1",
                        "mov.u32 %r0, 0", "the sum is", CheckLocking));
  cases.back().races = false;
  cases.push_back(
      Plant("MissingWarpBarrier", WarpHandOver(), "bar.warp.sync 0xffffffff;", "", "data race"));
  cases.push_back(Plant(
      "MissingWarpBarrierByItsResult", WarpHandOver(), "bar.warp.sync 0xffffffff;", "", "is wrong",
      [](const Buffers& buffers) -> std::string {
        return buffers.Word(0, 0) == 1 && buffers.Word(0, 31) == 30 ? "" : "the hand-over is wrong";
      }));
  cases.back().granularity = Granularity::kThread;
  cases.back().races = false;
  cases.push_back(
      Plant("MissingWaitForCopies", AsyncCopy(), "cp.async.wait_group 0;", "", "data race"));
  cases.push_back(Plant("WaitsForTooFewCopies", AsyncCopy(), "cp.async.wait_group 0;",
                        "cp.async.wait_group 1;", "data race"));
  cases.push_back(
      Plant("LastBlockWithoutFence", LastBlock(), "membar.gl;", "", "data race", CheckLastBlock));
  cases.push_back(
      Plant("MbarrierNotSeenFull", MbarrierHandOver(), "@!%p1 bra CONSUMER;", "", "data race"));
  cases.back().granularity = Granularity::kThread;
  cases.push_back(
      Plant("MbarrierInitUnordered", MbarrierHandOver(), "bar.sync 0;", "", "data race"));
  return cases;
}

class PlantedRaceTest : public testing::TestWithParam<Planted> {
 protected:
  SearchResult Search(const KernelUnderTest& kernel, Strategy strategy, uint64_t count) {
    const Planted& planted = GetParam();
    auto buffers = std::make_shared<Buffers>();
    Scenario scenario = ScenarioOf(kernel, buffers, planted.check);
    scenario.config.granularity = planted.granularity;
    scenario.config.memory.stale_reads = planted.stale_reads;
    scenario.races_are_failures = planted.races;
    return SearchSeeds(scenario, 1, count, strategy);
  }
};

TEST_P(PlantedRaceTest, IsFoundAndTheTwinIsClean) {
  for (const Strategy strategy : {Strategy::kRandom, Strategy::kPct}) {
    const SearchResult bad = Search(GetParam().bad, strategy, 500);
    ASSERT_TRUE(bad.failure) << "not found in 500 seeds";
    EXPECT_NE(bad.failure->what.find(GetParam().finding), std::string::npos) << bad.failure->what;
    const SearchResult good = Search(GetParam().good, strategy, 100);
    ASSERT_FALSE(good.failure) << good.failure->ToString();
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, PlantedRaceTest, testing::ValuesIn(PlantedRaces()),
                         [](const testing::TestParamInfo<Planted>& info) {
                           return std::string(info.param.name);
                         });

}  // namespace
}  // namespace cupola::sim
