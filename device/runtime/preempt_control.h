// The words that host and device share about a preemptible launch: the last parameter of a
// `preemptible` variant, the control slot from which its workers claim blocks, and what the workers
// tell the host. Plain layouts of fixed size, for host code, for passes that write PTX against the
// offsets, and for device code. FLEP section 4.1; docs/preemption.md.
//
// Words of one launch
//   launch            one <<<>>> of the program: `total_blocks` logical blocks, with a control slot
//                     of its own
//   physical launch   one launch of the variant that works on it: the program's own (index 0), or a
//                     resume by the agent. Up to kPhysicalLaunches of them may run at a time
//   worker            one block of a physical launch; it claims and runs logical blocks. Its thread
//                     0, the leader, claims for all threads of the worker
//   claim             the blocks that a worker takes by one addition to ControlSlot::next
//   range             a part of a claim, of consecutive blocks, that the worker runs without deciding
//                     anything between them
//   stop, yield line  other processes ask a process to leave by its yield line, in host memory. Few
//                     workers read that line (a poll). One that finds a request writes it into the
//                     word `stop` of the physical launch, which all its workers read
//   guard             cuStreamWaitValue32(stream, slot.done, sequence, GEQ) behind the launch
//
// Rules
//   - Nothing is ever zeroed. Counters only grow, modulo 2^32. A launch knows the values that they
//     had when it got the slot (PreemptParams::base_*). The host gives a slot to a new launch only
//     after every physical launch of the old one has ended (HostStatus::ended), so no worker ever
//     claims for a launch that is not its own.
//   - A worker that leaves publishes its blocks (fence.sys), then adds their number to `completed`.
//     The worker that brings `completed` to base_completed + total_blocks writes `done`, with
//     release: first the device's word, then the host's.
//   - After that the worker counts itself in `exits` (atom.inc, which wraps by itself). The last
//     worker of a physical launch tells the host: next_final, then ended, with release.
//   - The host resumes a launch while it is not done, nobody asks the process to yield, and at least
//     one physical launch of it has ended or yielded SMs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cupola::runtime {

/// The most physical launches of one launch that may be under way at a time. The last place is kept
/// for a physical launch that nobody asks to leave: all others may have been asked, and may hold
/// blocks that wait for blocks behind them.
inline constexpr uint32_t kPhysicalLaunches = 5;
inline constexpr uint32_t kAskedPhysicalLaunches = kPhysicalLaunches - 1;

/// The number of ranges of claimed, unstarted blocks that a list can hold. It is at least the number
/// of workers that an SM-filling launch may have (132 SMs of 32 blocks on an H200).
inline constexpr uint32_t kReturnedRanges = 8192;

/// What the workers of one physical launch share. Device memory.
struct PhysicalControl {
  uint32_t stop;        ///< tag << 16 | bound: workers of this tag on SMs with %smid < bound leave
  uint32_t poll_at_ns;  ///< %globaltimer_lo from which one worker may read the yield line again
                        ///< (poll). A poll is not due while this lies at most poll_reach_ns ahead
                        ///< (SetPolls). It shares 8 bytes with `stop`, so that workers look at both
                        ///< with one load between ranges
  uint32_t exits;       ///< number of workers that have left; the last one wraps it to 0
  uint32_t reserved;
};
static_assert(sizeof(PhysicalControl) == 16);

/// What all workers of one launch share. Device memory, zero when allocated.
struct alignas(128) ControlSlot {
  uint32_t next;       ///< blocks claimed so far by all launches: logical block = claimed - base_next
  uint32_t completed;  ///< blocks run to their end so far; a worker counts its blocks when it leaves
  uint32_t done;       ///< the guard's word: sequence of the last launch that is complete
  uint32_t yielded;    ///< workers so far that left because of a stop for some SMs only, that is, with
                       ///< a bound other than kAllSms
  PhysicalControl physical[kPhysicalLaunches];
  uint32_t reserved1[8];
};
static_assert(sizeof(ControlSlot) == 128 && offsetof(ControlSlot, physical) == 16);

/// Blocks that workers had claimed and handed back unstarted when they were asked to leave. Each
/// control slot has one list. It is empty between launches. Device memory, zero when allocated.
/// Worker w puts its range into place w, or the next free one; a worker of a resume begins with what
/// lies in its own place.
struct alignas(128) ReturnedList {
  uint32_t count;  ///< ranges in the list: +1 after a range was put, -1 after one was taken
  uint32_t high;   ///< places from this one on were never used, by any launch of the slot
  uint32_t reserved[30];
  uint64_t ranges[kReturnedRanges];  ///< count << 32 | first block; 0: empty. A worker puts a range
                                     ///< by compare-and-swap and takes it by exchange
};

