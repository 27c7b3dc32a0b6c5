// What the host and a MasterKernel share about narrow tasks: the record of a task, the column of
// records that one MTB pulls from, and the words by which both sides say what they do. Plain layouts
// of fixed size, for host and device code alike. TaskTable (task_table.h) writes the records on the
// host; the MTBs (mtb.cuh) read them on the device. Pagoda, section 4.2; docs/masterkernel.md.
//
// Words
//   MTB        a block of the MasterKernel: a scheduler warp and executor warps
//   column     the records that one MTB pulls, a ring of kTaskRows rows in host memory
//   position   the index of a task in its column, from 0; its record lies in row
//              position % kTaskRows
//   sequence   position + 1: a complete record carries it, and `done` gets it when the task has run
//
// Rules
//   - A record consists of chunks of 16 bytes. Each chunk is written and read in one access and
//     carries the sequence. The record is complete when all its chunks carry the sequence that is
//     due; no order between the chunks is needed.
//   - The host writes a row only when `done` of the row says that the task before it there has run.
//   - The warp of a task that ends last writes `done`, behind everything that the task wrote
//     (release at the scope of the system).
//   - Tasks of a column start in any order, except where TaskHeader::after requires one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cupola::runtime {

inline constexpr uint32_t kTaskRows = 64;      ///< rows of a column
inline constexpr uint32_t kChunkWords = 3;     ///< words of a chunk, besides its sequence
inline constexpr uint32_t kRecordChunks = 16;  ///< the most chunks of a record
/// The first chunks of a record, which the device reads together with those of other records. Most
/// records have no more chunks.
inline constexpr uint32_t kNearChunks = 8;
inline constexpr uint32_t kRecordWords = kChunkWords * kRecordChunks;

/// Values of TaskHeader::barrier. kMeets: the threads of a block wait for each other at barriers.
/// kMeetsAndLeaves: they do, and the body itself says when a thread has ended, before it returns.
inline constexpr uint8_t kMeets = 1, kMeetsAndLeaves = 2;

/// Words 0 to 3 of a record. The arguments follow, each at a multiple of its alignment, which is at
/// most kTaskArgumentAlign: whoever reads a record has it aligned to that.
struct TaskHeader {
  uint16_t body;     ///< number of the MasterKernel's function that the task runs
  uint8_t chunks;    ///< number of the record's chunks that are in use
  uint8_t barrier;   ///< 0, kMeets or kMeetsAndLeaves
  uint16_t threads;  ///< number of threads of a block
  /// The task starts only when the task this many positions before it in its column has ended.
  /// 0: it waits for none. Tasks kTaskRows and more positions before it have ended anyway.
  uint16_t after;
  uint32_t blocks;        ///< number of blocks of the task
  uint32_t shared_bytes;  ///< shared memory of a block, in bytes
};
static_assert(sizeof(TaskHeader) == 16);

inline constexpr uint32_t kTaskArgumentBytes = 4 * kRecordWords - sizeof(TaskHeader);
inline constexpr uint32_t kTaskArgumentAlign = 16;  ///< in bytes
static_assert(sizeof(TaskHeader) % kTaskArgumentAlign == 0 &&
              4 * kRecordWords % kTaskArgumentAlign == 0);

/// The most executor warps of an MTB: a block has at most 32 warps, and one of them schedules.
inline constexpr uint32_t kMostExecutors = 31;

/// Number of threads of an MTB whose threads have `registers` registers each.
constexpr uint32_t MtbThreads(uint32_t registers) { return registers > 64 ? 512 : 1024; }
/// Number of MTBs on an SM: two where a thread has 32 registers or fewer, else one.
constexpr uint32_t MtbsOfAnSm(uint32_t registers) { return registers > 32 ? 1 : 2; }
/// Number of an MTB's warps that run tasks. No block of a task has more warps.
constexpr uint32_t MtbExecutors(uint32_t registers) { return MtbThreads(registers) / 32 - 1; }
static_assert(MtbExecutors(32) == kMostExecutors);

/// The most blocks of a task.
inline constexpr uint32_t kMostTaskBlocks = 1 << 20;

