// Processes that take turns as fast as they can while others are killed at moments of a seed.
#include <sched.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/settings/variables.h"
#include "base/prng.h"
#include "device/sim/token/gate.h"
#include "device/sim/token/token_queue.h"
#include "tests/unit/sim/token/child.h"

namespace cupola::sim {
namespace {

using Outcome = TokenQueue::Outcome;
constexpr uint32_t kProcesses = 8;
constexpr uint32_t kMostLives = 4096;
constexpr uint64_t kStallNs = 60'000'000'000;

/// In memory that the test and all its children share.
struct Arena {
  std::atomic<uint32_t> owner;  ///< the life that has the turn
  std::atomic<bool> stop;
  std::atomic<uint64_t> violations;
  std::atomic<uint64_t> turns[kMostLives];
  std::atomic<bool> killed[kMostLives];  ///< set before the kill
};

class HammerTest : public TokenTest {
 protected:
  HammerTest()
      : arena_(static_cast<Arena*>(mmap(nullptr, sizeof(Arena), PROT_READ | PROT_WRITE,
                                        MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~HammerTest() override { munmap(arena_, sizeof(Arena)); }

  std::unique_ptr<Child> NewLife(uint32_t life) {
    return std::make_unique<Child>([this, life](const Say&) {
      auto mapping = TokenMapping::Open(path_);
      if (!mapping) return 2;
      std::atomic<bool> stop{false};
      TokenQueue queue(mapping.value().get(), &stop);
      while (!arena_->stop) {
        if (queue.Join() != Outcome::kDone) return 3;
        if (queue.Wait() != Outcome::kDone) return 4;
        const uint32_t before = arena_->owner.exchange(life);
        if (before != 0 && !arena_->killed[before]) ++arena_->violations;
        ++arena_->turns[life];
        uint32_t mine = life;
        if (!arena_->owner.compare_exchange_strong(mine, 0)) ++arena_->violations;
        if (queue.Leave() != Outcome::kDone) return 5;
      }
      return 0;
    });
  }
  /// False when the life made no progress to `turns` in time.
  bool AwaitTurns(uint32_t life, uint64_t turns) {
    const uint64_t deadline = MonotonicNs() + kStallNs;
    while (arena_->turns[life] < turns) {
      if (MonotonicNs() > deadline) return false;
      sched_yield();
    }
    return true;
  }

  Arena* arena_;
};

TEST_F(HammerTest, KillsNeverStallTheOthers) {
  const uint64_t seed = settings::NumberIfSet("CUPOLA_TEST_SEED").value_or(20261121);
  const auto kills = static_cast<uint32_t>(settings::Number("CUPOLA_TEST_KILLS"));
  ASSERT_LT(kills + kProcesses + 1, kMostLives);
  std::printf("seed %lu, %u kills\n", static_cast<unsigned long>(seed), kills);
  Prng prng(seed);
  std::vector<std::unique_ptr<Child>> children;
  std::vector<uint32_t> lives;
  for (uint32_t i = 0; i < kProcesses; ++i) {
    lives.push_back(i + 1);
    children.push_back(NewLife(i + 1));
  }
  uint32_t next_life = kProcesses + 1;
  for (uint32_t kill = 0; kill < kills; ++kill) {
    const uint32_t which = static_cast<uint32_t>(prng.Below(kProcesses));
    ASSERT_TRUE(AwaitTurns(lives[which], prng.Below(20))) << "stall, seed " << seed;
    const uint64_t moment = MonotonicNs() + prng.Below(100'000);
    while (MonotonicNs() < moment) {
    }
    arena_->killed[lives[which]] = true;
    children[which]->Signal(SIGKILL);
    lives[which] = next_life++;
    children[which] = NewLife(lives[which]);
  }
  for (const uint32_t life : lives) ASSERT_TRUE(AwaitTurns(life, 50)) << "stall, seed " << seed;
  arena_->stop = true;
  for (const auto& child : children) EXPECT_EQ(child->End(), 0) << "seed " << seed;
  EXPECT_EQ(arena_->violations.load(), 0u) << "two at once, seed " << seed;
  const TokenCounters totals = ReadTokenTotals(path_).value();
  std::printf("%lu dead processes found in the queue\n",
              static_cast<unsigned long>(totals.recoveries));
  EXPECT_GT(totals.recoveries, kills / 10) << "hardly any died in the queue";
  EXPECT_EQ(totals.evictions, 0u);
}

}  // namespace
}  // namespace cupola::sim
