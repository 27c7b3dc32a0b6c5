#include "device/runtime/task_table.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <thread>
#include <vector>

#include "base/prng.h"

namespace cupola::runtime {
namespace {

// The device's side, by the rules of task_record.h, in plain C++: takes what is complete and says
// in any order that it has run.
class FakeDevice {
 public:
  // `first`: position of the first task; tasks before it have run.
  explicit FakeDevice(uint32_t columns, uint64_t first = 0)
      : columns_(columns), first_(first), records_(columns), done_(columns * kTaskRows) {
    heads_.assign(columns, static_cast<uint32_t>(first));
    for (uint64_t back = first == 0 ? 0 : kTaskRows; back > 0; --back) {
      for (uint32_t column = 0; column < columns; ++column) {
        Finish({.column = column, .sequence = first + 1 - back});
      }
    }
  }

  TaskTable::Memory Memory() {
    return {.columns = records_.data(),
            .done = done_.data(),
            .control = &control_,
            .column_count = columns_};
  }

  // The next task of a column, if it is complete: its words.
  bool Take(uint32_t column, std::vector<uint32_t>* words, TaskId* id) {
    const TaskRecord& record = records_[column].rows[heads_[column] % kTaskRows];
    const uint32_t sequence = heads_[column] + 1;
    TaskHeader header;
    uint32_t found[kRecordWords];
    for (uint32_t chunk = 0; chunk < kRecordChunks; ++chunk) {
      const TaskChunk& from = record.chunks[chunk];
      if (chunk > 0 && chunk >= header.chunks) break;
      if (__atomic_load_n(&from.sequence, __ATOMIC_ACQUIRE) != sequence) return false;
      std::memcpy(found + chunk * kChunkWords, from.words, sizeof from.words);
      if (chunk == 0) std::memcpy(&header, found, 4);
    }
    words->assign(found, found + header.chunks * kChunkWords);
    *id = {.column = column, .sequence = sequence};
    ++heads_[column];
    return true;
  }

  void Finish(const TaskId& id) {
    __atomic_store_n(&done_[id.column * kTaskRows + (id.sequence - 1) % kTaskRows],
                     static_cast<uint32_t>(id.sequence), __ATOMIC_RELEASE);
  }

  uint32_t awake() const { return __atomic_load_n(&control_.awake, __ATOMIC_ACQUIRE); }
  uint32_t tail(uint32_t column) const { return records_[column].tail; }
  uint64_t first() const { return first_; }
  void set_heads(uint32_t head) { heads_.assign(columns_, head); }
  TaskRecord& record(uint32_t column, uint32_t row) { return records_[column].rows[row]; }

