// Order between streams: random programs against a model of happens-before, and the rules of the
// legacy default stream one by one.
#include <sys/mman.h>

#include <algorithm>
#include <bitset>
#include <chrono>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "base/prng.h"
#include "tests/unit/sim/driver/fixture.h"

namespace cupola::sim {
namespace {

constexpr size_t kCalls = 160;
using Clock = std::bitset<kCalls>;

class StreamOrderTest : public DriverTest, public ::testing::WithParamInterface<uint64_t> {};

/// A random program: calls, records and waits on five streams. Each call checks, when it runs, that
/// all calls which must precede it have ended. The model knows nothing of tickets or threads.
TEST_P(StreamOrderTest, EveryCallSeesWhatPrecedesIt) {
  Prng prng(GetParam());
  const auto pick = [&](uint64_t n) { return static_cast<size_t>(prng.Below(n)); };
  std::vector<Stream*> streams{&Legacy(), &NewStream(), &NewStream(),
                               &NewStream(CU_STREAM_NON_BLOCKING), &NewStream()};
  std::vector<Event*> events{&NewEvent(), &NewEvent(), &NewEvent()};
  std::vector<Clock> after(streams.size()), recorded(events.size());
  std::vector<bool> was_recorded(events.size());
  std::vector<std::atomic<bool>> ended(kCalls);
  std::atomic<int> violations{0};

  const auto submit = [&](size_t s) -> Clock& {
    for (size_t other = 1; other < streams.size(); ++other) {
      if (s == 0 && streams[other]->blocking()) after[0] |= after[other];
    }
    if (s != 0 && streams[s]->blocking()) after[s] |= after[0];
    return after[s];
  };
  // Everything piles up behind a door, so that order comes from the rules and not from the speed of
  // the streams.
  Door door;
  for (Stream* stream : streams) ASSERT_EQ(Call(*stream, [&] { door.Pass(); }), CUDA_SUCCESS);
  for (size_t call = 0; call < kCalls;) {
    const size_t s = pick(streams.size());
    const size_t action = pick(4);
    if (action == 0) {
      const size_t e = pick(events.size());
      recorded[e] = submit(s);
      was_recorded[e] = true;
      ASSERT_EQ(driver_.Record(*streams[s], *events[e], 0), CUDA_SUCCESS);
    } else if (action == 1) {
      const size_t e = pick(events.size());
      // Waiting for an event that was never recorded is no work, and so orders nothing.
      if (!was_recorded[e]) {
        ASSERT_EQ(driver_.WaitFor(*streams[s], *events[e], 0), CUDA_SUCCESS);
        continue;
      }
      submit(s) |= recorded[e];
      ASSERT_EQ(driver_.WaitFor(*streams[s], *events[e], 0), CUDA_SUCCESS);
    } else {
      const Clock before = submit(s);
      after[s].set(call);
      const uint64_t work = prng.Next() % 2000;
      ASSERT_EQ(Call(*streams[s], [&ended, &violations, before, call, work] {
        for (size_t i = 0; i < kCalls; ++i) {
          if (before.test(i) && !ended[i].load()) ++violations;
        }
        for (volatile uint64_t spin = 0; spin < work; spin = spin + 1) {
        }
        ended[call].store(true);
      }), CUDA_SUCCESS);
      ++call;
    }
  }
  door.Open();
  ASSERT_EQ(driver_.Synchronize(context_), CUDA_SUCCESS);
  EXPECT_EQ(violations.load(), 0);
  for (const auto& one : ended) EXPECT_TRUE(one.load());
}

INSTANTIATE_TEST_SUITE_P(Seeds, StreamOrderTest, ::testing::Range<uint64_t>(1, 25));

/// One row of the table of default stream rules: a call held in `first`, then one in `second`.
struct Rule {
  const char* first;
  const char* second;
  bool waits;
};

class DefaultStreamTest : public DriverTest, public ::testing::WithParamInterface<Rule> {
 protected:
  Stream& ByName(const std::string& name) {
    if (name == "legacy") return Legacy();
    if (name == "per-thread") {
      return *driver_.Resolve(context_, CU_STREAM_PER_THREAD, DefaultStream::kLegacy);
    }
    return NewStream(name == "non-blocking" ? CU_STREAM_NON_BLOCKING : 0);
  }
};

TEST_P(DefaultStreamTest, SecondWaitsForFirst) {
  Door door, second_ran;
  Stream& first = ByName(GetParam().first);
  Stream& second = ByName(GetParam().second);
  std::atomic<bool> first_ended{false}, was_ended{false};
  ASSERT_EQ(Call(first, [&] { door.Pass(); first_ended = true; }), CUDA_SUCCESS);
  ASSERT_EQ(Call(second, [&] { was_ended = first_ended.load(); second_ran.Open(); }), CUDA_SUCCESS);
  if (!GetParam().waits) second_ran.Pass();  // hangs, and so fails, if it waits for the door
  door.Open();
  second_ran.Pass();
  EXPECT_EQ(was_ended.load(), GetParam().waits);
  driver_.Synchronize(context_);  // the gates outlive whoever still leaves them
}

INSTANTIATE_TEST_SUITE_P(Table, DefaultStreamTest,
                         ::testing::Values(Rule{"legacy", "blocking", true},
                                           Rule{"blocking", "legacy", true},
                                           Rule{"legacy", "per-thread", true},
                                           Rule{"per-thread", "legacy", true},
                                           Rule{"legacy", "non-blocking", false},
                                           Rule{"non-blocking", "legacy", false},
                                           Rule{"blocking", "per-thread", false},
                                           Rule{"blocking", "blocking", false},
                                           Rule{"legacy", "legacy", true}));

TEST_F(DriverTest, HandlesResolve) {
  EXPECT_EQ(driver_.Resolve(context_, nullptr, DefaultStream::kLegacy).get(), &Legacy());
  EXPECT_EQ(driver_.Resolve(context_, CU_STREAM_LEGACY, DefaultStream::kPerThread).get(),
            &Legacy());
  EXPECT_EQ(driver_.Resolve(context_, nullptr, DefaultStream::kPerThread),
            driver_.Resolve(context_, CU_STREAM_PER_THREAD, DefaultStream::kLegacy));
  EXPECT_EQ(driver_.Resolve(context_, reinterpret_cast<CUstream>(0x1234), DefaultStream::kLegacy),
            nullptr);
}

TEST_F(DriverTest, QueryTellsRunningFromDone) {
  Door door;
  Stream& stream = NewStream();
  Event& event = NewEvent();
  EXPECT_EQ(driver_.Query(event), CUDA_SUCCESS);  // never recorded
  ASSERT_EQ(Call(stream, [&] { door.Pass(); }), CUDA_SUCCESS);
  ASSERT_EQ(driver_.Record(stream, event, 0), CUDA_SUCCESS);
  EXPECT_EQ(driver_.Query(stream), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(driver_.Query(event), CUDA_ERROR_NOT_READY);
  door.Open();
  EXPECT_EQ(driver_.Synchronize(event), CUDA_SUCCESS);
  EXPECT_EQ(driver_.Query(event), CUDA_SUCCESS);
  EXPECT_EQ(driver_.Synchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(driver_.Query(stream), CUDA_SUCCESS);
}

// cuCtxRecordEvent: of all that was given to the context before, on any stream, and in nobody's way.
TEST_F(DriverTest, AContextsEventIsBehindAllOfItsStreams) {
  for (const uint32_t flags : {0u, unsigned{CU_STREAM_NON_BLOCKING}}) {
    Door door, later;
    Stream &busy = NewStream(flags), &other = NewStream(flags);
    Event& event = NewEvent();
    ASSERT_EQ(Call(busy, [&] { door.Pass(); }), CUDA_SUCCESS);
    ASSERT_EQ(driver_.Record(context_, event), CUDA_SUCCESS);
    std::atomic<bool> passed{false};
    ASSERT_EQ(Call(other, [&] { passed = true; }), CUDA_SUCCESS);
    EXPECT_EQ(driver_.Synchronize(other), CUDA_SUCCESS);
    EXPECT_TRUE(passed.load());
    EXPECT_EQ(driver_.Query(event), CUDA_ERROR_NOT_READY);
    ASSERT_EQ(Call(other, [&] { later.Pass(); }), CUDA_SUCCESS);  // not before it
    door.Open();
    EXPECT_EQ(driver_.Synchronize(event), CUDA_SUCCESS);
    EXPECT_EQ(driver_.Query(event), CUDA_SUCCESS);
    later.Open();
    EXPECT_EQ(driver_.Synchronize(other), CUDA_SUCCESS);
  }
}

TEST_F(DriverTest, AContextsEventEndsCaptures) {
  Stream& stream = NewStream();
  Event& event = NewEvent();
  ASSERT_EQ(driver_.BeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  EXPECT_EQ(driver_.Record(context_, event), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(driver_.CaptureOf(stream, nullptr, nullptr), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  std::shared_ptr<Graph> graph;
  EXPECT_EQ(driver_.EndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(DriverTest, ElapsedTimeNeedsTwoTimedRecords) {
  Stream& stream = NewStream();
  Event& start = NewEvent();
  Event& end = NewEvent();
  Event& untimed = NewEvent(CU_EVENT_DISABLE_TIMING);
  float ms = -1;
  EXPECT_EQ(driver_.Elapsed(start, end, &ms), CUDA_ERROR_INVALID_HANDLE);
  ASSERT_EQ(driver_.Record(stream, start, 0), CUDA_SUCCESS);
  ASSERT_EQ(driver_.Record(stream, end, 0), CUDA_SUCCESS);
  ASSERT_EQ(driver_.Synchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(driver_.Elapsed(start, end, &ms), CUDA_SUCCESS);
  EXPECT_GE(ms, 0);
  EXPECT_EQ(driver_.Elapsed(start, untimed, &ms), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(DriverTest, WaitValueHoldsTheStreamUntilTheHostWrites) {
  Stream& stream = NewStream(CU_STREAM_NON_BLOCKING);
  uint32_t word = 0;
  std::atomic<bool> passed{false};
  CUstreamBatchMemOpParams wait{}, write{};
  wait.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  wait.waitValue.address = reinterpret_cast<uint64_t>(&word);
  wait.waitValue.value = 5;
  wait.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
  write.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  write.writeValue.address = reinterpret_cast<uint64_t>(&word);
  write.writeValue.value = 77;
  ASSERT_EQ(driver_.Enqueue(stream, MemOpsWork{{wait}}), CUDA_SUCCESS);
  ASSERT_EQ(Call(stream, [&] { passed = true; }), CUDA_SUCCESS);
  ASSERT_EQ(driver_.Enqueue(stream, MemOpsWork{{write}}), CUDA_SUCCESS);
  __atomic_store_n(&word, 4u, __ATOMIC_RELEASE);
  EXPECT_EQ(driver_.Query(stream), CUDA_ERROR_NOT_READY);
  EXPECT_FALSE(passed.load());
  __atomic_store_n(&word, 6u, __ATOMIC_RELEASE);
  EXPECT_EQ(driver_.Synchronize(stream), CUDA_SUCCESS);
  EXPECT_TRUE(passed.load());
  EXPECT_EQ(word, 77u);
}

// Programs clear much more than they use. What nobody has touched is zero, and takes no memory for being cleared.
TEST_F(DriverTest, ClearingTouchesNoPageThatNobodyHasTouched) {
  constexpr uint64_t kBytes = 8 << 20, kPage = 4096, kFrom = 100, kTo = kBytes - 50;
  const uint64_t at = driver_.memory().AllocateDevice(kBytes, MemoryKind::kDevice, &context_);
  ASSERT_NE(at, 0u);
  auto* const bytes = reinterpret_cast<unsigned char*>(at);
  const std::vector<uint64_t> touched = {0,         kFrom - 1,       kFrom,  kPage - 1,  kPage,     3 * kPage + 7,
                                         4u << 20, (4u << 20) - 1, kTo - 1, kTo, kBytes - 1};
  for (const uint64_t place : touched) bytes[place] = 0xAB;
  Stream& stream = NewStream(CU_STREAM_NON_BLOCKING);
  FillWork fill{};
  fill.address = at + kFrom;
  fill.element_bytes = 1;
  fill.width = fill.pitch = kTo - kFrom;
  fill.height = 1;
  ASSERT_EQ(driver_.Enqueue(stream, fill), CUDA_SUCCESS);
  ASSERT_EQ(driver_.Synchronize(stream), CUDA_SUCCESS);

  std::vector<unsigned char> has_memory(kBytes / kPage);
  const auto first_page = (at + kPage - 1) / kPage * kPage;
  ASSERT_EQ(mincore(reinterpret_cast<void*>(first_page), kBytes - kPage, has_memory.data()), 0);
  EXPECT_LE(std::count(has_memory.begin(), has_memory.end(), 1), static_cast<int64_t>(touched.size()));
  for (uint64_t place = 0; place < kBytes; ++place) {
    const bool is_outside = place < kFrom || place >= kTo;
    const bool was_touched = std::find(touched.begin(), touched.end(), place) != touched.end();
    if (bytes[place] != (is_outside && was_touched ? 0xAB : 0)) FAIL() << place;
  }
}

// A GPU's driver does not let another thread launch into the context meanwhile. So the resume of a kernel that such a
// call waits for is never made.
TEST_F(DriverTest, ACallThatWaitsForTheContextHoldsLaunches) {
  const auto holds = [&](Stream& busy, std::function<void()> call) {
    Door door;
    EXPECT_EQ(Call(busy, [&] { door.Pass(); }), CUDA_SUCCESS);
    std::atomic<bool> has_begun{false};
    std::thread caller([&] {
      driver_.SetCurrent(&context_);
      has_begun = true;
      call();
      driver_.SetCurrent(nullptr);
    });
    bool is_held = false;
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
    while (!is_held && std::chrono::steady_clock::now() < until) {
      if (has_begun) is_held = !std::shared_lock(context_.launches, std::try_to_lock).owns_lock();
      std::this_thread::yield();
    }
    door.Open();
    caller.join();
    EXPECT_TRUE(std::shared_lock(context_.launches, std::try_to_lock).owns_lock());
    return is_held;
  };
  HostWork nothing;
  nothing.function = [](void*) {};
  Stream& stream = NewStream(CU_STREAM_NON_BLOCKING);
  EXPECT_TRUE(holds(Legacy(), [&] { EXPECT_EQ(driver_.EnqueueAndWait(Legacy(), nothing), CUDA_SUCCESS); }));
  EXPECT_TRUE(holds(stream, [&] { driver_.WaitAndHoldLaunches(context_); }));
  EXPECT_FALSE(holds(stream, [&] { EXPECT_EQ(driver_.EnqueueAndWait(stream, nothing), CUDA_SUCCESS); }));
  EXPECT_FALSE(holds(Legacy(), [&] { EXPECT_EQ(driver_.Synchronize(Legacy()), CUDA_SUCCESS); }));
}

}  // namespace
}  // namespace cupola::sim
