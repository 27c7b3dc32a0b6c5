// The host's side of the TaskTable (Pagoda, section 4.2): puts task records into the columns of a
// MasterKernel and tells which have run. Knows nothing of CUDA: memory that both sides see is given
// to it. Any number of threads may use a table at once; nothing here waits for the device.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "device/runtime/task_record.h"

namespace cupola::runtime {

/// A task that was put into a table.
struct TaskId {
  uint32_t column;
  uint32_t table = 0;     ///< TaskTable::number
  uint64_t sequence = 0;  ///< 1 + its position; what the device sees is its lower half. 0: no task
};

/// A task as it is put in: its header and arguments, one behind the other.
union TaskWords {
  TaskHeader header;
  uint32_t words[kRecordWords + 1];  ///< the last one is read with others, and left out
};

class TaskTable {
 public:
  /// Memory that host and device share, all zero, and how many columns there are.
  struct Memory {
    TaskColumn* columns;
    const uint32_t* done;  ///< kTaskRows of each column
    HostControl* control;
    uint32_t column_count;
    /// There is one column more, behind the others, which no MTB pulls from: its tasks are
    /// launched, one behind the other.
    bool has_solo_column = false;
  };

  explicit TaskTable(const Memory& memory) : TaskTable(memory, 0) {}

  /// Puts a task in, whose header says after 0. False: there is no room now; more columns are woken
  /// then.
  bool TryPut(const TaskWords& words, TaskId* id);

  /// Puts a task into a column, which is woken; the task starts only when the one of that column
  /// that has the sequence `after` has ended (0: none), and sees what it wrote. Sets header.after.
  /// False: there is no room now, or another thread puts one in there.
  bool TryPutIn(uint32_t column, uint64_t after, TaskWords* words, TaskId* id);

  /// A task will be put into a column: what is written then is asked for. The device looks at the
  /// column's tail, which is elsewhere therefore.
  void Prefetch(uint32_t column) const;

  /// Puts a task that is to be launched by itself into the column for these; sets header.after to
  /// 0. False: as many as a column holds have not run. One thread at a time.
  bool TryPutSolo(TaskWords* words, TaskId* id);

  /// Whether a task is launched by itself.
  bool IsSolo(const TaskId& id) const { return id.column == memory_.column_count; }

  /// Whether the last task of each column has run, the solo one apart: no record was left behind by
  /// a MasterKernel that has left when it was asked, or idle.
  bool LastHaveRun() const;

  /// The record of a task that was just put in, as the device reads it: MasterParams::first.
  static void Copy(const TaskWords& words, const TaskId& id, TaskChunk* chunks);

  /// Whether this table gave that id.
  bool Knows(const TaskId& id) const;

  /// Whether a task has run and all that it wrote can be seen.
  bool IsDone(const TaskId& id) const;

  /// Position behind the last task that was put into a column.
  uint64_t Tail(uint32_t column) const {
    return columns_[column].tail.load(std::memory_order_relaxed);
  }
  /// Whether all tasks of a column before that position have run. Looks only at those that are not known to
  /// have run by an earlier call.
  bool HaveRun(uint32_t column, uint64_t tail) const;
  /// Sequence of the first task of a column that has not run; 0: all have.
  uint64_t OldestLeft(uint32_t column) const;
  /// TaskHeader::body of a task that has not run.
  uint16_t BodyOf(const TaskId& id) const;
  /// No task was ever put into a column from this one on. Most programs use a few of hundreds.
  uint32_t columns_used() const { return columns_used_.load(std::memory_order_relaxed); }
  /// The solo one too.
  uint32_t columns() const { return memory_.column_count + (memory_.has_solo_column ? 1 : 0); }
  /// Of this table in the process, never 0.
  uint32_t number() const { return number_; }

  /// Has columns up to this one pulled from: who waits for a task calls it, since columns may have
  /// been put to sleep as it was put in. Of the solo one nothing: nobody pulls from it.
  void WakeColumn(uint32_t column);

  /// When all tasks have run: lets all columns but the first sleep again, so that a single task is
  /// pulled sooner.
  void LetColumnsSleep();

  uint32_t awake() const { return awake_.load(std::memory_order_relaxed); }

 protected:
  /// Whose columns have had `first` tasks each, a multiple of kTaskRows: what these have left in
  /// `columns` and `done` is there.
  TaskTable(const Memory& memory, uint64_t first);

 private:
  /// A column as the host sees it, by whoever holds `taken`.
  struct alignas(64) Column {
    std::atomic<bool> taken{false};
    std::atomic<uint64_t> tail{0};  ///< position of the next task; others read it too
    uint64_t limit = 0;             ///< positions before this are known to have a free row
    /// All tasks before this position have run, as HaveRun has seen. Stored with release behind the acquiring
    /// reads of `done` that show it, so that who reads it sees what these tasks wrote. Two threads that
    /// store it at once may set it back, which costs the next one some looks.
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
  /// Position of the first task of a column, before `tail`, that has not run; `tail`: all have.
  uint64_t FirstLeft(uint32_t column, uint64_t tail) const;

  Memory memory_;
  const uint32_t number_;
  std::unique_ptr<Column[]> columns_;
  std::atomic<uint32_t> awake_{1};
  std::atomic<uint32_t> columns_used_{0};
};

/// All that is in a table when it is made, for who waits for that: tasks that others put in later
/// do not hold it up.
class TasksBefore {
 public:
  explicit TasksBefore(const TaskTable& table) : table_(table), end_(table.columns_used()) { LookAt(0); }

  /// Asked again and again.
  bool HaveRun();
  /// In which a task has not run; the number of columns: there is none.
  uint32_t column() const { return column_; }

 private:
  // Of columns that are looked at later some tasks are waited for that came meanwhile.
  void LookAt(uint32_t column) {
    column_ = column < end_ ? column : table_.columns();
    if (column < end_) tail_ = table_.Tail(column);
  }

  const TaskTable& table_;
  const uint32_t end_;  ///< columns from here on had no task then
  uint32_t column_ = 0;
  uint64_t tail_ = 0;
};

}  // namespace cupola::runtime