/// Number of units into which the arena, the shared memory of an MTB for tasks, is divided.
inline constexpr uint32_t kArenaUnits = 64;

/// A part of a record, which is written and read in one access of 16 bytes.
struct alignas(16) TaskChunk {
  uint32_t words[kChunkWords];
  uint32_t sequence;
};

struct alignas(256) TaskRecord {
  TaskChunk chunks[kRecordChunks];
};
static_assert(sizeof(TaskRecord) == 256);

/// A column of the TaskTable, in host memory. The host writes it, and one MTB reads it.
struct TaskColumn {
  TaskRecord rows[kTaskRows];
  /// Position behind the last record. The host writes it after that record. While tasks come the
  /// device looks only at this word, which has a line to itself: after the device has read a line,
  /// the host's next write there costs some 30 ns.
  alignas(128) uint32_t tail;
};

/// What the host tells the MasterKernel, in host memory. Only the MTB of column 0 reads it, and MTBs
/// that begin when the MasterKernel is already leaving. An epoch is the number of a launch of the
/// MasterKernel (MasterParams::epoch).
struct alignas(64) HostControl {
  uint32_t awake;  ///< the MTBs pull from columns with numbers below this
  uint32_t leave;  ///< epoch of the MasterKernel that is to leave when all tasks have run
  /// Epoch of the newest MasterKernel, where it is to leave in a hurry: as soon as the blocks that
  /// run have ended. The request also holds for the MasterKernel before it, which may still be
  /// leaving. 0: no such request.
  uint32_t hurry;
};

/// The largest distance between the epochs of these two MasterKernels: an epoch is never 0.
inline constexpr uint32_t kMostEpochsBehind = 2;

/// What the MasterKernel tells the host, in host memory.
struct alignas(64) MasterState {
  uint32_t running;  ///< epoch of the MasterKernel that takes tasks; 0: none takes any
};

/// What the MTBs of a MasterKernel share, in device memory that is zero when it is allocated.
struct alignas(64) DeviceControl {
  uint32_t awake;  ///< HostControl::awake, as column 0 last read it
  uint32_t leave;  ///< epoch of the MasterKernel that is leaving
  uint32_t busy;   ///< number of columns with something to do, plus the number of columns that leave
  uint32_t hurry;  ///< epoch of the MasterKernel that leaves in a hurry
};

/// MasterParams::first_column: the launch comes with no record.
inline constexpr uint32_t kNoColumn = ~0u;

/// Parameters of a MasterKernel. Its grid has one block, an MTB, for each column.
struct MasterParams {
  const TaskColumn* columns;  ///< host memory
  uint32_t* done;             ///< host memory: kTaskRows sequences for each column
  const HostControl* host;    ///< host memory
  MasterState* state;         ///< host memory
  DeviceControl* device;      ///< device memory
  uint32_t* heads;            ///< device memory: the next position of each column
  /// Device memory, kTaskRows words for each column, zero when allocated. A MasterKernel that leaves
  /// in a hurry writes here, for each task that it leaves to the next one, 1 + how far the task had
  /// begun (mtb.cuh, BegunTo). 0: no task was left there.
  uint32_t* kept;
  uint32_t epoch;       ///< number of this launch; never 0
  uint32_t idle_ns;     ///< the MasterKernel leaves when it had nothing to do for so long
  uint32_t unit_bytes;  ///< bytes of an arena unit; dynamic shared memory is kArenaUnits of these
  /// Column of `first`, a record that the host put in before the launch; kNoColumn: there is none.
  /// If that record is the next one of its column, the MTB takes it from here and need not read it
  /// from host memory. The MTB ignores it where an earlier launch has taken the record, or others
  /// come before it.
  uint32_t first_column = kNoColumn;
  TaskChunk first[kRecordChunks] = {};
};

/// Parameters of a solo launch, which runs one task (solo_task.cuh). Its grid has a block for each
/// block of the task, and each of them has one warp more than the task's.
struct SoloParams {
  TaskChunk record[kRecordChunks];
  uint32_t* done;          ///< host memory: gets the record's sequence when the task has run
  uint32_t* blocks_ended;  ///< device memory; the word is 0 before and after each launch
};

}  // namespace cupola::runtime