 private:
  uint32_t columns_;
  uint64_t first_;
  std::vector<TaskColumn> records_;
  std::vector<uint32_t> done_;
  std::vector<uint32_t> heads_;
  HostControl control_{};
};

// Of the device's columns, as tasks before the first one have left them.
class UsedTable final : public TaskTable {
 public:
  explicit UsedTable(FakeDevice& device) : TaskTable(device.Memory(), device.first()) {}
};

TaskWords Words(uint32_t value, uint8_t chunks = kRecordChunks) {
  TaskWords task{};
  task.header = {.body = 3,
                 .chunks = chunks,
                 .barrier = 0,
                 .threads = 64,
                 .after = 0,
                 .blocks = 1,
                 .shared_bytes = 0};
  for (uint32_t i = 4; i < kRecordWords; ++i) task.words[i] = value + i;
  return task;
}

TEST(TaskTable, GivesTheDeviceWhatWasPutIn) {
  FakeDevice device(1);
  UsedTable table(device);
  for (uint32_t value = 0; value < 1000; ++value) {
    const auto chunks = static_cast<uint8_t>(2 + value % 7);
    TaskId put{}, taken{};
    ASSERT_TRUE(table.TryPut(Words(value, chunks), &put));
    std::vector<uint32_t> words;
    ASSERT_TRUE(device.Take(0, &words, &taken));
    EXPECT_EQ(put.sequence, taken.sequence);
    EXPECT_EQ(device.tail(0), taken.sequence);
    ASSERT_EQ(words.size(), chunks * kChunkWords);
    for (uint32_t i = 4; i < words.size(); ++i) ASSERT_EQ(words[i], value + i);
    EXPECT_FALSE(table.IsDone(put));
    device.Finish(taken);
    EXPECT_TRUE(table.IsDone(put));
  }
}

TEST(TaskTable, IsFullWhileNothingRuns) {
  FakeDevice device(4);
  UsedTable table(device);
  TaskId id{};
  uint32_t put = 0;
  // More columns are woken until there are no more.
  for (uint32_t tries = 0; tries < 2000; ++tries) put += table.TryPut(Words(tries), &id);
  EXPECT_EQ(put, 4 * kTaskRows);
  EXPECT_EQ(device.awake(), 4u);
  std::vector<uint32_t> words;
  ASSERT_TRUE(device.Take(2, &words, &id));
  device.Finish(id);
  EXPECT_TRUE(table.TryPut(Words(1), &id));
  EXPECT_EQ(id.column, 2u);
  EXPECT_FALSE(table.TryPut(Words(1), &id));
}

TEST(TaskTable, ARowIsUsedAgainOnlyWhenItsTaskHasRun) {
  // In any order, by seed; each task is taken once and no row is written while its task runs.
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Prng random(seed);
    FakeDevice device(3);
    UsedTable table(device);
    std::vector<TaskId> running;
    std::map<uint32_t, int> taken;
    uint32_t next = 0;
    while (taken.size() < 3000) {
      TaskId id{};
      if (random.Below(2) == 0 && table.TryPut(Words(next), &id)) ++next;
      std::vector<uint32_t> words;
      if (random.Below(2) == 0 && device.Take(random.Below(3), &words, &id)) {
        ++taken[words[4] - 4];
        running.push_back(id);
      }
      for (const TaskId& each : running) ASSERT_FALSE(table.IsDone(each));
      if (!running.empty() && random.Below(running.size() > 100 ? 1 : 4) == 0) {
        const size_t which = random.Below(running.size());
        device.Finish(running[which]);
        ASSERT_TRUE(table.IsDone(running[which]));
        running.erase(running.begin() + static_cast<long>(which));
      }
    }
    for (const auto& [value, times] : taken) ASSERT_EQ(times, 1) << value;
    EXPECT_LE(taken.rbegin()->first, next);
  }
}

TEST(TaskTable, ManyThreadsAndAllIsRunOnce) {
  constexpr uint32_t kThreads = 4, kEach = 5000, kColumns = 5;
  FakeDevice device(kColumns);
  UsedTable table(device);
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      TaskId id{};
      for (uint32_t i = 0; i < kEach; ++i) {
        while (!table.TryPut(Words(t * kEach + i), &id)) std::this_thread::yield();
      }
    });
  }
  std::vector<int> seen(kThreads * kEach);
  for (uint32_t all = 0, column = 0; all < kThreads * kEach; column = (column + 1) % kColumns) {
    std::vector<uint32_t> words;
    TaskId id{};
    while (device.Take(column, &words, &id)) {
      ++seen[words[4] - 4];
      ++all;
      device.Finish(id);
    }
  }
  for (std::thread& thread : threads) thread.join();
  for (const int times : seen) ASSERT_EQ(times, 1);
  EXPECT_TRUE(TasksBefore(table).HaveRun());
}

TEST(TaskTable, SaysWhereSomethingHasNotRun) {
  FakeDevice device(4);
  UsedTable table(device);
  EXPECT_TRUE(TasksBefore(table).HaveRun());
  table.WakeColumn(2);
  EXPECT_EQ(device.awake(), 3u);
  std::vector<TaskId> ids(12);
  for (TaskId& id : ids) ASSERT_TRUE(table.TryPut(Words(0), &id));
  TasksBefore before(table);
  EXPECT_FALSE(before.HaveRun());
  EXPECT_EQ(before.column(), 0u);
  for (const TaskId& id : ids) {
    if (id.column != 2 || id.sequence != 2) device.Finish(id);
  }
  EXPECT_FALSE(before.HaveRun());
  EXPECT_EQ(before.column(), 2u);
  device.Finish({.column = 2, .sequence = 2});
  EXPECT_TRUE(before.HaveRun());
  EXPECT_EQ(before.column(), 4u);
  table.LetColumnsSleep();
  EXPECT_EQ(device.awake(), 1u);
}

