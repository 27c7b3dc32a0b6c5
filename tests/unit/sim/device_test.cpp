// The simulated device through its public interface: memory, launches, faults, concurrency.
#include "device/sim/exec/device.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/sim/small_kernel.h"

namespace cupola::sim {
namespace {

constexpr char kVectorAdd[] = R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
  .reg .pred %p<3>;
  .reg .b32 %r<6>;
  .reg .b64 %rd<8>;
  .reg .f32 %f<4>;
  ld.param.u64 %rd1, [a];
  ld.param.u64 %rd2, [b];
  ld.param.u64 %rd3, [c];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 bra DONE;
  mul.wide.u32 %rd4, %r5, 4;
  add.s64 %rd5, %rd1, %rd4;
  add.s64 %rd6, %rd2, %rd4;
  add.s64 %rd7, %rd3, %rd4;
  ld.global.f32 %f1, [%rd5];
  ld.global.f32 %f2, [%rd6];
  add.f32 %f3, %f1, %f2;
  st.global.f32 [%rd7], %f3;
DONE:
  ret;
}
)";

TEST(DeviceTest, AddsVectors) {
  auto device = Device::Create({});
  auto module = device->LoadPtx(kVectorAdd, "add.ptx");
  ASSERT_TRUE(module) << module.error().ToString();
  constexpr uint32_t kCount = 1000;
  const uint64_t a = device->Allocate(kCount * 4), b = device->Allocate(kCount * 4),
                 c = device->Allocate(kCount * 4);
  for (uint32_t i = 0; i < kCount; ++i) {
    reinterpret_cast<float*>(a)[i] = static_cast<float>(i);
    reinterpret_cast<float*>(b)[i] = 0.5f;
    reinterpret_cast<float*>(c)[i] = -1;
  }
  Launcher launcher(device.get());
  GridLaunch launch;
  launch.module = *module;
  launch.grid = {4, 1, 1};
  launch.block = {256, 1, 1};
  launch.params = Pack((*module)->kernels()[0], a, b, c, kCount);
  launcher.Submit(launch);
  const auto fault = launcher.Wait();
  ASSERT_FALSE(fault) << fault->message;
  for (uint32_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(reinterpret_cast<float*>(c)[i], static_cast<float>(i) + 0.5f) << i;
  }
}

TEST(DeviceTest, NamesAnIllegalAddress) {
  auto device = Device::Create({});
  auto module = device->LoadPtx(kVectorAdd, "add.ptx");
  ASSERT_TRUE(module) << module.error().ToString();
  const uint64_t a = device->Allocate(64 * 4);
  Launcher launcher(device.get());
  GridLaunch launch;
  launch.module = *module;
  launch.block = {32, 1, 1};
  launch.params = Pack((*module)->kernels()[0], a, a, uint64_t{0x10}, 32u);
  launcher.Submit(launch);
  const auto fault = launcher.Wait();
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, FaultKind::kIllegalAddress);
  EXPECT_NE(fault->message.find("illegal address 0x10"), std::string::npos) << fault->message;
  EXPECT_NE(
      fault->message.find("kernel add, block (0,0,0), thread (0,0,0): st.global.f32 at line 28"),
      std::string::npos)
      << fault->message;
}

TEST_F(SmallKernelTest, FaultsAtAnUnknownInstructionOnlyWhenItIsExecuted) {
  const std::string body =
      "setp.eq.u32 %p1, %r0, 99;\n@%p1 tensormap.replace.tile.rank %r1, %r2;\n"
      "st.global.u32 [%rd0], 5;";
  EXPECT_FALSE(Run(body));
  EXPECT_EQ(Words()[0], 5u);
  const auto fault = Run("frobnicate.weird.u32 %r1, %r2;");
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, FaultKind::kUnsupported);
  EXPECT_NE(fault->message.find("frobnicate.weird.u32 at line 9"), std::string::npos)
      << fault->message;
}

