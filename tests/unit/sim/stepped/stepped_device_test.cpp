// Stepped mode itself: results, determinism, time, host threads, deadlocks.
#include "device/sim/stepped/stepped_device.h"

#include <gtest/gtest.h>

#include "tests/unit/sim/stepped/scenario.h"

namespace cupola::sim {
namespace {

/// Each thread adds its number + 1 to word 0 and leaves its own in word 1 + thread of the grid.
KernelUnderTest Counting(uint32_t blocks, uint32_t threads) {
  KernelUnderTest kernel;
  kernel.grid.x = blocks;
  kernel.block.x = threads;
  kernel.body = R"(
    mov.u32 %r0, %ntid.x;
    mad.lo.u32 %r1, %r39, %r0, %r38;
    add.u32 %r2, %r1, 1;
    red.global.add.u32 [%a0], %r2;
    mul.wide.u32 %rd0, %r2, 4;
    add.s64 %rd1, %a0, %rd0;
    st.global.u32 [%rd1], %r2;)";
  return kernel;
}

std::string CheckCounting(const Buffers& buffers, uint32_t count) {
  if (buffers.Word(0, 0) != count * (count + 1) / 2) return "sum " + buffers.Text(0, 1);
  for (uint32_t i = 1; i <= count; ++i) {
    if (buffers.Word(0, i) != i) return "word " + std::to_string(i);
  }
  return "";
}

class SteppedDeviceTest : public testing::TestWithParam<Granularity> {};

TEST_P(SteppedDeviceTest, RunsAKernelToItsResult) {
  auto buffers = std::make_shared<Buffers>();
  Scenario scenario =
      ScenarioOf(Counting(3, 20), buffers, [](const Buffers& b) { return CheckCounting(b, 60); });
  scenario.config.granularity = GetParam();
  for (const bool shuffled : {false, true}) {
    scenario.config.choose_blocks = shuffled;
    for (const Strategy strategy : {Strategy::kRandom, Strategy::kPct}) {
      const SearchResult result = SearchSeeds(scenario, 1, 30, strategy);
      ASSERT_FALSE(result.failure) << result.failure->ToString();
      EXPECT_GE(result.traces.size(), 5u);
    }
  }
}

TEST_P(SteppedDeviceTest, EqualSeedsGiveEqualRuns) {
  auto buffers = std::make_shared<Buffers>();
  Scenario scenario = ScenarioOf(Counting(3, 20), buffers, nullptr);
  scenario.config.granularity = GetParam();
  scenario.config.choose_blocks = true;
  scenario.config.memory.stale_reads = true;
  std::set<uint64_t> hashes;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    uint64_t first = 0, second = 1;
    RandomChooser a(seed), b(seed);
    ASSERT_FALSE(RunOnce(scenario, &a, &first)) << "seed " << seed;
    ASSERT_FALSE(RunOnce(scenario, &b, &second)) << "seed " << seed;
    EXPECT_EQ(first, second) << "seed " << seed;
    hashes.insert(first);
  }
  EXPECT_EQ(hashes.size(), 20u);
}

/// The trace names nothing by an address that another process would not have.
TEST(SteppedTraceTest, HashIsTheSameInEveryProcess) {
  auto buffers = std::make_shared<Buffers>();
  const Scenario scenario = ScenarioOf(Counting(2, 3), buffers, nullptr);
  uint64_t first = 0, second = 1;
  RandomChooser a(7), b(7);
  RunOnce(scenario, &a, &first);
  // The next device's memory lies elsewhere.
  auto taken = SteppedDevice::Create(scenario.config, &a);
  RunOnce(scenario, &b, &second);
  EXPECT_EQ(first, second);
  EXPECT_EQ(first, 0x7f56bf1b922de09ull) << std::hex << first;
}

TEST_P(SteppedDeviceTest, AFailureIsReplayedFromItsChoices) {
  auto buffers = std::make_shared<Buffers>();
  // Fails when the second block's thread comes first.
  KernelUnderTest kernel;
  kernel.grid.x = 2;
  kernel.body =
      "atom.global.exch.b32 %r0, [%a0], 1;\n"
      "setp.eq.u32 %p0, %r0, 0;\n"
      "@%p0 st.global.u32 [%a0+4], %r39;";
  Scenario scenario = ScenarioOf(kernel, buffers, [](const Buffers& b) -> std::string {
    return b.Word(0, 1) == 1 ? "block 1 was first" : "";
  });
  scenario.config.granularity = GetParam();
  const SearchResult result = SearchSeeds(scenario, 1, 100);
  ASSERT_TRUE(result.failure);
  ReplayChooser replay(result.failure->choices);
  const auto again = RunOnce(scenario, &replay);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->what, "block 1 was first");
  EXPECT_TRUE(replay.faithful());
  ReplayChooser usual({});
  EXPECT_FALSE(RunOnce(scenario, &usual)) << "without choices block 0 is first";
}