TEST(TaskTable, KnowsTheOldestThatHasNotRun) {
  FakeDevice device(2);
  UsedTable table(device);
  EXPECT_EQ(table.OldestLeft(1), 0u);
  for (uint32_t round = 0; round < 3; ++round) {
    std::vector<TaskId> ids(kTaskRows);
    for (uint32_t i = 0; i < kTaskRows; ++i) {
      TaskWords words = Words(0);
      words.header.body = static_cast<uint16_t>(0xfff0 + i);
      ASSERT_TRUE(table.TryPutIn(1, 0, &words, &ids[i]));
    }
    EXPECT_EQ(table.OldestLeft(1), ids[0].sequence);
    for (uint32_t i = kTaskRows; i-- > 5;) device.Finish(ids[i]);
    EXPECT_EQ(table.OldestLeft(1), ids[0].sequence);
    for (uint32_t i = 0; i < 5; ++i) {
      EXPECT_EQ(table.OldestLeft(1), ids[i].sequence);
      EXPECT_EQ(table.BodyOf(ids[i]), 0xfff0 + i);
      device.Finish(ids[i]);
    }
    EXPECT_EQ(table.OldestLeft(1), 0u);
    EXPECT_EQ(table.OldestLeft(0), 0u);
  }
}

// A call of the program that waits for all tasks is as fast as the tasks since the last such call are few: what was
// seen to have run is not looked at again, nor are columns that never had a task.
TEST(TaskTable, LooksOnceAtWhatHasRun) {
  FakeDevice device(200);
  UsedTable table(device);
  EXPECT_EQ(table.columns_used(), 0u);
  std::vector<TaskId> ids(kTaskRows + 3);
  for (TaskId& id : ids) {
    TaskWords words = Words(0);
    ASSERT_TRUE(table.TryPutIn(2, 0, &words, &id));
    if (&id != &ids.back()) device.Finish(id);
  }
  EXPECT_EQ(table.columns_used(), 3u);
  TasksBefore before(table);
  EXPECT_FALSE(before.HaveRun());
  // The device says again of a task what it said before that had run.
  device.Finish({.column = 2, .sequence = ids[kTaskRows].sequence - kTaskRows});
  device.Finish(ids.back());
  EXPECT_TRUE(before.HaveRun());
  EXPECT_EQ(table.OldestLeft(2), 0u);
  EXPECT_TRUE(TasksBefore(table).HaveRun());
  TaskId next{};
  TaskWords words = Words(0);
  ASSERT_TRUE(table.TryPutIn(2, 0, &words, &next));
  EXPECT_EQ(table.OldestLeft(2), next.sequence);
  EXPECT_FALSE(TasksBefore(table).HaveRun());
}

// A column that never runs dry: what was there before has run all the same.
TEST(TaskTable, WaitsForNoTaskThatCameLater) {
  FakeDevice device(2);
  UsedTable table(device);
  TaskId id{.column = 1};
  TaskWords words = Words(0);
  ASSERT_TRUE(table.TryPutIn(1, 0, &words, &id));
  TasksBefore before(table);
  EXPECT_FALSE(before.HaveRun());
  for (uint32_t turn = 0; turn < 2 * kTaskRows; ++turn) {
    const TaskId first = id;
    words = Words(0);
    ASSERT_TRUE(table.TryPutIn(1, 0, &words, &id));
    device.Finish(first);
    ASSERT_TRUE(before.HaveRun()) << turn;
  }
}

