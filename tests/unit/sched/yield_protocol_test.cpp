// The words of the board, step by step: what a request makes of what its victim said before.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "base/prng.h"
#include "sched/board/yield_protocol.h"
#include "sched/daemon/board_review.h"
#include "sched/policy.h"

namespace cupola::sched {
namespace {

struct alignas(4096) Memory {
  std::byte bytes[kBoardBytes] = {};
};

class YieldProtocol : public testing::Test {
 protected:
  std::unique_ptr<Memory> memory_ = std::make_unique<Memory>();
  BoardView board_{memory_->bytes};
  BoardSlot& victim_ = board_.slot(0);
};

TEST_F(YieldProtocol, ANewRequestHasNoAnswerYet) {
  SetRequest(board_, 0, 1, 4);
  SetStopped(board_, 0, true);
  ClearRequest(board_, 0, 1);
  SetRequest(board_, 0, 1, 4);  // its agent has not looked meanwhile
  EXPECT_EQ(victim_.stopped, 0U);
}

TEST_F(YieldProtocol, WhoAsksForNoMoreFindsTheAnswer) {
  SetRequest(board_, 0, 1, 4);
  SetStopped(board_, 0, true);
  const uint32_t wake = victim_.wake;
  SetRequest(board_, 0, 2, 4);
  EXPECT_EQ(victim_.stopped, 1U);
  EXPECT_EQ(victim_.wake, wake);
}

TEST_F(YieldProtocol, WhoAsksForMoreAsksAnew) {
  SetRequest(board_, 0, 1, 4);
  SetStopped(board_, 0, true);
  const uint32_t wake = victim_.wake;
  SetRequest(board_, 0, 2, runtime::kAllSms);
  EXPECT_EQ(victim_.stopped, 0U);
  EXPECT_GT(victim_.wake, wake);  // it is to look again
}

constexpr uint64_t kLeaseNs = 1000;  // of the victim's demand

// A victim that the daemon holds too stays asleep, so that nobody but whoever has ended can tell the
// daemon that the GPU is free.
TEST_F(YieldProtocol, WhoEndsTellsTheDaemonUnlessAnAgentDoes) {
  const auto run = [&](bool daemon_holds, SlotState victim = SlotState::kLive, bool answers = true,
                       uint64_t lasts_ns = kLeaseNs / 2) {
    victim_.state = static_cast<uint32_t>(victim);
    board_.slot(1).may_take.store(1);
    const uint64_t begun_ns = BoardClockNs();
    (void)BeginDemand(board_, 0, {1000, kLeaseNs, runtime::kAllSms}, begun_ns);
    (void)BeginDemand(board_, 1, {1000, 10 * kLeaseNs, runtime::kAllSms}, begun_ns);
    if (answers) SetStopped(board_, 0, true);
    if (daemon_holds) SetRequest(board_, 0, kDaemonBit, runtime::kAllSms);
    const bool is_told = ReleaseDemand(board_, 1, begun_ns + lasts_ns);
    EndDemand(board_, 0);
    return is_told;
  };
  EXPECT_TRUE(run(false));
  EXPECT_FALSE(run(true));
  ClearRequest(board_, 0, kDaemonBit);
  EXPECT_FALSE(run(false, SlotState::kFree)) << "it was killed, and the daemon has not reviewed";
  EXPECT_FALSE(run(false, SlotState::kLive, false)) << "it has not answered: it may be stopped (SIGSTOP)";
  EXPECT_FALSE(run(false, SlotState::kLive, true, 2 * kLeaseNs))
      << "it had answered, and has not renewed its lease since: it may be stopped";
  EXPECT_TRUE(run(false)) << "all as at first";
}

// How often the daemon is rung for by a burst: each time is a system call where it sleeps. Who ends behind a victim that
// has answered makes none; behind one that has not, as bursts that are shorter than an agent takes to answer do, one.
TEST_F(YieldProtocol, ABurstRingsAtItsEndOnlyWhereNoAgentDoes) {
  BoardHeader& header = board_.header();
  victim_.state = static_cast<uint32_t>(SlotState::kLive);
  struct Rings {
    uint32_t at_begin, at_end;
    bool operator==(const Rings&) const = default;
  };
  const auto rings = [&](bool attention, bool asks, bool answers) {
    header.attention = attention ? 1 : 0;
    board_.slot(1).may_take.store(asks ? 1 : 0);
    const uint32_t before = header.bell;
    WakeSleepers(board_, BeginDemand(board_, 1, {1000, 1'000'000'000, runtime::kAllSms}, BoardClockNs()));
    const uint32_t begun = header.bell;
    if (answers) victim_.stopped = 1;
    // As the program's thread does (preempt/demand.cpp).
    if (!ReleaseDemand(board_, 1, BoardClockNs()) && header.attention.load() != 0) RingBell(header);
    return Rings{begun - before, header.bell - begun};
  };
  EXPECT_EQ(rings(false, false, false), (Rings{0, 0})) << "it is alone";
  EXPECT_EQ(rings(false, true, false), (Rings{0, 0})) << "the daemon does not want to know";
  EXPECT_EQ(rings(true, true, true), (Rings{1, 0})) << "the victim's agent rings";
  EXPECT_EQ(rings(true, true, false), (Rings{1, 1})) << "it may be stopped (SIGSTOP)";
  EXPECT_EQ(rings(true, false, false), (Rings{1, 1})) << "nobody was asked: nobody else tells";
}

TEST_F(YieldProtocol, WhoMayNotBeAskedIsNot) {
  EXPECT_TRUE(BeginNotNow(board_, 0));
  EXPECT_TRUE(BeginNotNow(board_, 0));  // two threads of it
  const uint32_t wake = victim_.wake;
  EXPECT_FALSE(SetRequest(board_, 0, 1, runtime::kAllSms));
  EndNotNow(board_, 0);
  EXPECT_FALSE(SetRequest(board_, 0, 1, runtime::kAllSms));
  EXPECT_EQ(victim_.yield_requests, 0U);
  EXPECT_EQ(victim_.gate, 0U) << "as it was";
  EXPECT_EQ(victim_.wake, wake);
  board_.header().attention = 1;
  const uint32_t bell = board_.header().bell;
  EndNotNow(board_, 0);
  EXPECT_GT(board_.header().bell, bell) << "the daemon is to review";
  EXPECT_TRUE(SetRequest(board_, 0, 1, runtime::kAllSms));
  EXPECT_FALSE(BeginNotNow(board_, 0)) << "it is asked";
  EndNotNow(board_, 0);
  FreeSlot(board_, 0);
  EXPECT_EQ(victim_.not_now, 0U);
}

// Whoever asks, looks after the victim or ends at the same moment: no worker may see a request in between.
TEST_F(YieldProtocol, WhoMayNotBeAskedIsNotByThreads) {
  constexpr int kTurns = 3000, kLooks = 200;
  int kept = 0;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    std::atomic<bool> over{false};
    std::vector<std::thread> others;
    for (uint32_t bit = 1; bit <= 3; ++bit) {
      others.emplace_back([&, bit] {
        std::mt19937_64 random(seed * 10 + bit);
        board_.slot(bit).state = static_cast<uint32_t>(SlotState::kLive);
        board_.slot(bit).may_take.store(1);
        while (!over) {
          const uint64_t now = BoardClockNs();
          if (bit == 1) {
            (void)BeginDemand(board_, bit, {1000, 1'000'000, runtime::kAllSms}, now);
          } else {
            SetRequest(board_, 0, bit, runtime::kAllSms);
          }
          for (uint64_t i = random() % 64; i > 0; --i) __builtin_ia32_pause();
          if (bit == 2) DropStaleRequests(board_, 0, now);
          if (bit == 1) (void)ReleaseDemand(board_, bit, BoardClockNs());
          ClearRequest(board_, 0, bit);
          for (uint64_t i = random() % 4096; i > 0; --i) __builtin_ia32_pause();
        }
      });
    }
    int seen = 0;
    for (int turn = 0; turn < kTurns; ++turn) {
      const bool is_kept = BeginNotNow(board_, 0);
      kept += is_kept;
      for (int look = 0; is_kept && look < kLooks; ++look) seen += victim_.yield_requests.load() != 0;
      EndNotNow(board_, 0);
    }
    over = true;
    for (std::thread& other : others) other.join();
    EXPECT_EQ(seen, 0) << seed;
    EXPECT_EQ(victim_.being_asked, 0U);
    EXPECT_EQ(victim_.not_now, 0U);
  }
  EXPECT_GT(kept, 0);
}

// Whoever launches tells first, and makes its system calls behind the launch.
TEST_F(YieldProtocol, WhoBeginsIsToldWhomToWake) {
  board_.slot(1).may_take.store(1);
  board_.header().attention = 1;
  const uint32_t wake = victim_.wake, bell = board_.header().bell;
  const Demand demand{.remaining_ns = 1000, .lease_ns = 1'000'000'000};
  const Wakes wakes = BeginDemand(board_, 1, demand, BoardClockNs());
  EXPECT_EQ(wakes.agents, SlotSet{.words = {1}});
  EXPECT_TRUE(wakes.daemon);
  EXPECT_GT(victim_.wake, wake);
  EXPECT_GT(board_.header().bell, bell);
  EXPECT_NE(victim_.yield_requests, 0U);
  EXPECT_EQ(BeginDemand(board_, 1, demand, BoardClockNs()).agents, SlotSet());  // it knows
}

// Its word lengthens everybody's turn, also where they are of other users.
TEST_F(YieldProtocol, WhatAClientSaysOfItselfHasBounds) {
  Arbiter core(MakePolicy("ffs", {}), 0);
  const std::vector<Seat> seats = {{0, core.Join({})}, {1, core.Join({})}};
  for (const uint64_t words : {uint64_t{1'000'000'000'000}, ~uint64_t{0}}) {
    for (uint32_t slot : {0U, 1U}) {
      board_.slot(slot).state = static_cast<uint32_t>(SlotState::kLive);
      board_.slot(slot).capabilities = kCanPreempt;
      (void)BeginDemand(board_, slot, {words, 1'000'000'000, runtime::kAllSms, words}, 1000);
    }
    core.Advance(1000);
    ObserveBoard(board_, seats, core, 1000);
    core.Decide();
    ASSERT_EQ(core.decision().grants.size(), 1U) << words;
    EXPECT_LE(core.WaitBound(seats[1].id), 2'000'000'000U) << words;
    const LaunchView& launch = *core.LaunchOf(seats[0].id);
    EXPECT_EQ(launch.overhead_ns, 100'000'000U);
    EXPECT_LE(launch.remaining_ns, 3'600'000'000'000U);
  }
}

// A client that was let go and runs again, before its agent has said so.
TEST_F(YieldProtocol, AnAnswerToNoRequestIsNone) {
  Arbiter core(MakePolicy("hpf", {}), 0);
  const ClientId low = core.Join({.priority = 0}), high = core.Join({.priority = 1});
  const std::vector<Seat> seats = {{0, low}, {1, high}};
  const auto review = [&](uint64_t now_ns) {
    core.Advance(now_ns);
    ObserveBoard(board_, seats, core, now_ns);
    core.Decide();
    CarryOutOrders(board_, seats, core, now_ns);
  };
  for (uint32_t slot : {0U, 1U}) {
    board_.slot(slot).state = static_cast<uint32_t>(SlotState::kLive);
    board_.slot(slot).capabilities = kCanPreempt;
  }
  const Demand demand{.remaining_ns = 1'000'000, .lease_ns = 1'000'000'000};
  (void)BeginDemand(board_, 0, demand, 1);
  review(1000);
  victim_.stopped = 1;  // of an earlier request
  board_.slot(1).may_take.store(0);  // so that only the daemon asks
  (void)BeginDemand(board_, 1, demand, 2000);
  review(2000);
  EXPECT_TRUE(core.OrderFor(low).hold);
  EXPECT_EQ(victim_.stopped, 0U);
  EXPECT_NE(core.Dump().find("draining"), std::string::npos) << core.Dump();
}

// The word that the GPU reads has no bits for the slots behind the first: one says that some of them ask.
TEST_F(YieldProtocol, SlotsBehindTheFirstAskToo) {
  constexpr uint32_t kLast = kBoardSlots - 1;
  for (const uint32_t slot : {kDirectSlots - 1, kDirectSlots, 63U, 64U, 200U, kLast}) {
    EXPECT_TRUE(SetRequest(board_, 0, slot, runtime::kAllSms)) << slot;
    EXPECT_FALSE(SetRequest(board_, 0, slot, runtime::kAllSms)) << slot;
    EXPECT_TRUE(IsAskedBy(victim_, slot)) << slot;
    EXPECT_FALSE(IsAskedBy(victim_, slot - 1)) << slot;
    EXPECT_TRUE(RequestersOf(victim_).Has(slot)) << slot;
    EXPECT_NE(victim_.yield_requests, 0U) << slot;
    EXPECT_EQ(victim_.gate, 0U) << slot;
    EXPECT_TRUE(ClearRequest(board_, 0, slot)) << slot;
    EXPECT_FALSE(ClearRequest(board_, 0, slot)) << slot;
    EXPECT_EQ(victim_.yield_requests, 0U) << slot;
    EXPECT_EQ(victim_.gate, 1U) << slot;
  }
  SetRequest(board_, 0, 64, runtime::kAllSms);
  SetRequest(board_, 0, kLast, runtime::kAllSms);
  SetRequest(board_, 0, kDaemonBit, runtime::kAllSms);
  EXPECT_EQ(victim_.yield_requests, kMoreRequests | kDaemonRequest);
  EXPECT_FALSE(ClearRequest(board_, 0, 64));
  EXPECT_FALSE(ClearRequest(board_, 0, kDaemonBit));
  EXPECT_EQ(victim_.yield_requests, kMoreRequests);
  EXPECT_TRUE(ClearRequest(board_, 0, kLast)) << "it was the last, and the agent is woken";
  EXPECT_EQ(victim_.gate, 1U);
}

TEST_F(YieldProtocol, WhoMayTakeFarSlotsAsksThemAndLetsThemGo) {
  SlotSet victims;
  for (const uint32_t slot : {0U, 62U, 63U, 130U, 255U}) victims.Add(slot);
  board_.slot(100).may_take.store(victims);
  const Demand demand{.remaining_ns = 1000, .lease_ns = 1'000'000'000};
  EXPECT_EQ(BeginDemand(board_, 100, demand, BoardClockNs()).agents, victims);
  ForEachSlot(victims, [&](uint32_t slot) {
    EXPECT_EQ(board_.slot(slot).yield_requests, kMoreRequests) << slot;
  });
  (void)ReleaseDemand(board_, 100, BoardClockNs());
  ForEachSlot(victims, [&](uint32_t slot) {
    EXPECT_EQ(board_.slot(slot).yield_requests, 0U) << slot;
  });
}

// Killed between its own bit and the one that the GPU reads, or the other way round.
TEST_F(YieldProtocol, WhatOneThatWasKilledLeftHalfDoneIsRepaired) {
  victim_.yield_sm_bound = runtime::kAllSms;
  victim_.yield_requests = kMoreRequests;
  SettleGate(victim_);
  EXPECT_EQ(DropStaleRequests(board_, 0, BoardClockNs()), 0U);
  EXPECT_EQ(victim_.gate, 1U);
  BoardSlot& asker = board_.slot(70);
  asker.state = static_cast<uint32_t>(SlotState::kLive);
  asker.may_take.store(1);
  asker.demand = 1;
  asker.demand_until_ns = ~uint64_t{0};
  victim_.more_requests.words[1] = uint64_t{1} << 6;
  EXPECT_EQ(DropStaleRequests(board_, 0, BoardClockNs()), kMoreRequests);
  EXPECT_EQ(victim_.gate, 0U);
  asker.demand = 2;
  EXPECT_EQ(DropStaleRequests(board_, 0, BoardClockNs()), 0U);
  EXPECT_EQ(victim_.gate, 1U);
}

// Far slots and near ones ask and let go at the same time: what is left at last is what was not taken back.
TEST_F(YieldProtocol, RequestsThatRaceLeaveNothingBehind) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    std::vector<std::thread> threads;
    for (const uint32_t slot : {5U, 62U, 63U, 64U, 190U}) {
      threads.emplace_back([this, slot, seed] {
        Prng random(seed * 1000 + slot);
        for (int i = 0; i < 2000; ++i) {
          SetRequest(board_, 0, slot, runtime::kAllSms);
          if (random.Below(2) == 0) std::this_thread::yield();
          EXPECT_TRUE(IsAskedBy(victim_, slot));
          ClearRequest(board_, 0, slot);
        }
        if (slot == 64 && seed % 2 == 0) SetRequest(board_, 0, slot, runtime::kAllSms);
      });
    }
    for (std::thread& thread : threads) thread.join();
    const bool asked = seed % 2 == 0;
    EXPECT_EQ(victim_.yield_requests, asked ? kMoreRequests : 0U) << seed;
    EXPECT_EQ(victim_.gate, asked ? 0U : 1U) << seed;
    ClearRequest(board_, 0, 64);
  }
}

}  // namespace
}  // namespace cupola::sched
