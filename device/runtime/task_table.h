// The host's side of the TaskTable (Pagoda, section 4.2): puts task records into the columns of a
// MasterKernel and says which tasks have run. A TaskSystem (cupola/task.h) or TaskEngine creates a
// table over memory that both sides see and owns that memory; the table makes no CUDA call. Any
// number of threads may use a table at once, except where a function says otherwise; nothing here
// waits for the device.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "device/runtime/task_record.h"

namespace cupola::runtime {

/// Names a task that was put into a table.
struct TaskId {
  uint32_t column;
  uint32_t table = 0;  ///< TaskTable::number
  /// 1 + the task's position in its column; the device sees only the lower 32 bits. 0: no task.
  uint64_t sequence = 0;
};

/// A task as a caller puts it in: its header, and its arguments behind that.
union TaskWords {
  TaskHeader header;
  uint32_t words[kRecordWords + 1];  ///< the last word is padding: read with others, never written
};

/// The columns of one MasterKernel and what the host knows of them.
class TaskTable {
 public:
  /// Memory that host and device share, all zero at first. It must outlive the table.
  struct Memory {
    TaskColumn* columns;   ///< column_count of them, one more with has_solo_column
    const uint32_t* done;  ///< kTaskRows words of each column
    HostControl* control;
    uint32_t column_count;  ///< number of columns that MTBs pull from
    /// There is one more column, behind the others, which no MTB pulls from. Its tasks are launches
    /// of their own (solo tasks), one behind the other.
    bool has_solo_column = false;
  };

  explicit TaskTable(const Memory& memory) : TaskTable(memory, 0) {}

  /// Puts a task in whose header says after 0. Returns false where there is no room now; in that
  /// case the call also wakes more columns.
  bool TryPut(const TaskWords& words, TaskId* id);

  /// Puts a task into a column, and wakes the column. The task starts only when the task of that
  /// column with the sequence `after` has ended (0: it waits for none), and sees what that one
  /// wrote. Sets header.after. Returns false where there is no room now, or while another thread
  /// puts a task in there.
  bool TryPutIn(uint32_t column, uint64_t after, TaskWords* words, TaskId* id);

  /// Call this when a task will soon be put into a column: prefetches the line of the column's
  /// tail, for writing. The device reads that line, so it is not in this processor's cache.
  void Prefetch(uint32_t column) const;

  /// Puts a task that is to be a launch of its own into the solo column; sets header.after to 0.
  /// Returns false while the column is full of tasks that have not run. Only one thread at a time
  /// may call this.
  bool TryPutSolo(TaskWords* words, TaskId* id);

  /// Whether a task is a launch of its own.
  bool IsSolo(const TaskId& id) const { return id.column == memory_.column_count; }

  /// Whether the last task of each column has run, not counting the solo column. If so, no record
  /// was left behind by a MasterKernel that has left because it was asked to or was idle.
  bool LastHaveRun() const;

  /// Writes the record of a task that was just put in, as the device reads it: MasterParams::first.
  static void Copy(const TaskWords& words, const TaskId& id, TaskChunk* chunks);

  /// Whether this table gave that id to a task.
  bool Knows(const TaskId& id) const;

  /// Whether a task has run. If so, all that it wrote can be seen.
  bool IsDone(const TaskId& id) const;

  /// Position behind the last task that was put into a column. May be stale.
  uint64_t Tail(uint32_t column) const {
    return columns_[column].tail.load(std::memory_order_relaxed);
  }
  /// Whether all tasks of a column before the position `tail` have run. Looks only at tasks of which no earlier
  /// call has seen that they have run.
  bool HaveRun(uint32_t column, uint64_t tail) const;
  /// Sequence of the first task of a column that has not run; 0: all have run.
  uint64_t OldestLeft(uint32_t column) const;
  /// TaskHeader::body of a task, which must not have run.
  uint16_t BodyOf(const TaskId& id) const;
  /// Columns with this number and above never had a task. Most programs use a few of hundreds of columns.
  uint32_t columns_used() const { return columns_used_.load(std::memory_order_relaxed); }
  /// Number of columns, including the solo column.
  uint32_t columns() const { return memory_.column_count + (memory_.has_solo_column ? 1 : 0); }
  /// Number of this table in the process; never 0.
  uint32_t number() const { return number_; }

  /// Makes the device pull from the columns up to this one. A thread that waits for a task calls
  /// it, since columns may have been put to sleep while it put the task in. Does nothing for the
  /// solo column, which nobody pulls from.
  void WakeColumn(uint32_t column);

  /// Puts all columns but the first to sleep, so that a single task is pulled sooner. Call it when
  /// all tasks have run.
  void LetColumnsSleep();

  /// Number of columns that the device pulls from.
  uint32_t awake() const { return awake_.load(std::memory_order_relaxed); }

 protected:
  /// A table whose columns have already had `first` tasks each, a multiple of kTaskRows. `columns`
  /// and `done` hold what those tasks left there.
  TaskTable(const Memory& memory, uint64_t first);

 private:
  /// The host's state of a column. The thread that holds `taken` owns it.
  struct alignas(64) Column {
    std::atomic<bool> taken{false};
    std::atomic<uint64_t> tail{0};  ///< position of the next task; any thread may read it
    uint64_t limit = 0;             ///< rows are known to be free for positions before this
    /// All tasks before this position have run, as FirstLeft has seen. It is stored with release behind the
    /// acquiring reads of `done` that show it, so a thread that reads it sees what these tasks wrote. Two threads
    /// that store it at once may set it back, which only costs the next thread some looks.
    std::atomic<uint64_t> run{0};
  };

  bool HasRoom(uint32_t number, Column& column) const;
  void Write(uint32_t number, Column& column, const TaskWords& words, TaskId* id);
  bool TryPutNext(uint32_t number, const TaskWords& words, TaskId* id, bool* is_loaded);
  void WakeMore(uint32_t awake);
  bool FindRoom(uint32_t number, Column& column) const;
  void TellAwake();
  void NoteUsed(uint32_t column);
  uint32_t Done(uint32_t column, uint32_t row) const;
  /// Position of the first task of a column that has not run, among those before `tail`; `tail`: all have run.
  uint64_t FirstLeft(uint32_t column, uint64_t tail) const;

  Memory memory_;
  const uint32_t number_;
  std::unique_ptr<Column[]> columns_;
  std::atomic<uint32_t> awake_{1};
  std::atomic<uint32_t> columns_used_{0};
};

/// Waits, without blocking, for all tasks that are in a table when the object is made. Tasks that
/// other threads put in later do not hold it up. One thread uses an object; the table must outlive
/// it.
class TasksBefore {
 public:
  explicit TasksBefore(const TaskTable& table) : table_(table), end_(table.columns_used()) { LookAt(0); }

  /// Whether all of them have run. The caller asks again and again.
  bool HaveRun();
  /// The column in which a task has not run; the number of columns if there is none.
  uint32_t column() const { return column_; }

 private:
  // A column's tail is read when the column is reached, so the wait may include some later tasks.
  void LookAt(uint32_t column) {
    column_ = column < end_ ? column : table_.columns();
    if (column < end_) tail_ = table_.Tail(column);
  }

  const TaskTable& table_;
  const uint32_t end_;  ///< columns from this one on had no task when the object was made
  uint32_t column_ = 0;
  uint64_t tail_ = 0;
};

}  // namespace cupola::runtime