TEST(TaskTable, PutsIntoTheColumnThatItIsTold) {
  FakeDevice device(4);
  UsedTable table(device);
  TaskId id{}, first{}, taken{};
  std::vector<uint32_t> words;
  const auto after = [&words] {
    TaskHeader header;
    std::memcpy(&header, words.data(), sizeof header);
    return header.after;
  };
  TaskWords task = Words(7);
  ASSERT_TRUE(table.TryPutIn(2, 0, &task, &first));
  EXPECT_EQ(first.column, 2u);
  EXPECT_EQ(device.awake(), 3u);  // or it would not be pulled
  ASSERT_TRUE(device.Take(2, &words, &taken));
  EXPECT_EQ(after(), 0);
  for (uint32_t back = 1; back <= 3; ++back) {
    ASSERT_TRUE(table.TryPutIn(2, first.sequence, &task, &id));
    ASSERT_TRUE(device.Take(2, &words, &taken));
    EXPECT_EQ(id.sequence, taken.sequence);
    EXPECT_EQ(after(), back);
    EXPECT_EQ(words[5], 7u + 5);
  }
  while (table.TryPutIn(2, id.sequence, &task, &id)) {
    ASSERT_TRUE(device.Take(2, &words, &taken));
    EXPECT_EQ(after(), 1);
  }
  EXPECT_EQ(id.sequence, kTaskRows);
  // A row that is used again says that the task before has run.
  for (uint64_t sequence = 1; sequence <= kTaskRows; ++sequence) {
    device.Finish({.column = 2, .sequence = sequence});
  }
  for (uint32_t back = kTaskRows; back < kTaskRows + 3; ++back) {
    ASSERT_TRUE(table.TryPutIn(2, 1, &task, &id));
    ASSERT_TRUE(device.Take(2, &words, &taken));
    EXPECT_EQ(after(), 0);
  }
}

// The device sees the lower half of a sequence only, which is 0 once in 2^32 tasks of a column.
TEST(TaskTable, GoesOnWhereTheSequencesOfTheDeviceBeginAnew) {
  constexpr uint64_t kWrap = uint64_t{1} << 32;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Prng random(seed);
    const uint64_t first = kWrap - kTaskRows * (1 + random.Below(2));
    FakeDevice device(1, first);
    UsedTable table(device);
    EXPECT_TRUE(TasksBefore(table).HaveRun());
    EXPECT_TRUE(table.LastHaveRun());
    EXPECT_EQ(table.OldestLeft(0), 0u);
    std::vector<TaskId> left;  // ids that were put in and have not run, in order
    TaskId last{};
    std::vector<uint32_t> words;
    while (last.sequence < kWrap + 3 * kTaskRows) {
      TaskWords task = Words(7, static_cast<uint8_t>(2 + random.Below(7)));
      TaskId id{}, taken{};
      if (random.Below(2) == 0 && table.TryPutIn(0, last.sequence, &task, &id)) {
        ASSERT_EQ(id.sequence, last.sequence == 0 ? first + 1 : last.sequence + 1);
        ASSERT_TRUE(device.Take(0, &words, &taken));
        ASSERT_EQ(static_cast<uint32_t>(taken.sequence), static_cast<uint32_t>(id.sequence));
        TaskHeader header;
        std::memcpy(&header, words.data(), sizeof header);
        ASSERT_EQ(header.after, last.sequence == 0 ? 0 : 1);
        left.push_back(last = id);
      }
      ASSERT_TRUE(table.Knows(left.empty() ? last : left[0]) || last.sequence == 0);
      ASSERT_FALSE(table.Knows({.table = table.number(), .sequence = table.Tail(0) + 1}));
      ASSERT_EQ(table.OldestLeft(0), left.empty() ? 0 : left[0].sequence);
      ASSERT_EQ(TasksBefore(table).HaveRun(), left.empty());
      ASSERT_EQ(table.LastHaveRun(), left.empty());
      for (const TaskId& each : left) ASSERT_FALSE(table.IsDone(each));
      if (left.empty() || random.Below(2) == 0) continue;
      device.Finish(left[0]);
      ASSERT_TRUE(table.IsDone(left[0]));
      left.erase(left.begin());
    }
    EXPECT_TRUE(table.IsDone({.sequence = 5}));  // long ago, and again for the device
    EXPECT_TRUE(table.IsDone({.sequence = kWrap / 2}));
  }
}

