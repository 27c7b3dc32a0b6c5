// Two ways lead into the columns. TryPutIn puts a task of a stream into the column that the caller names. TryPut puts
// a task that waits for no other one into any column, and spreads tasks over the columns that are *awake*, that is,
// from which the device pulls (HostControl::awake): those with numbers below awake_.
#include "device/runtime/task_table.h"

#include <emmintrin.h>

#include <algorithm>

// The version of this library: include/cupola/version.h declares the function and has the version of the headers, with which
// programs compare this one. Both are that of the project (the test api.version).
extern "C" uint32_t cupola_version(void);
extern "C" uint32_t cupola_version(void) { return 100; }  // 0.1.0

namespace cupola::runtime {
namespace {

// Number of rows whose `done` words lie in one cache line. FindRoom reads the words of one line together: the device
// may write to that line between two calls, and then each call costs a cache miss.
constexpr uint32_t kRowsOfALine = 64 / sizeof(uint32_t);

// A burst: the tasks that a thread puts in by TryPut without asking whether a task has run. In a long burst a thread
// puts kRun tasks into a column before it goes on to the next one, so that the lines it uses of a column are in its
// caches; or kLongRun where at least kManyColumns columns are awake: then more tasks are there than a few columns can
// start [measured: docs/results/narrow-tasks.md].
constexpr uint32_t kRun = 4, kLongRun = 16, kManyColumns = 32;

// The first tasks of a burst, this many for each column that is awake, go to a column each. Otherwise
// few columns would share an SM while others have nothing to do.
constexpr uint32_t kSpread = 2;

// Write prefetches the row that will be written this many tasks later.
constexpr uint32_t kAhead = 2;

// A column in which this many tasks wait has enough to do: more columns are woken.
constexpr uint32_t kEnough = 16;

// Where a thread puts its next task by TryPut. It serves all tables of the process.
struct Cursor {
  uint32_t column;
  uint32_t run = 0;    // tasks that the thread has put into that column in a row
  uint32_t burst = 0;  // tasks put in since the thread last looked whether a task has run
};

// The cursor of the calling thread. Threads begin at different columns, so that they do not meet in one.
Cursor& ThisCursor() {
  static std::atomic<uint32_t> threads{0};
  thread_local Cursor cursor{.column = threads.fetch_add(1, std::memory_order_relaxed) * 7};
  return cursor;
}

// Whether `done`, the word of a task's row, says that the task with this sequence has run. Before it has run, the word
// holds the sequence of the task before it in that row, which is kTaskRows less, or of no task, up to kTaskRows less.
// Any other value is that of this task or of a later one. The difference is taken modulo 2^32, so this holds however
// often the 32 bits of the sequence have wrapped.
bool HasCome(uint32_t done, uint64_t sequence) {
  return static_cast<uint32_t>(sequence) - done - 1 >= kTaskRows;
}

// A number for a table (TaskTable::number), from 1.
uint32_t NextNumber() {
  static std::atomic<uint32_t> tables{0};
  return tables.fetch_add(1, std::memory_order_relaxed) + 1;
}

// Writes a record chunk by chunk, each in one store (every x86-64 processor with AVX writes 16 aligned
// bytes in one access: Intel SDM 3A 9.1.1; AMD64 APM 2, 7.3.2).
void WriteChunks(TaskChunk* to, const uint32_t* words, uint32_t chunks, uint64_t sequence) {
  const __m128i last = _mm_set_epi32(static_cast<int>(static_cast<uint32_t>(sequence)), 0, 0, 0);
  const __m128i payload = _mm_set_epi32(0, -1, -1, -1);
  for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
    const __m128i part =
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(words + chunk * kChunkWords));
    _mm_store_si128(reinterpret_cast<__m128i*>(&to[chunk]),
                    _mm_or_si128(_mm_and_si128(part, payload), last));
  }
}

// Prefetches the lines of `what` for writing. Stores wait in order, so a store to a line that is in
// another cache holds up all stores behind it. Processors that lack the instruction do nothing.
void PrefetchToWrite(const void* what, size_t count) {
  const auto* const bytes = static_cast<const char*>(what);
  for (size_t line = 0; line < count; line += 64) {
    asm volatile("prefetchw %0" ::"m"(bytes[line]));
  }
}

}  // namespace