/// What the device tells the host about a launch. Mapped host memory, one 64-byte line for each
/// slot. Only the device writes it, with release.sys.
struct alignas(64) HostStatus {
  uint32_t done;                      ///< sequence of the last launch that is complete
  uint32_t yielded;                   ///< ControlSlot::yielded, which says that SMs were yielded. It
                                      ///< lags only until the workers that left have reported
  uint32_t ended[kPhysicalLaunches];  ///< tag of the last physical launch with this index that has
                                      ///< ended
  uint32_t next_final[kPhysicalLaunches];  ///< ControlSlot::next when that one ended
  uint32_t passed;                         ///< number of the last gate before a physical launch that
                                           ///< its stream has passed; the stream writes it
  uint32_t reserved[3];
};
static_assert(sizeof(HostStatus) == 64);

/// What other processes ask of a process: one line in the shared memory of its GPU's board, mapped
/// into the device. Host processes write it with plain and atomic stores; one worker at a time reads
/// it.
struct alignas(16) YieldLine {
  uint64_t requests;  ///< one bit for each board slot that asks; 0: nobody asks
  uint32_t sm_bound;  ///< workers on SMs below it leave (FLEP's spa_P); kAllSms: all leave
  uint32_t reserved;
};
static_assert(sizeof(YieldLine) == 16);
inline constexpr uint32_t kAllSms = 0xFFFF;

/// One worker in this many takes part in polls. If all workers tried at once, the device would do
/// their accesses one after the other (a compare-and-swap of one word by 1,056 workers takes an H200
/// some 40 us).
inline constexpr uint32_t kWorkersPerPoller = 32;
static_assert((kWorkersPerPoller & (kWorkersPerPoller - 1)) == 0);

/// Flags of PreemptParams.
enum PreemptFlag : uint32_t {
  kRunWhatIsClaimed = 1,  ///< blocks may wait on earlier ones: never hand claimed blocks back
  kHasWatcher = 2,  ///< worker 0 only reads the yield line, as long as blocks are unclaimed; only for
                    ///< physical launches of two or more workers
};

/// The last parameter of a `preemptible` variant, `.param .align 8 .b8 cupola_launch[112]`.
struct PreemptParams {
  uint64_t slot;            ///< device address of the ControlSlot
  uint64_t returned;        ///< device address of the slot's ReturnedList
  uint64_t status;          ///< device address of the HostStatus
  uint64_t yield_line;      ///< device address of the YieldLine; 0: nobody asks
  uint32_t grid[3];         ///< the program's grid, in blocks: x, y, z
  uint32_t total_blocks;    ///< product of `grid`; at most 2^31
  uint32_t base_next;       ///< slot.next when the launch got the slot
  uint32_t base_completed;  ///< slot.completed at that time
  uint32_t sequence;        ///< value of `done` once the launch is complete
  uint32_t batch;           ///< L: blocks that one claim takes, >= 1 (FLEP 4.1, amortizing factor)
  uint32_t physical;        ///< index in ControlSlot::physical
  uint32_t tag;             ///< of this physical launch, 1..0xFFFF; differs from all recent ones
  uint32_t workers;         ///< number of blocks of this physical launch
  uint32_t poll_period_ns;  ///< least time between two reads of the yield line, and between a worker's
                            ///< reads of `stop`; so workers know of a stop at most this much later, when
                            ///< their range ends
  uint32_t flags;           ///< PreemptFlag
  uint32_t look_after_ns;   ///< a worker looks at `stop` between ranges; a range of several blocks grows
                            ///< until it takes between this long and twice this long
  uint32_t stride;          ///< ClaimShape::stride
  uint32_t full_until;      ///< ClaimShape::full_until
  uint32_t fresh_after_ns;  ///< after a range of one block (or of one steady claim, SetSteady) that took
                            ///< at least this long, a worker waits for a fresh read of `stop`; after
                            ///< others it uses the value that it asked for as the range began
  uint32_t steady_until;    ///< SetSteady: only claims that end below this position may be steady; 0: none
  uint32_t steady_span_ns;  ///< SetSteady: a claim may be steady only behind a range that took between
                            ///< fresh_after_ns and fresh_after_ns + steady_span_ns
  uint32_t poll_reach_ns;   ///< SetPolls: a poll_at_ns that lies further ahead than this counts as due
};
static_assert(sizeof(PreemptParams) == 112);