TEST_P(SteppedDeviceTest, SleepsAndDeadlinesTakeVirtualTime) {
  KernelUnderTest kernel;
  kernel.body = R"(
    mov.u64 %rd0, %globaltimer;
    nanosleep.u32 1000000;
    mov.u64 %rd1, %globaltimer;
    sub.s64 %rd2, %rd1, %rd0;
    cvt.u32.u64 %r0, %rd2;
    st.global.u32 [%a0], %r0;
    add.s64 %rd3, %rd1, 50000;
  AGAIN:
    mov.u64 %rd4, %globaltimer;
    setp.lt.u64 %p0, %rd4, %rd3;
    @%p0 bra AGAIN;
    st.global.u32 [%a0+4], 1;)";
  auto buffers = std::make_shared<Buffers>();
  Scenario scenario = ScenarioOf(kernel, buffers, [](const Buffers& b) -> std::string {
    return b.Word(0, 0) >= 1000000 && b.Word(0, 1) == 1 ? "" : "slept " + b.Text(0, 2);
  });
  scenario.config.granularity = GetParam();
  const SearchResult result = SearchSeeds(scenario, 1, 3);
  EXPECT_FALSE(result.failure) << result.failure->ToString();
}

/// A kernel waits for a word of the host, the host for one of the kernel.
KernelUnderTest HandShake() {
  KernelUnderTest kernel;
  kernel.body = R"(
  WAIT:
    ld.acquire.sys.global.u32 %r0, [%a0];
    setp.eq.u32 %p0, %r0, 0;
    @%p0 bra WAIT;
    ld.global.u32 %r1, [%a0+8];
    add.u32 %r1, %r1, 1;
    st.global.u32 [%a0+12], %r1;
    st.release.sys.global.u32 [%a0+4], 1;)";
  return kernel;
}

Scenario HandShakeScenario(std::shared_ptr<Buffers> buffers, Order order, Granularity granularity) {
  Scenario scenario = ScenarioOf(HandShake(), buffers, nullptr);
  scenario.config.granularity = granularity;
  scenario.start = [buffers, order](SteppedDevice& device) {
    device.Submit(Prepare(device, HandShake(), buffers.get()), [](const Fault*) {});
    const uint64_t at = buffers->addresses[0];
    device.AddHostThread("host")
        .Then("write", [at](HostThread& host) { host.Store<uint32_t>(at + 8, 41, Order::kWeak); })
        .At(5000, "signal", [at, order](HostThread& host) { host.Store<uint32_t>(at, 1, order); })
        .When(
            "read", [at] { return *reinterpret_cast<uint32_t*>(at + 4) == 1; },
            [at](HostThread& host) {
              EXPECT_EQ(host.Load<uint32_t>(at + 4), 1u);
              EXPECT_EQ(host.Load<uint32_t>(at + 12, Order::kWeak), 42u);
            });
  };
  return scenario;
}

TEST_P(SteppedDeviceTest, HostThreadsTakeTurnsWithKernels) {
  auto buffers = std::make_shared<Buffers>();
  const auto good = HandShakeScenario(buffers, Order::kRelease, GetParam());
  const SearchResult result = SearchSeeds(good, 1, 50);
  EXPECT_FALSE(result.failure) << result.failure->ToString();
}

TEST_P(SteppedDeviceTest, AHostThatDoesNotReleaseRaces) {
  auto buffers = std::make_shared<Buffers>();
  const auto bad = HandShakeScenario(buffers, Order::kRelaxed, GetParam());
  const SearchResult result = SearchSeeds(bad, 1, 50);
  ASSERT_TRUE(result.failure);
  EXPECT_NE(result.failure->what.find("data race: host thread host writes (on the host)"),
            std::string::npos)
      << result.failure->what;
}

TEST_P(SteppedDeviceTest, AGridEndsBeforeWhatIsOrderedBehindIt) {
  const KernelUnderTest kernel = Counting(2, 2);
  for (const bool joins : {true, false}) {
    auto buffers = std::make_shared<Buffers>();
    Scenario scenario = ScenarioOf(kernel, buffers, nullptr);
    scenario.config.granularity = GetParam();
    scenario.start = [&, joins](SteppedDevice& device) {
      const GridLaunch launch = Prepare(device, kernel, buffers.get());
      auto grid = std::make_shared<uint64_t>(0);
      const uint64_t at = buffers->addresses[0];
      HostThread& host = device.AddHostThread("host");
      host.Then("launch", [=](HostThread& self) { *grid = self.Submit(launch); })
          .When(
              "read", [grid, &host] { return host.IsDone(*grid); },
              [=](HostThread& self) {
                if (joins) self.Join(*grid);
                EXPECT_EQ(self.Load<uint32_t>(at + 4, Order::kWeak), 1u);
              });
    };
    const SearchResult result = SearchSeeds(scenario, 1, 20);
    EXPECT_EQ(result.failure.has_value(), !joins);
  }
}