TEST_F(SmallKernelTest, TellsFaultsApart) {
  EXPECT_EQ(Run("st.global.u32 [%rd0+2], 1;")->kind, FaultKind::kMisalignedAddress);
  EXPECT_EQ(Run("st.global.u32 [%rd0+256], 1;")->kind, FaultKind::kIllegalAddress);
  EXPECT_EQ(Run("ld.shared.u32 %r1, [1024];")->kind, FaultKind::kIllegalAddress);
  EXPECT_EQ(Run("ld.local.u32 %r1, [1048576];")->kind, FaultKind::kIllegalAddress);
  EXPECT_EQ(Run("trap;")->kind, FaultKind::kTrap);
  EXPECT_FALSE(Run("st.global.u32 [%rd0+252], 1;")) << "the device works on after a fault";
}

TEST_F(SmallKernelTest, CountersAndEnvironmentReadZero) {
  ASSERT_FALSE(Run("mov.u32 %r1, %pm3; mov.u64 %rd1, %pm7_64; cvt.u32.u64 %r2, %rd1;\n"
                   "mov.u32 %r3, %envreg31; or.b32 %r1, %r1, %r2; or.b32 %r1, %r1, %r3;\n"
                   "add.u32 %r1, %r1, 7; st.global.u32 [%rd0], %r1;"));
  EXPECT_EQ(Words()[0], 7u);
}

TEST_F(SmallKernelTest, SharedMemoryHoldsWhatTheLastBlockLeft) {
  const std::string body = ".shared .b32 word;\nld.shared.u32 %r1, [word];\n"
                           "st.global.u32 [%rd0], %r1;\nst.shared.u32 [word], 77;";
  ASSERT_FALSE(Run(body, 1));
  EXPECT_EQ(Words()[0], 0xA5A5A5A5u);
  ASSERT_FALSE(Run(body, 1));
  EXPECT_EQ(Words()[0], 77u);
}

TEST_F(SmallKernelTest, RefusesUndeclaredNames) {
  const auto module = device_->LoadPtx(Kernel("add.u32 %r1, %r2, %x;"), "bad.ptx");
  ASSERT_FALSE(module);
  EXPECT_EQ(module.error().code, ErrorCode::kDamaged);
  EXPECT_EQ(module.error().ToString(), "bad.ptx:9:1: \"%x\" is not declared");
  EXPECT_FALSE(device_->LoadPtx(Kernel("bra NOWHERE;"), "bad.ptx"));
}

TEST_F(SmallKernelTest, FreedMemoryIsOutOfReach) {
  const uint64_t other = device_->Allocate(64);
  Launcher launcher(device_.get());
  launcher.Submit(Make(Kernel("st.global.u32 [%rd0], 1;"), other));
  EXPECT_FALSE(launcher.Wait());
  EXPECT_EQ(device_->FindRange(other + 63).start, other);
  EXPECT_TRUE(device_->Free(other));
  EXPECT_FALSE(device_->Free(other));
  EXPECT_EQ(device_->FindRange(other).bytes, 0u);
  Launcher again(device_.get());
  again.Submit(Make(Kernel("st.global.u32 [%rd0], 1;"), other));
  EXPECT_TRUE(again.Wait());
}

TEST_F(SmallKernelTest, MemoryComesBackWhole) {
  const uint64_t free_bytes = device_->FreeBytes();
  EXPECT_EQ(device_->Allocate(device_->config().memory_bytes), 0u);
  std::vector<uint64_t> all;
  for (int i = 1; i < 50; ++i) all.push_back(device_->Allocate(static_cast<uint64_t>(i) * 777));
  for (size_t i = 0; i < all.size(); i += 2) EXPECT_TRUE(device_->Free(all[i]));
  for (size_t i = 1; i < all.size(); i += 2) EXPECT_TRUE(device_->Free(all[i]));
  EXPECT_EQ(device_->FreeBytes(), free_bytes);
  const uint64_t large = device_->Allocate(free_bytes - (1 << 20));
  EXPECT_NE(large, 0u);
  EXPECT_TRUE(device_->Free(large));
}