/// Which blocks a claim stands for. Claims number the blocks of a launch 0, 1, 2... A claim takes
/// `batch` of these numbers while the counter is below full_until, and one number from there on, so
/// that workers end together. Number n is block n, except below full_until, where claims that follow
/// each other interleave: the k-th of `stride` claims stands for blocks first + k,
/// first + k + stride, first + k + 2 stride... So the workers, of which there are `stride`, are at
/// neighbouring blocks at any time, as the blocks of the program's grid would be: they share caches
/// and open pages of the memory.
struct ClaimShape {
  uint32_t batch = 1;       ///< numbers that a claim below full_until takes
  uint32_t stride = 1;      ///< 1: blocks are claimed in the order of their numbers
  uint32_t full_until = 0;  ///< a multiple of batch * stride
};

/// Chooses the shape of the claims of a launch with `workers` workers. All its physical launches have
/// the same shape, since their claims are numbered together. `batch`: L, the most blocks of a claim.
/// `interleaves` may be true only where the grid has one dimension; in other grids a worker goes from
/// a block to the next by counting x, y and z up.
constexpr ClaimShape ShapeClaims(uint32_t total_blocks, uint32_t workers, uint32_t batch,
                                 bool interleaves) {
  // A worker decides on its next claim while it runs the last one, so all workers may take one batch
  // more than their share. Single blocks behind full_until even out the difference.
  constexpr uint32_t kLastRounds = 3;
  workers = workers == 0 ? 1 : workers;
  const uint32_t rounds = total_blocks / workers;
  const uint32_t most = rounds / (2 * kLastRounds);
  ClaimShape shape;
  shape.batch = batch < most ? batch : most;
  if (shape.batch <= 1) return {};
  shape.stride = interleaves ? workers : 1;
  const uint32_t chunk = shape.batch * workers;  // at most total_blocks / 6
  shape.full_until = (total_blocks / chunk - kLastRounds) * chunk;
  return shape;
}

/// Sets how often workers read the yield line. A worker reads the time before it reads poll_at_ns,
/// the time at which the next poll is due. Others may meanwhile move poll_at_ns further ahead than
/// one period. If the worker took that for overdue, it would move poll_at_ns back, and many workers
/// would read host memory, which takes each some 2 us. So a worker believes a time up to 16 periods
/// ahead; a time left by an earlier launch hardly ever lies there. When the poll is overdue by that
/// much, every worker may poll.
constexpr void SetPolls(PreemptParams& params, uint32_t period_ns) {
  constexpr uint32_t kReach = 16;
  params.poll_period_ns = period_ns;
  params.poll_reach_ns = period_ns * kReach;
}

/// Decides which claims may be *steady*. A worker runs a steady claim as one range, directly behind the
/// range before it, and makes fewer decisions for that than for other claims (docs/passes.md,
/// "The worker"). A steady claim has a few blocks, which are neighbours in a grid of one dimension, and
/// follows a range that took about as long as ranges are to take. Call this when all other members of
/// `params` are set.
constexpr void SetSteady(PreemptParams& params) {
  constexpr uint32_t kMostBlocks = 4;  // a worker looks for a stop behind each such range
  const bool in_a_row = params.grid[1] == 1 && params.grid[2] == 1 && params.stride == 1;
  const bool may_hand_back = (params.flags & kRunWhatIsClaimed) == 0;
  const uint64_t most_ns = params.batch == 1 ? UINT32_MAX : uint64_t{params.look_after_ns} * 2;
  params.steady_until = params.steady_span_ns = 0;
  if (!in_a_row || !may_hand_back || params.batch > kMostBlocks || most_ns <= params.fresh_after_ns) {
    return;
  }
  params.steady_until = params.batch == 1 ? params.total_blocks + 1 : params.full_until;
  const uint64_t span_ns = most_ns - params.fresh_after_ns;
  params.steady_span_ns = static_cast<uint32_t>(params.batch == 1 ? span_ns : span_ns - 1);
}

/// The last parameter of a `sliced` variant, `.param .align 8 .b8 cupola_launch[16]`. A slice is a
/// 1-D grid of consecutive blocks that begins at first_block.
struct SliceParams {
  uint32_t grid[3];      ///< the program's grid, in blocks
  uint32_t first_block;  ///< linear index of the slice's block 0: x fastest
};
static_assert(sizeof(SliceParams) == 16);

}  // namespace cupola::runtime