TEST_P(SteppedDeviceTest, SaysWhoWaitsForEver) {
  KernelUnderTest kernel;
  kernel.body =
      "WAIT: ld.volatile.global.u32 %r0, [%a0];\n"
      "setp.eq.u32 %p0, %r0, 0;\n@%p0 bra WAIT;";
  auto buffers = std::make_shared<Buffers>();
  Scenario scenario = ScenarioOf(kernel, buffers, nullptr);
  scenario.config.granularity = GetParam();
  const SearchResult result = SearchSeeds(scenario, 1, 1);
  ASSERT_TRUE(result.failure);
  EXPECT_NE(result.failure->what.find("nothing can go on:\ngrid 0 block (0,0,0) warp 0 lane 0: "
                                      "ld.volatile.global.u32 at line"),
            std::string::npos)
      << result.failure->what;
  EXPECT_LT(result.steps, 20u);
}

TEST_P(SteppedDeviceTest, ABlockThatWaitsForOneWithoutRoomIsADeadlock) {
  // Block 0 waits for block 1, and there is one SM with room for one block.
  KernelUnderTest kernel;
  kernel.grid.x = 2;
  kernel.body = R"(
    setp.eq.u32 %p0, %r39, 1;
    @%p0 bra SIGNAL;
  WAIT:
    ld.volatile.global.u32 %r0, [%a0];
    setp.eq.u32 %p1, %r0, 0;
    @%p1 bra WAIT;
    bra DONE;
  SIGNAL:
    st.volatile.global.u32 [%a0], 1;
  DONE:)";
  auto buffers = std::make_shared<Buffers>();
  Scenario scenario = ScenarioOf(kernel, buffers, nullptr);
  scenario.config.granularity = GetParam();
  scenario.config.device.sm_count = 1;
  scenario.config.device.max_blocks_per_sm = 1;
  SearchResult result = SearchSeeds(scenario, 1, 1);
  ASSERT_TRUE(result.failure);
  EXPECT_NE(result.failure->what.find("grid 0: 1 blocks find no room"), std::string::npos)
      << result.failure->what;
  scenario.config.device.max_blocks_per_sm = 2;
  result = SearchSeeds(scenario, 1, 20);
  EXPECT_FALSE(result.failure) << result.failure->ToString();
}

TEST_P(SteppedDeviceTest, AFaultStopsItsGridOnly) {
  KernelUnderTest bad = Counting(2, 2);
  bad.body = "mov.u64 %rd0, 64;\nst.global.u32 [%rd0], 1;";
  auto buffers = std::make_shared<Buffers>();
  RandomChooser chooser(3);
  SteppedConfig config;
  config.granularity = GetParam();
  auto device = SteppedDevice::Create(config, &chooser);
  std::vector<bool> faults;
  Buffers unused;
  device->Submit(Prepare(*device, bad, &unused),
                 [&](const Fault* fault) { faults.push_back(fault != nullptr); });
  device->Submit(Prepare(*device, Counting(2, 2), buffers.get()),
                 [&](const Fault* fault) { faults.push_back(fault != nullptr); });
  EXPECT_EQ(device->Run(), RunEnd::kIdle);
  ASSERT_EQ(faults.size(), 2u);
  EXPECT_NE(faults[0], faults[1]);
  EXPECT_EQ(CheckCounting(*buffers, 4), "");
  EXPECT_NE(device->fault()->message.find("illegal address 0x40"), std::string::npos);
}

TEST_P(SteppedDeviceTest, ADivergedBarrierIsReported) {
  KernelUnderTest kernel;
  kernel.block.x = 2;
  kernel.body = R"(
    setp.eq.u32 %p0, %r38, 0;
    @%p0 bra ONE;
    bar.sync 1;
    bra DONE;
  ONE:
    bar.sync 2;
  DONE:)";
  auto buffers = std::make_shared<Buffers>();
  Scenario scenario = ScenarioOf(kernel, buffers, nullptr);
  scenario.config.granularity = GetParam();
  const SearchResult result = SearchSeeds(scenario, 1, 1);
  ASSERT_TRUE(result.failure);
  EXPECT_NE(result.failure->what.find("deadlock, every thread of the block waits"),
            std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Granularities, SteppedDeviceTest,
                         testing::Values(Granularity::kWarp, Granularity::kThread),
                         [](const testing::TestParamInfo<Granularity>& granularity) {
                           return granularity.param == Granularity::kWarp ? "Warp" : "Thread";
                         });

}  // namespace
}  // namespace cupola::sim