// It would be what is due then.
TEST(TaskTable, AChunkThatWasNeverWrittenIsNeverTaken) {
  FakeDevice device(2);
  UsedTable table(device);
  device.set_heads(UINT32_MAX);
  std::vector<uint32_t> words;
  TaskId id{};
  EXPECT_FALSE(device.Take(0, &words, &id));
  for (uint32_t column = 0; column < 2; ++column) {
    for (const TaskChunk& chunk : device.record(column, kTaskRows - 1).chunks) {
      EXPECT_NE(chunk.sequence, 0u);
    }
  }
}

// Nobody pulls from it, and no other task comes there.
TEST(TaskTable, TasksThatAreLaunchedHaveAColumnOfTheirOwn) {
  FakeDevice device(3);
  TaskTable::Memory memory = device.Memory();
  memory.column_count = 2;
  memory.has_solo_column = true;
  TaskTable table(memory);
  TaskId id{}, first{}, taken{};
  std::vector<uint32_t> words;
  TaskWords task = Words(7);
  task.header.after = 5;
  for (uint32_t i = 0; i < kTaskRows; ++i)
    ASSERT_TRUE(table.TryPutSolo(&task, i == 0 ? &first : &id));
  EXPECT_FALSE(table.TryPutSolo(&task, &id));
  EXPECT_EQ(first.column, 2u);
  EXPECT_TRUE(table.IsSolo(first) && table.Knows(first));
  ASSERT_TRUE(device.Take(2, &words, &taken));
  EXPECT_EQ(words[1] >> 16, 0u);  // after
  EXPECT_FALSE(table.IsDone(first));
  EXPECT_TRUE(table.LastHaveRun());  // of those that are pulled
  table.WakeColumn(first.column);
  EXPECT_EQ(device.awake(), 1u);
  TasksBefore before(table);
  EXPECT_FALSE(before.HaveRun());
  EXPECT_EQ(before.column(), 2u);
  device.Finish(taken);
  EXPECT_TRUE(table.IsDone(first));
  EXPECT_TRUE(table.TryPutSolo(&task, &id));
  for (uint32_t i = 0; i < 100; ++i) {
    if (!table.TryPut(Words(i), &id)) continue;
    EXPECT_LT(id.column, 2u);
    EXPECT_FALSE(table.IsSolo(id));
  }
  EXPECT_LE(device.awake(), 2u);
  EXPECT_FALSE(table.LastHaveRun());
}

TEST(TaskTable, KnowsItsIds) {
  FakeDevice device(2);
  UsedTable table(device);
  TaskId id{};
  EXPECT_FALSE(table.Knows({.column = 0, .table = table.number(), .sequence = 1}));
  ASSERT_TRUE(table.TryPut(Words(0), &id));
  EXPECT_TRUE(table.Knows(id));
  EXPECT_FALSE(table.Knows({.column = id.column, .table = id.table, .sequence = id.sequence + 1}));
  EXPECT_FALSE(table.Knows({.column = id.column, .table = id.table, .sequence = 0}));
  EXPECT_FALSE(table.Knows({.column = 2, .table = id.table, .sequence = 1}));
}

TEST(TaskTable, KnowsNoIdsOfOthers) {
  FakeDevice device(2), other_device(2);
  UsedTable table(device), other(other_device);
  TaskId id{}, other_id{};
  ASSERT_TRUE(table.TryPut(Words(0), &id));
  ASSERT_TRUE(other.TryPut(Words(0), &other_id));
  EXPECT_NE(table.number(), other.number());
  EXPECT_FALSE(table.Knows(other_id));
  EXPECT_FALSE(other.Knows(id));
  EXPECT_FALSE(table.Knows({.column = id.column, .sequence = id.sequence}));
}

}  // namespace
}  // namespace cupola::runtime