TaskTable::TaskTable(const Memory& memory, uint64_t first)
    : memory_(memory), number_(NextNumber()), columns_(std::make_unique<Column[]>(columns())) {
  for (uint32_t column = 0; column < columns(); ++column) {
    columns_[column].tail = first;
    columns_[column].limit = first + kTaskRows;
    columns_[column].run = first;
  }
  // A chunk that was never written has the sequence 0. In the last row that sequence is due once in
  // 2^32 tasks; the sequence 1 never is due there.
  for (uint32_t column = 0; column < memory_.column_count; ++column) {
    for (TaskChunk& chunk : memory_.columns[column].rows[kTaskRows - 1].chunks) {
      if (chunk.sequence == 0) chunk.sequence = 1;
    }
  }
  TellAwake();
}

// Several threads may write the device's word in another order than they changed the count. A thread
// that finds another count after its own write writes that one too, so the last value that is written
// is the last count.
// Writes HostControl::awake.
void TaskTable::TellAwake() {
  for (uint32_t told = awake_.load();;) {
    __atomic_store_n(&memory_.control->awake, told, __ATOMIC_SEQ_CST);
    const uint32_t now = awake_.load();
    if (now == told) return;
    told = now;
  }
}

uint32_t TaskTable::Done(uint32_t column, uint32_t row) const {
  // The device writes this word. Acquire: what the task wrote to host memory is seen after it.
  return __atomic_load_n(&memory_.done[column * kTaskRows + row], __ATOMIC_ACQUIRE);
}

// Advances `limit` over rows whose tasks have run, up to the end of their cache line. `limit` is kTaskRows positions
// ahead of the oldest task that is not known to have run. Returns whether there is room for a task. The caller holds
// the column's `taken`.
bool TaskTable::FindRoom(uint32_t number, Column& column) const {
  const uint64_t end = (column.limit / kRowsOfALine + 1) * kRowsOfALine;
  while (column.limit != end &&
         HasCome(Done(number, column.limit % kTaskRows), column.limit - kTaskRows + 1)) {
    ++column.limit;
  }
  return column.limit != column.tail.load(std::memory_order_relaxed);
}

// Whether a row is free for the next task. The caller holds the column's `taken`.
bool TaskTable::HasRoom(uint32_t number, Column& column) const {
  return column.limit != column.tail.load(std::memory_order_relaxed) || FindRoom(number, column);
}

// Writes the record of the next task and then the tail, and sets `*id`. The caller has found room, and holds the
// column's `taken` (for the solo column: is the only thread that puts tasks into it).
void TaskTable::Write(uint32_t number, Column& column, const TaskWords& words, TaskId* id) {
  const uint64_t position = column.tail.load(std::memory_order_relaxed);
  PrefetchToWrite(&memory_.columns[number].rows[(position + kAhead) % kTaskRows],
                  kNearChunks * sizeof(TaskChunk));
  WriteChunks(memory_.columns[number].rows[position % kTaskRows].chunks, words.words,
              words.header.chunks, position + 1);
  __atomic_store_n(&memory_.columns[number].tail, static_cast<uint32_t>(position + 1),
                   __ATOMIC_RELEASE);
  column.tail.store(position + 1, std::memory_order_relaxed);
  *id = {.column = number, .table = number_, .sequence = position + 1};
  if (number >= columns_used()) [[unlikely]]
    NoteUsed(number);
}

void TaskTable::NoteUsed(uint32_t column) {
  uint32_t used = columns_used();
  while (used <= column && !columns_used_.compare_exchange_weak(used, column + 1)) {
  }
}

// Puts a task into a column, if no other thread is doing so and there is room. Once in kEnough tasks it looks whether
// the task kEnough positions before has run; if not, the column has enough to do, and `*is_loaded` is set.
bool TaskTable::TryPutNext(uint32_t number, const TaskWords& words, TaskId* id, bool* is_loaded) {
  Column& column = columns_[number];
  if (column.taken.exchange(true, std::memory_order_acquire)) return false;
  const bool has_room = HasRoom(number, column);
  if (has_room) {
    Write(number, column, words, id);
    const uint64_t position = id->sequence - 1;
    if (position % kEnough == 0 && position >= kEnough && awake() < memory_.column_count) {
      *is_loaded |=
          !HasCome(Done(number, (position - kEnough) % kTaskRows), position - kEnough + 1);
    }
  }
  column.taken.store(false, std::memory_order_release);
  return has_room;
}

bool TaskTable::TryPutIn(uint32_t number, uint64_t after, TaskWords* words, TaskId* id) {
  Column& column = columns_[number];
  if (column.taken.exchange(true, std::memory_order_acquire)) return false;
  const bool has_room = HasRoom(number, column);
  if (has_room) {
    const uint64_t back = column.tail.load(std::memory_order_relaxed) + 1 - after;
    // A task further back has ended: its row is in use again.
    words->header.after = after != 0 && back < kTaskRows ? static_cast<uint16_t>(back) : 0;
    Write(number, column, *words, id);
  }
  column.taken.store(false, std::memory_order_release);
  if (number >= awake()) WakeColumn(number);
  return has_room;
}

