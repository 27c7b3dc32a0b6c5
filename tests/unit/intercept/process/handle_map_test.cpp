// HandleMap against a std::map, and readers while a writer makes it grow.
#include "intercept/process/handle_map.h"

#include <atomic>
#include <fstream>
#include <map>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/prng.h"

namespace cupola::intercept {
namespace {

const void* Handle(uint64_t number) { return reinterpret_cast<const void*>(number << 4); }

// Two threads that look up handles 1 to `there`, each of which means its number, until they are
// asked what they saw.
class Readers {
 public:
  Readers(const HandleMap& map, uint64_t there) {
    for (std::thread& reader : threads_) {
      reader = std::thread([this, &map, there] {
        for (uint64_t number = 1; !stop_.load(); number = number % there + 1) {
          wrong_ += map.Find(Handle(number), 0) != number;
        }
      });
    }
  }

  uint64_t Wrong() {
    stop_.store(true);
    for (std::thread& reader : threads_) reader.join();
    return wrong_.load();
  }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> wrong_{0};
  std::thread threads_[2];
};

TEST(HandleMap, AgreesWithAMapThroughGrowthAndErasure) {
  constexpr uint64_t kSeed = 5, kHandles = 20'000;
  SCOPED_TRACE(kSeed);
  Prng prng(kSeed);
  HandleMap map;
  std::map<uint64_t, uint64_t> expected;
  EXPECT_EQ(map.Find(Handle(1), 7), 7u);
  for (int i = 0; i < 200'000; ++i) {
    const uint64_t number = 1 + prng.Below(kHandles);
    if (prng.Below(3) == 0) {
      map.Erase(Handle(number));
      expected.erase(number);
    } else {
      map.Set(Handle(number), static_cast<uint64_t>(i) + 1);
      expected[number] = static_cast<uint64_t>(i) + 1;
    }
  }
  for (uint64_t number = 1; number <= kHandles; ++number) {
    const auto found = expected.find(number);
    ASSERT_EQ(map.Find(Handle(number), 0), found != expected.end() ? found->second : 0) << number;
  }
  map.ResetAfterFork();
  EXPECT_EQ(map.Find(Handle(1), 7), 7u);
}

TEST(HandleMap, NullStaysUnknown) {
  HandleMap map;
  map.Set(nullptr, 5);
  EXPECT_EQ(map.Find(nullptr, 9), 9u);
  map.Set(Handle(1), 5);
  EXPECT_EQ(map.Find(nullptr, 9), 9u);
}

// What is in it is found at every moment, whatever a writer adds meanwhile.
TEST(HandleMap, ReadersFindWhatIsThereWhileItGrows) {
  constexpr uint64_t kThere = 400, kAdded = 60'000;
  HandleMap map;
  for (uint64_t number = 1; number <= kThere; ++number) map.Set(Handle(number), number);
  Readers readers(map, kThere);
  for (uint64_t number = kThere + 1; number <= kAdded; ++number) map.Set(Handle(number), number);
  EXPECT_EQ(readers.Wrong(), 0u);
  for (uint64_t number = 1; number <= kAdded; ++number) {
    ASSERT_EQ(map.Find(Handle(number), 0), number);
  }
}

// Of the address space, so that it counts what nobody frees.
size_t BytesMapped() {
  std::ifstream status("/proc/self/statm");
  size_t pages = 0;
  status >> pages;
  return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

// Handles that come and go, each another than before, take no more memory than those that are there
// at a time.
TEST(HandleMap, StaysAsLargeAsWhatIsInIt) {
  constexpr uint64_t kSeed = 7, kHandles = 2'000'000;
  SCOPED_TRACE(kSeed);
  for (const size_t at_a_time : {1, 30, 250}) {
    Prng prng(kSeed);
    HandleMap map;
    std::vector<uint64_t> there(at_a_time);
    for (size_t i = 0; i < at_a_time; ++i) map.Set(Handle(there[i] = i + 1), i);
    const size_t before = BytesMapped();
    for (uint64_t number = at_a_time + 1; number <= kHandles; ++number) {
      uint64_t& one = there[prng.Below(at_a_time)];
      ASSERT_TRUE(map.Erase(Handle(one)));
      one = 1 + prng.Below(uint64_t{1} << 40);
      map.Set(Handle(one), number);
    }
    EXPECT_LT(BytesMapped() - before, size_t{1} << 20) << at_a_time;
    for (const uint64_t number : there) ASSERT_NE(map.Find(Handle(number), 0), 0u);
  }
}

// What is in it is found at every moment, whatever comes and goes meanwhile.
TEST(HandleMap, ReadersFindWhatIsThereWhileOthersComeAndGo) {
  constexpr uint64_t kSeed = 9, kThere = 200, kChanges = 400'000;
  SCOPED_TRACE(kSeed);
  Prng prng(kSeed);
  HandleMap map;
  for (uint64_t number = 1; number <= kThere; ++number) map.Set(Handle(number), number);
  Readers readers(map, kThere);
  for (uint64_t i = 0; i < kChanges; ++i) {
    const uint64_t number = kThere + 1 + prng.Below(300);
    if (!map.Erase(Handle(number))) map.Set(Handle(number), number);
  }
  EXPECT_EQ(readers.Wrong(), 0u);
}

}  // namespace
}  // namespace cupola::intercept
