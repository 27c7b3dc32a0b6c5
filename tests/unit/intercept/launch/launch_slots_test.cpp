// Control slots as the host sees them; the test plays the device by writing the status lines.
#include "intercept/launch/launch_slots.h"

#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "base/prng.h"

namespace cupola::intercept {
namespace {

class Slots : public testing::Test {
 protected:
  Slots() : status_(kSlots), slots_(std::make_unique<LaunchSlots>()) {
    slots_->Begin(status_.data());
  }

  LaunchSlot* Start(uint32_t blocks, uint32_t workers) {
    LaunchSlot* slot = slots_->Take(blocks);
    if (slot == nullptr) return nullptr;
    slot->all_workers = workers;
    EXPECT_EQ(slots_->BeginPhysical(slot, workers), 0u);
    return slot;
  }
  runtime::HostStatus& StatusOf(const LaunchSlot* slot) { return status_[slots_->IndexOf(slot)]; }
  void End(const LaunchSlot* slot, uint32_t physical, uint32_t next) {
    StatusOf(slot).next_final[physical] = next;
    StatusOf(slot).ended[physical] = slot->tag[physical];
  }
  void Complete(const LaunchSlot* slot) { StatusOf(slot).done = slot->sequence; }
  uint32_t Harvest() {
    return slots_->Harvest([](LaunchSlot&) {});
  }