constexpr char kWaitForWord[] =
    "WAIT:\nld.volatile.global.u32 %r1, [%rd0];\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra WAIT;\n"
    "add.u32 %r1, %r1, 1;\nst.volatile.global.u32 [%rd0+4], %r1;";

TEST_F(SmallKernelTest, KernelAndHostShareMappedMemory) {
  alignas(64) volatile uint32_t host[2] = {0, 0};
  const uint64_t address = reinterpret_cast<uint64_t>(&host[0]);
  device_->MapHost(address, sizeof(host));
  EXPECT_TRUE(device_->FindRange(address + 4).is_host);
  Launcher launcher(device_.get());
  launcher.Submit(Make(Kernel(kWaitForWord), address));
  host[0] = 41;
  EXPECT_FALSE(launcher.Wait());
  EXPECT_EQ(host[1], 42u);
  device_->UnmapHost(address);
  Launcher unmapped(device_.get());
  unmapped.Submit(Make(Kernel(kWaitForWord), address));
  EXPECT_TRUE(unmapped.Wait());
}

// The threads of four SMs whose warps wait for the program take less than one processor. While they spun, they took
// all that there were; a busy machine can only make the number smaller.
TEST_F(SmallKernelTest, SmsThatOnlyWaitLeaveTheProcessor) {
  const std::string until_told = "ld.volatile.global.u32 %r1, [%rd0];\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra WAIT;\n";
  const std::string tell = "st.volatile.global.u32 [%rd0+4], 7;\n";
  const std::string barrier = ".shared .b64 bar;\nsetp.ne.u32 %p1, %r0, 0;\n@%p1 bra READY;\n"
                              "mbarrier.init.shared.b64 [bar], 1;\nREADY:\nbar.sync 0;\n";
  const std::vector<std::string> waits = {
      "WAIT:\nnanosleep.u32 20;\n" + until_told,
      "WAIT:\nmov.u64 %rd1, %globaltimer;\n" + until_told,
      "WAIT:\n" + until_told,
      "WAIT:\natom.global.or.b32 %r1, [%rd0], 0;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra WAIT;\n",
      // Only one lane looks; the others meet it again.
      "WAIT:\nand.b32 %r3, %r0, 31;\nsetp.ne.u32 %p1, %r3, 0;\n@%p1 bra MEET;\nld.volatile.global.u32 %r2, "
      "[%rd0];\nMEET:\nshfl.sync.idx.b32 %r1, %r2, 0, 31, -1;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra WAIT;\n",
      barrier + "WAIT:\nmbarrier.test_wait.parity.shared.b64 %p2, [bar], 0;\n" + until_told,
      // A warp waits for another one, which waits for the program.
      barrier + "setp.ge.u32 %p1, %r0, 32;\n@%p1 bra AWAIT;\nWAIT:\n" + until_told +
          "setp.ne.u32 %p1, %r0, 0;\n@%p1 bra AWAIT;\nmbarrier.arrive.shared.b64 %rd1, [bar];\n"
          "AWAIT:\nmbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;\n@!%p2 bra AWAIT;\n",
  };
  for (const std::string& wait : waits) {
    Words()[0] = Words()[1] = 0;
    Launcher launcher(device_.get());
    launcher.Submit(Make(Kernel(wait + tell), word_, 64, 4));
    const auto begin = std::chrono::steady_clock::now();
    const std::clock_t used = std::clock();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    const double seconds = static_cast<double>(std::clock() - used) / CLOCKS_PER_SEC;
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    EXPECT_EQ(Words()[1], 0u);
    Words()[0] = 1;
    EXPECT_FALSE(launcher.Wait());
    EXPECT_EQ(Words()[1], 7u);
    EXPECT_LT(seconds, passed.count() * 0.75) << wait;
  }
}

