// What the host and a MasterKernel share about narrow tasks: the record of a task, the column of
// records that one MTB pulls from, and the words by which both sides say what they are doing. Plain
// layouts of fixed size, for host and device code alike. Pagoda, section 4.2; docs/narrow-tasks.md.
//
// Words
//   MTB        a block of the MasterKernel: a scheduler warp and executor warps
//   column     the records that one MTB pulls, a ring of kTaskRows in host memory
//   position   the how-many-eth task of a column it is; it lies in row position % kTaskRows
//   sequence   position + 1: what a record carries that is complete, and `done` once it has run
//
// Rules
//   - A record is chunks of 16 bytes, each written and read at once, each with the sequence. It is
//     complete when all of them carry the sequence that is due; no order between them is needed.
//   - The host writes a row when `done` of it says that the task before it there has run.
//   - `done` is written behind everything that the task wrote (fence.sys), by the warp of it that
//     ended last.
//   - Tasks of a column start in any order but where TaskHeader::after says another.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cupola::runtime {

inline constexpr uint32_t kTaskRows = 64;
inline constexpr uint32_t kChunkWords = 3;
inline constexpr uint32_t kRecordChunks = 16;
/// Of a record that are read together with other records', and all that most have.
inline constexpr uint32_t kNearChunks = 8;
inline constexpr uint32_t kRecordWords = kChunkWords * kRecordChunks;

/// Threads of a block wait for each other; and the body itself says when one has ended, before it
/// returns.
inline constexpr uint8_t kMeets = 1, kMeetsAndLeaves = 2;

/// Words 0 to 3 of a record; the arguments are behind them, each at a multiple of its alignment, which
/// is kTaskArgumentAlign at most: wherever a record is read from, it is aligned to that.
struct TaskHeader {
  uint16_t body;     ///< which of the functions of the MasterKernel
  uint8_t chunks;    ///< of the record that are in use
  uint8_t barrier;   ///< 0, kMeets or kMeetsAndLeaves
  uint16_t threads;  ///< of a block
  /// It starts only when the task so many positions before it in its column has ended; 0: no such
  /// one. Tasks kTaskRows and more before it have ended.
  uint16_t after;
  uint32_t blocks;
  uint32_t shared_bytes;  ///< of a block
};
static_assert(sizeof(TaskHeader) == 16);

inline constexpr uint32_t kTaskArgumentBytes = 4 * kRecordWords - sizeof(TaskHeader);
inline constexpr uint32_t kTaskArgumentAlign = 16;
static_assert(sizeof(TaskHeader) % kTaskArgumentAlign == 0 &&
              4 * kRecordWords % kTaskArgumentAlign == 0);

/// Executor warps of an MTB, at most: a block has 32 warps, one of them schedules.
inline constexpr uint32_t kMostExecutors = 31;

/// Threads of an MTB whose threads have so many registers: two such blocks are on an SM where 32 do,
/// else one.
constexpr uint32_t MtbThreads(uint32_t registers) { return registers > 64 ? 512 : 1024; }
constexpr uint32_t MtbsOfAnSm(uint32_t registers) { return registers > 32 ? 1 : 2; }
/// The warps of that which run tasks: no block of a task has more.
constexpr uint32_t MtbExecutors(uint32_t registers) { return MtbThreads(registers) / 32 - 1; }
static_assert(MtbExecutors(32) == kMostExecutors);

/// Blocks of a task, at most.
inline constexpr uint32_t kMostTaskBlocks = 1 << 20;

/// Parts that the shared memory of an MTB is given out in.
inline constexpr uint32_t kArenaUnits = 64;

struct alignas(16) TaskChunk {
  uint32_t words[kChunkWords];
  uint32_t sequence;
};

struct alignas(256) TaskRecord {
  TaskChunk chunks[kRecordChunks];
};
static_assert(sizeof(TaskRecord) == 256);

struct TaskColumn {
  TaskRecord rows[kTaskRows];
  /// Position behind the last record, written behind it. What the device looks at while tasks come:
  /// a line that the device reads costs the host some 30 ns when it writes there next.
  alignas(128) uint32_t tail;
};

/// What the host tells the MasterKernel; host memory, read by one MTB only, and by those that begin when
/// all are to leave.
struct alignas(64) HostControl {
  uint32_t awake;  ///< columns below this are pulled from
  uint32_t leave;  ///< epoch of the MasterKernel that is to leave, when all has run
  /// Epoch of the newest one where it is to leave as soon as the blocks that run have ended, and
  /// the one before it too, which may be leaving still; 0: none.
  uint32_t hurry;
};

/// Between the epochs of those two, at most: no epoch is 0.
inline constexpr uint32_t kMostEpochsBehind = 2;

/// What the MasterKernel tells the host; host memory.
struct alignas(64) MasterState {
  uint32_t running;  ///< epoch of the MasterKernel that takes tasks; 0: none does
};

/// What MTBs share; device memory, zero when made.
struct alignas(64) DeviceControl {
  uint32_t awake;  ///< HostControl::awake, as last read
  uint32_t leave;  ///< epoch that is to leave
  uint32_t busy;   ///< columns that have something to do, and once more each that leaves
  uint32_t hurry;  ///< epoch that is in a hurry
};

inline constexpr uint32_t kNoColumn = ~0u;

/// Parameters of a MasterKernel, which is launched with a block for each column.
struct MasterParams {
  const TaskColumn* columns;  ///< host memory
  uint32_t* done;             ///< host memory: kTaskRows sequences for each column
  const HostControl* host;
  MasterState* state;
  DeviceControl* device;
  uint32_t* heads;      ///< device memory: the next position of each column
  /// Device memory, kTaskRows words for each column, zero when made: of a task that one in a hurry has
  /// left to the next, 1 + how far it had begun (mtb.cuh, BegunTo).
  uint32_t* kept;
  uint32_t epoch;       ///< of this launch; never 0
  uint32_t idle_ns;     ///< nothing to do for so long, and it leaves
  uint32_t unit_bytes;  ///< of the arena; its dynamic shared memory is kArenaUnits of these
  /// A record that was put in before the launch, and its column (kNoColumn: none is given): if it
  /// is the next one there, it need not be read from host memory. Where another launch has taken
  /// it, or others come before it, it says nothing.
  uint32_t first_column = kNoColumn;
  TaskChunk first[kRecordChunks] = {};
};

/// Parameters of a launch that is one task (solo_task.cuh): a block for each of the task's, each with a
/// warp more.
struct SoloParams {
  TaskChunk record[kRecordChunks];
  uint32_t* done;          ///< host memory: gets the record's sequence when the task has run
  uint32_t* blocks_ended;  ///< device memory, 0 before and behind each launch
};

}  // namespace cupola::runtime