void TaskTable::Prefetch(uint32_t column) const {
  PrefetchToWrite(&memory_.columns[column].tail, sizeof(uint32_t));
}

bool TaskTable::TryPutSolo(TaskWords* words, TaskId* id) {
  Column& column = columns_[memory_.column_count];
  if (!HasRoom(memory_.column_count, column)) return false;
  words->header.after = 0;
  Write(memory_.column_count, column, *words, id);
  return true;
}

bool TaskTable::LastHaveRun() const {
  const uint32_t used = std::min(columns_used(), memory_.column_count);
  for (uint32_t column = 0; column < used; ++column) {
    const uint64_t tail = Tail(column);
    if (tail != 0 && !HasCome(Done(column, (tail - 1) % kTaskRows), tail)) return false;
  }
  return true;
}

void TaskTable::Copy(const TaskWords& words, const TaskId& id, TaskChunk* chunks) {
  WriteChunks(chunks, words.words, words.header.chunks, id.sequence);
}

// Doubles the number of columns that are awake. `awake` is that number as the caller saw it.
void TaskTable::WakeMore(uint32_t awake) {
  if (awake < memory_.column_count) WakeColumn(std::min(2 * awake, memory_.column_count) - 1);
}

bool TaskTable::TryPut(const TaskWords& words, TaskId* id) {
  Cursor& cursor = ThisCursor();
  const uint32_t awake = awake_.load(std::memory_order_relaxed);
  const bool spreads = ++cursor.burst <= kSpread * awake;
  if (spreads || ++cursor.run >= (awake < kManyColumns ? kRun : kLongRun)) {
    cursor.run = 0;
    ++cursor.column;
  }
  bool is_loaded = cursor.burst == 2 * kSpread * awake;  // more tasks than these columns should have
  for (uint32_t tries = 0; tries < awake; ++tries, ++cursor.column) {
    if (cursor.column >= awake) cursor.column = 0;
    if (!TryPutNext(cursor.column, words, id, &is_loaded)) continue;
    if (is_loaded) WakeMore(awake);
    return true;
  }
  WakeMore(awake);
  return false;
}

void TaskTable::WakeColumn(uint32_t column) {
  if (column >= memory_.column_count) return;
  uint32_t awake = awake_.load(std::memory_order_relaxed);
  while (awake <= column && !awake_.compare_exchange_weak(awake, column + 1)) {
  }
  TellAwake();
}

bool TaskTable::Knows(const TaskId& id) const {
  return id.table == number_ && id.column < columns() && id.sequence != 0 &&
         id.sequence <= Tail(id.column);
}

// A thread that asks has put in what it wants for now: its next task begins a new burst.
bool TaskTable::IsDone(const TaskId& id) const {
  ThisCursor().burst = 0;
  return HasCome(Done(id.column, (id.sequence - 1) % kTaskRows), id.sequence);
}

bool TaskTable::HaveRun(uint32_t column, uint64_t tail) const {
  ThisCursor().burst = 0;
  return FirstLeft(column, tail) == tail;
}

// A task kTaskRows or more positions before `tail` has run: else the task that now has its row could not have been put
// in.
uint64_t TaskTable::FirstLeft(uint32_t number, uint64_t tail) const {
  Column& column = columns_[number];
  const uint64_t known = column.run.load(std::memory_order_acquire);
  if (known >= tail) return tail;
  uint64_t first = tail - known > kTaskRows ? tail - kTaskRows : known;
  while (first != tail && HasCome(Done(number, first % kTaskRows), first + 1)) ++first;
  if (first != known) column.run.store(first, std::memory_order_release);
  return first;
}

uint64_t TaskTable::OldestLeft(uint32_t column) const {
  const uint64_t tail = Tail(column);
  const uint64_t first = FirstLeft(column, tail);
  return first == tail ? 0 : first + 1;
}

uint16_t TaskTable::BodyOf(const TaskId& id) const {
  const TaskRecord& record = memory_.columns[id.column].rows[(id.sequence - 1) % kTaskRows];
  const uint32_t first = __atomic_load_n(&record.chunks[0].words[0], __ATOMIC_RELAXED);
  static_assert(offsetof(TaskHeader, body) == 0);
  return static_cast<uint16_t>(first);
}

bool TasksBefore::HaveRun() {
  while (column_ != table_.columns() && table_.HaveRun(column_, tail_)) LookAt(column_ + 1);
  return column_ == table_.columns();
}

void TaskTable::LetColumnsSleep() {
  awake_.store(1);
  TellAwake();
}

}  // namespace cupola::runtime