TEST_F(SmallKernelTest, TheReadOnlyCacheKeepsOldValuesToTheEndOfAKernel) {
  const uint64_t data = device_->Allocate(64);
  volatile uint32_t* const first = reinterpret_cast<volatile uint32_t*>(data);
  for (const std::string load : {"ld.global.nc.u32", "ldu.global.u32"}) {
    first[0] = first[1] = 1;
    for (int i = 0; i < 16; ++i) Words()[i] = 0;
    Launcher launcher(device_.get());
    // Says that it has read, waits for word 0, and reads again: the same word, another word of the
    // line, and the same word plainly.
    const std::string body =
        "ld.param.u64 %rd1, [q];\n" + load + " %r1, [%rd1];\nst.global.u32 [%rd0+8], %r1;\n"
        "membar.sys;\nst.volatile.global.u32 [%rd0+4], 1;\n"
        "WAIT:\nld.acquire.sys.global.u32 %r2, [%rd0];\nsetp.eq.u32 %p1, %r2, 0;\n"
        "@%p1 bra WAIT;\n" + load + " %r3, [%rd1];\n" + load + " %r4, [%rd1+4];\n"
        "ld.global.u32 %r5, [%rd1];\nst.global.u32 [%rd0+12], %r3;\n"
        "st.global.u32 [%rd0+16], %r4;\nst.global.u32 [%rd0+20], %r5;";
    std::string text = Kernel(body);
    text.replace(text.find("p)"), 1, "p, .param .u64 q");
    GridLaunch launch = Make(text, word_, 1);
    launch.params = Pack(launch.module->kernels()[0], word_, data);
    launcher.Submit(launch);
    while (Words()[1] == 0) std::this_thread::yield();
    first[0] = first[1] = 2;
    std::atomic_ref<uint32_t>(*reinterpret_cast<uint32_t*>(word_)).store(1);
    EXPECT_FALSE(launcher.Wait());
    EXPECT_EQ(Words()[2], 1u) << load;
    EXPECT_EQ(Words()[3], 1u) << load;
    EXPECT_EQ(Words()[4], 1u) << load;
    EXPECT_EQ(Words()[5], 2u) << load;
    launcher.Submit(launch);  // another kernel finds the cache empty
    EXPECT_FALSE(launcher.Wait());
    EXPECT_EQ(Words()[2], 2u) << load;
    EXPECT_EQ(Words()[4], 2u) << load;
  }
}

class OneSmTest : public SmallKernelTest {
 protected:
  OneSmTest() : SmallKernelTest({.sm_count = 1}) {}
};

TEST_F(OneSmTest, ASpinningGridLetsAnotherRun) {
  Launcher launcher(device_.get());
  launcher.Submit(Make(Kernel(kWaitForWord), word_));
  launcher.Submit(Make(Kernel("st.volatile.global.u32 [%rd0], 9;"), word_, 1));
  EXPECT_FALSE(launcher.Wait());
  EXPECT_EQ(Words()[1], 10u);
}

TEST_F(OneSmTest, CountsWhatFitsOnAnSm) {
  const auto module =
      device_->LoadPtx(Kernel("st.shared.u32 [s], 1;", ".shared .align 4 .b8 s[32768];\n"), "s");
  ASSERT_TRUE(module) << module.error().ToString();
  const KernelInfo& kernel = (*module)->kernels()[0];
  EXPECT_EQ(kernel.static_shared_bytes, 32768u);
  EXPECT_EQ(device_->MaxResidentBlocks(kernel, 128, 0), 6u);
  EXPECT_EQ(device_->MaxResidentBlocks(kernel, 1024, 0), 2u);
  EXPECT_EQ(device_->MaxResidentBlocks(kernel, 128, 200 * 1024), 0u);
  EXPECT_EQ(device_->MaxResidentBlocks(kernel, 1025, 0), 0u);
}