  std::vector<runtime::HostStatus> status_;
  std::unique_ptr<LaunchSlots> slots_;
};

TEST_F(Slots, ALaunchThatRunsThroughFreesItsSlot) {
  LaunchSlot* slot = Start(100, 8);
  EXPECT_EQ(Harvest(), 0u);
  EXPECT_EQ(slots_->running(), 1u);
  Complete(slot);
  End(slot, 0, 108);
  EXPECT_EQ(Harvest(), 1u);
  EXPECT_EQ(slots_->running(), 0u);
  EXPECT_EQ(slots_->in_use(), 0u);
  EXPECT_EQ(slot->base_next, 108u);       // the next launch counts from here
  EXPECT_EQ(slot->base_completed, 100u);
}

// The context has ended with a launch that is not complete, and another one is served with the same lines.
TEST_F(Slots, WhoWaitsForALaunchOfTheContextBeforeFindsItComplete) {
  LaunchSlot* slot = Start(100, 8);
  const uint32_t index = slots_->IndexOf(slot), sequence = slot->sequence;
  const uint64_t number = slot->number;
  EXPECT_FALSE(slots_->IsDone(index, sequence));
  slots_->Begin(status_.data());
  EXPECT_TRUE(slots_->IsDone(index, sequence));
  EXPECT_EQ(slots_->running(), 0u);
  for (uint32_t i = 0; i < kSlots; ++i) {
    LaunchSlot* const next = Start(10, 8);
    ASSERT_NE(next, nullptr);
    EXPECT_FALSE(slots_->IsDone(slots_->IndexOf(next), next->sequence));
    EXPECT_GT(next->number, number);
    EXPECT_EQ(next->base_next, 0u);
  }
  EXPECT_EQ(Harvest(), 0u);
  EXPECT_EQ(slots_->running(), kSlots);
}

TEST_F(Slots, OneThatIsToStopGetsAnotherBesideIt) {
  LaunchSlot* slot = Start(100, 8);
  EXPECT_EQ(slots_->WorkersToResume(*slot), 0u);
  slot->wants_another = true;
  EXPECT_EQ(slots_->WorkersToResume(*slot), 8u);
  EXPECT_EQ(slots_->BeginPhysical(slot, 8), 1u);
  EXPECT_EQ(slots_->WorkersToResume(*slot), 0u);
}

TEST_F(Slots, ACompleteLaunchKeepsItsSlotUntilItsLastWorkerHasLeft) {
  LaunchSlot* slot = Start(100, 8);
  End(slot, 0, 40);
  EXPECT_EQ(Harvest(), 0u);
  EXPECT_EQ(slots_->WorkersToResume(*slot), 8u);
  const uint32_t second = slots_->BeginPhysical(slot, 8);
  Complete(slot);
  EXPECT_EQ(Harvest(), 1u);
  EXPECT_EQ(slots_->in_use(), 1u);  // late workers of the resume may still claim
  End(slot, second, 116);
  EXPECT_EQ(Harvest(), 0u);
  EXPECT_EQ(slots_->in_use(), 0u);
  EXPECT_EQ(slot->base_next, 116u);
}

TEST_F(Slots, TheHighestNextCountsWhateverTheOrderOfTheEnds) {
  LaunchSlot* slot = Start(100, 8);
  slot->base_next = slot->last_next = 0xFFFFFFF0;  // counters wrap
  End(slot, 0, 0x20);
  Harvest();
  slots_->BeginPhysical(slot, 8);
  End(slot, 0, 0x5C);
  Complete(slot);
  EXPECT_EQ(Harvest(), 1u);
  EXPECT_EQ(slot->base_next, 0x5Cu);
}

TEST_F(Slots, SpatialYieldsBringBackAsManyWorkersAsLeft) {
  LaunchSlot* slot = Start(1000, 64);
  EXPECT_EQ(slots_->WorkersToResume(*slot), 0u);
  StatusOf(slot).yielded = 24;
  EXPECT_EQ(slots_->WorkersToResume(*slot), 24u);
  EXPECT_EQ(slots_->BeginPhysical(slot, 24), 1u);
  EXPECT_EQ(slots_->WorkersToResume(*slot), 0u);
}

// SMs given up by a launch of 64 workers on 8 SMs, and by the one that brought them back.
TEST_F(Slots, WorkersAwayAreThoseOfAllPhysicalLaunches) {
  LaunchSlot* slot = Start(10'000, 64);
  EXPECT_TRUE(slots_->HasYielded(*slot, 0, 8));
  EXPECT_FALSE(slots_->HasYielded(*slot, 2, 8));
  StatusOf(slot).yielded = 13;
  EXPECT_EQ(slots_->WorkersAway(*slot), 13u);
  EXPECT_FALSE(slots_->HasYielded(*slot, 2, 8));
  StatusOf(slot).yielded = 14;  // of 16, less an eighth
  EXPECT_TRUE(slots_->HasYielded(*slot, 2, 8));
  EXPECT_FALSE(slots_->HasYielded(*slot, runtime::kAllSms, 8));
  StatusOf(slot).yielded = 16;
  const uint32_t second = slots_->BeginPhysical(slot, 16);
  EXPECT_EQ(slots_->WorkersAway(*slot), 0u);
  StatusOf(slot).yielded = 16 + 48;  // of both
  EXPECT_EQ(slots_->WorkersAway(*slot), 48u);
  EXPECT_EQ(slots_->WorkersToResume(*slot), 48u);
  StatusOf(slot).yielded = 16 + 56;  // the second one wholly
  End(slot, second, 500);
  EXPECT_EQ(Harvest(), 0u);
  EXPECT_EQ(slots_->WorkersAway(*slot), 56u);
  EXPECT_TRUE(slots_->HasYielded(*slot, 7, 8));
  End(slot, 0, 600);
  Harvest();
  EXPECT_TRUE(slots_->HasYielded(*slot, runtime::kAllSms, 8));
  EXPECT_EQ(slots_->WorkersToResume(*slot), 64u);
}

TEST_F(Slots, WorkersThatLookedAsTheyBeganHaveYielded) {
  LaunchSlot* slot = Start(10'000, 64);
  slot->looked_at_bound = 3;
  EXPECT_TRUE(slots_->HasYielded(*slot, 3, 8));
  EXPECT_FALSE(slots_->HasYielded(*slot, 4, 8));
}

// What workers tell at the same moment may come in any order: too low for a time, or for good.
TEST_F(Slots, AYieldCountThatStepsBack) {
  LaunchSlot* slot = Start(10'000, 64);
  StatusOf(slot).yielded = 16;
  const uint32_t second = slots_->BeginPhysical(slot, 16);
  StatusOf(slot).yielded = 14;
  EXPECT_EQ(slots_->WorkersAway(*slot), 0u);
  End(slot, second, 500);  // stopped for all SMs
  Harvest();
  EXPECT_EQ(slots_->WorkersAway(*slot), 14u);
}

TEST_F(Slots, NobodyIsMissedOnceAllIsClaimed) {
  LaunchSlot* slot = Start(100, 64);
  StatusOf(slot).yielded = 16;
  const uint32_t second = slots_->BeginPhysical(slot, 16);
  End(slot, second, 110);
  EXPECT_EQ(Harvest(), 0u);
  EXPECT_EQ(slots_->WorkersAway(*slot), 16u);
  EXPECT_EQ(slots_->WorkersToResume(*slot), 0u);
}

TEST_F(Slots, TheLastPhysicalLaunchIsKeptForManyWorkers) {
  LaunchSlot* slot = Start(10'000, 64);
  for (uint32_t p = 1; p + 1 < runtime::kAskedPhysicalLaunches; ++p) {
    StatusOf(slot).yielded += 1;
    EXPECT_EQ(slots_->WorkersToResume(*slot), 1u);
    EXPECT_EQ(slots_->BeginPhysical(slot, 1), p);
  }
  StatusOf(slot).yielded += 7;
  EXPECT_EQ(slots_->WorkersToResume(*slot), 0u);
  StatusOf(slot).yielded += 1;
  EXPECT_EQ(slots_->WorkersToResume(*slot), 8u);
}

TEST_F(Slots, NoMorePhysicalLaunchesThanTheDeviceHasRoomFor) {
  LaunchSlot* slot = Start(1000, 64);
  for (uint32_t p = 1; p < runtime::kAskedPhysicalLaunches; ++p) {
    EXPECT_EQ(slots_->BeginPhysical(slot, 1), p);
  }
  EXPECT_EQ(slots_->BeginPhysical(slot, 1), kNoPhysical);
}

TEST_F(Slots, TheLastPlaceIsForOneThatIsNotAsked) {
  constexpr uint32_t kLast = runtime::kAskedPhysicalLaunches;
  LaunchSlot* slot = Start(1000, 64);
  slot->wants_another = true;
  EXPECT_EQ(slots_->BeginPhysical(slot, 64), 1u);  // while there is another it is as the rest
  for (uint32_t p = 2; p < kLast; ++p) EXPECT_EQ(slots_->BeginPhysical(slot, 1), p);
  for (uint32_t p = 0; p < kLast; ++p) EXPECT_TRUE(IsAskedToLeave(p));
  slot->wants_another = true;
  EXPECT_EQ(slots_->WorkersToResume(*slot), slot->all_workers);
  EXPECT_EQ(slots_->BeginPhysical(slot, 64), kLast);
  EXPECT_FALSE(IsAskedToLeave(kLast));
  slot->wants_another = true;
  EXPECT_EQ(slots_->BeginPhysical(slot, 64), kNoPhysical);
}

TEST_F(Slots, APhysicalLaunchIsResumedBehindNoOther) {
  LaunchSlot* slot = Start(10'000, 64);  // on the program's stream
  EXPECT_EQ(LaunchSlots::FreeHelper(*slot), 0u);
  for (uint32_t p = 1; p < runtime::kAskedPhysicalLaunches; ++p) {
    EXPECT_EQ(LaunchSlots::FreeHelper(*slot), p - 1);
    slots_->BeginPhysical(slot, 8, p - 1);
  }
  End(slot, 2, 500);
  Harvest();
  EXPECT_EQ(LaunchSlots::FreeHelper(*slot), 1u);
}

TEST_F(Slots, TagsDifferAndAreNeverZero) {
  LaunchSlot* slot = Start(1, 1);
  uint16_t before = slot->tag[0];
  for (int i = 0; i < 70'000; ++i) {
    End(slot, 0, 0);
    Harvest();
    ASSERT_EQ(slots_->BeginPhysical(slot, 1), 0u);
    ASSERT_NE(slot->tag[0], 0);
    ASSERT_NE(slot->tag[0], before);
    before = slot->tag[0];
  }
}

TEST_F(Slots, ARefusedLaunchLeavesNoTrace) {
  LaunchSlot* slot = Start(100, 8);
  const uint32_t sequence = slot->sequence;
  slots_->Cancel(slot);
  EXPECT_EQ(slots_->in_use(), 0u);
  EXPECT_EQ(slot->sequence, sequence - 1);
  EXPECT_EQ(slot->base_completed, 0u);
  EXPECT_EQ(slots_->running(), 0u);
}

TEST_F(Slots, FullUntilOneIsFree) {
  std::vector<LaunchSlot*> all;
  for (uint32_t i = 0; i < kSlots; ++i) all.push_back(Start(1, 1));
  EXPECT_EQ(Start(1, 1), nullptr);
  Complete(all[7]);
  End(all[7], 0, 1);
  EXPECT_EQ(Harvest(), 1u);
  EXPECT_EQ(Start(1, 1), all[7]);
}

// Any order of stops, resumes and ends: what the host believes of the counters is what they are.
TEST_F(Slots, RandomLivesOfLaunches) {
  const uint64_t seed = 20261121;
  Prng random(seed);
  std::vector<uint32_t> next(kSlots), completed(kSlots);
  for (int step = 0; step < 200'000; ++step) {
    LaunchSlot* slot = nullptr;
    if (slots_->in_use() != 0 && random.Below(4) != 0) {
      slot = &slots_->used(static_cast<uint32_t>(random.Below(slots_->in_use())));
    } else if ((slot = Start(1 + static_cast<uint32_t>(random.Below(50)), 4)) != nullptr) {
      const uint32_t at = slots_->IndexOf(slot);
      ASSERT_EQ(slot->base_next, next[at]) << seed;
      ASSERT_EQ(slot->base_completed, completed[at]) << seed;
      continue;
    }
    if (slot == nullptr) continue;
    const uint32_t at = slots_->IndexOf(slot);
    const bool complete = completed[at] - slot->base_completed == slot->total_blocks;
    for (uint32_t p = 0; p < runtime::kPhysicalLaunches; ++p) {
      if ((slot->live & 1u << p) == 0 || random.Below(2) == 0) continue;
      const uint32_t left = slot->total_blocks - (completed[at] - slot->base_completed);
      const uint32_t ran = complete ? 0 : static_cast<uint32_t>(random.Below(left + 1));
      next[at] += ran + static_cast<uint32_t>(random.Below(5));  // claims beyond the end too
      completed[at] += ran;
      if (completed[at] - slot->base_completed == slot->total_blocks) Complete(slot);
      End(slot, p, next[at]);
      break;
    }
    Harvest();
    if (slot->state == LaunchSlot::State::kRunning && slots_->WorkersToResume(*slot) != 0) {
      ASSERT_NE(slots_->BeginPhysical(slot, 4), kNoPhysical) << seed;
    }
  }
}

}  // namespace
}  // namespace cupola::intercept