TEST_F(SmallKernelTest, ThreadsSubmitTogether) {
  const std::string text = Kernel("red.global.add.u32 [%rd0], 1;");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      Launcher launcher(device_.get());
      for (int i = 0; i < 20; ++i) launcher.Submit(Make(text, word_, 64, 5));
      EXPECT_FALSE(launcher.Wait());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Words()[0], 4u * 20 * 5 * 64);
}

TEST_F(SmallKernelTest, AFaultStopsTheGridsOtherBlocks) {
  const std::string text = Kernel(
      "mov.u32 %r1, %ctaid.x;\nsetp.eq.u32 %p1, %r1, 3;\n@%p1 trap;\nFOREVER:\nbra FOREVER;");
  Launcher launcher(device_.get());
  launcher.Submit(Make(text, word_, 32, 1000));
  const auto fault = launcher.Wait();
  ASSERT_TRUE(fault);
  EXPECT_NE(fault->message.find("block (3,0,0)"), std::string::npos) << fault->message;
}

TEST_F(SmallKernelTest, AssertSaysWhere) {
  const std::string text = Kernel(
      "{ .param .b64 a; .param .b64 b; .param .b32 c; .param .b64 d; .param .b64 e;\n"
      "mov.u64 %rd1, m; mov.u64 %rd2, f; mov.u64 %rd3, n;\n"
      "st.param.b64 [a], %rd1; st.param.b64 [b], %rd2; st.param.b32 [c], 17; st.param.b64 [d], "
      "%rd3;\n"
      "st.param.b64 [e], 1; call.uni __assertfail, (a, b, c, d, e); }",
      ".extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, "
      ".param "
      ".b64 e);\n.global .b8 m[4] = {120, 62, 48};\n.global .b8 f[5] = {97, 46, 99, 117};\n"
      ".global .b8 n[7] = {118, 32, 107, 40, 41};\n");
  testing::internal::CaptureStderr();
  Launcher launcher(device_.get());
  launcher.Submit(Make(text, word_, 1));
  const auto fault = launcher.Wait();
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "a.cu:17: v k(): block: [0,0,0], thread: [0,0,0] Assertion `x>0` failed.\n");
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, FaultKind::kAssert);
}

TEST_F(SmallKernelTest, LinksUnits) {
  const std::string head = ".version 8.0\n.target sm_90\n.address_size 64\n";
  const std::string first = Kernel(
      "ld.global.u32 %r1, [shared_word]; ld.global.u32 %r2, [own];\n"
      "{ .param .b32 r; call.uni (r), other, (); ld.param.b32 %r3, [r]; }\n"
      "mad.lo.u32 %r1, %r1, 100, %r2; mad.lo.u32 %r1, %r1, 100, %r3;\n"
      "st.global.u32 [%rd0], %r1;",
      ".extern .global .u32 shared_word;\n.global .u32 own = 2;\n"
      ".extern .func (.param .b32 r) other();\n");
  const std::string second =
      head +
      ".visible .global .u32 shared_word = 7;\n.global .u32 own = 5;\n"
      ".visible .func (.param .b32 r) other()\n{ .reg .b32 %r1; ld.global.u32 %r1, [own]; "
      "st.param.b32 [r], %r1; ret; }\n";
  const std::string_view units[] = {first, second};
  auto module = device_->LoadLinkedPtx(units, "units");
  ASSERT_TRUE(module) << module.error().ToString();
  GridLaunch launch;
  launch.module = *module;
  launch.params = Pack((*module)->kernels()[0], word_);
  Launcher launcher(device_.get());
  launcher.Submit(launch);
  const auto fault = launcher.Wait();
  ASSERT_FALSE(fault) << fault->message;
  EXPECT_EQ(Words()[0], 70205u);
  const std::string_view twice[] = {second, second};
  EXPECT_FALSE(device_->LoadLinkedPtx(twice, "units"));
}

}  // namespace
}  // namespace cupola::sim
