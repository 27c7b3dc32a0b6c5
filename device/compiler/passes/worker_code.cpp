#include "device/compiler/passes/worker_code.h"

#include <string>

#include "device/compiler/passes/snippet.h"
#include "device/compiler/passes/worker_parts.h"

namespace cupola::passes {
namespace {

// Threads run a range of blocks with the same y and z, then meet. It is one block long, but where
// blocks share nothing inside (WorkerShape::warps_run_free): there it grows to what takes
// look_after_ns to twice as long, for blocks of a microsecond or two would pay for a meeting with a
// good part of their time.
//
// Shared memory of a worker, cupola_worker:
//    0   the range that all threads run next: {x, y, z, one more than its last x; 0 = leave}
//   16   another one: the two places are used by turns, so that one barrier a range is enough
//   32   the leader's own: {current, end, blocks run, seen}
//   48   the leader's own: {blocks of the claim that is under way, %globaltimer_lo when the range
//        began, when to ask for the stop word again, whether it was asked for with this range}
//   64   1: it leaves because of a stop of some SMs only
//   72   the leader's own: {blocks that a range may have, blocks of this one}
// current: the block that begins the range, or comes next; end: of the batch; seen: the claim
// counter as last seen, which the size of the next batch follows. All three count blocks in the
// order in which they are claimed; ClaimShape says which ones they are.
//
// Held over the body by all threads: %cupola_place, the address of the place that was read last; x
// and its end, of longer ranges; and for the leader's sake what was asked for, the stop word, the
// time of the poll, the claim. Where the body needs all registers that there are
// (WorkerShape::has_few_registers) a worker makes do with one place and a second barrier, and reads
// the time of the poll when it needs it: two registers less.
//
// The leader is thread 0. Only it has anything to do between ranges; what it waits for (the stop
// word, the next claim) it asked for before the range that has just ended, so that the answers are
// there. Where a block took longer than look_after_ns, it looks at the stop word again: what it
// pays (some 0.6 us) is little beside so long a block, and it need not run another one. Short
// blocks are many: they ask for the word, which all workers read, once a poll only, for an H200
// serves one word some 600 times a microsecond and no more.
constexpr std::string_view kDeclarations = R"(
  .shared .align 32 .b8 cupola_worker[80];
  <registers>
  .reg .b32 %cupola_place, %cupola_x_end, %cupola_looked;
  .reg .b32 %cupola_limit, %cupola_blocks;
)";

// Before the first block; leader only. It reads how things stand, all at once.
constexpr std::string_view kBegin = R"(
  ld.relaxed.gpu.global.v2.u32 {%cupola_stop, %cupola_poll}, [%cupola_control];
  ld.relaxed.gpu.global.u32 %cupola_seen, [%cupola_slot+<slot_next>];
  mov.u32 %cupola_now, %globaltimer_lo;
  ld.param.u32 %cupola_t0, [cupola_launch+<base_next>];
  sub.u32 %cupola_seen, %cupola_seen, %cupola_t0;
  mov.u32 %cupola_current, 0;
  mov.u32 %cupola_end, 0;
  mov.u32 %cupola_run, 0;
  mov.u32 %cupola_count, 0;
  mov.u32 %cupola_look_at, %cupola_now;
  st.shared.u32 [cupola_worker+64], %cupola_run;
  mov.u32 %cupola_limit, 1;
  bra.uni $cupola_decide;
)";

// After a block; leader only.
constexpr std::string_view kHead = R"(
  ld.shared.v4.u32 {%cupola_current, %cupola_end, %cupola_run, %cupola_seen}, [cupola_worker+32];
  ld.shared.v4.u32 {%cupola_count, %cupola_begun, %cupola_look_at, %cupola_looked}, [cupola_worker+48];
  mov.u32 %cupola_now, %globaltimer_lo;
  <advance>
  setp.eq.u32 %cupola_p1, %cupola_looked, 0;
  @%cupola_p1 bra $cupola_go_on;
  <was_long>
  @%cupola_p1 <ask>
)";

// What the last range was.
constexpr std::string_view kAdvanceOne = R"(
  add.u32 %cupola_run, %cupola_run, 1;
  add.u32 %cupola_current, %cupola_current, 1;
)";
constexpr std::string_view kWasLongOne = R"(
  ld.param.u32 %cupola_t2, [cupola_launch+<look_after_ns>];
  sub.u32 %cupola_t1, %cupola_now, %cupola_begun;
  setp.ge.u32 %cupola_p1, %cupola_t1, %cupola_t2;
)";
constexpr std::string_view kAdvanceRange = R"(
  ld.shared.v2.u32 {%cupola_limit, %cupola_blocks}, [cupola_worker+72];
  add.u32 %cupola_run, %cupola_run, %cupola_blocks;
  add.u32 %cupola_current, %cupola_current, %cupola_blocks;
  ld.param.u32 %cupola_t2, [cupola_launch+<look_after_ns>];
  sub.u32 %cupola_t1, %cupola_now, %cupola_begun;
  setp.ge.u32 %cupola_p2, %cupola_t1, %cupola_t2;
  shr.u32 %cupola_t0, %cupola_t1, 1;
  setp.ge.u32 %cupola_p1, %cupola_t0, %cupola_t2;
  @%cupola_p1 shr.u32 %cupola_limit, %cupola_limit, 1;
  setp.eq.u32 %cupola_p1, %cupola_blocks, %cupola_limit;
  setp.lt.and.u32 %cupola_p1, %cupola_t1, %cupola_t2, %cupola_p1;
  @%cupola_p1 shl.b32 %cupola_limit, %cupola_limit, 1;
  max.u32 %cupola_limit, %cupola_limit, 1;
)";
constexpr std::string_view kWasLongRange = R"(
  setp.eq.and.u32 %cupola_p1, %cupola_blocks, 1, %cupola_p2;
)";

constexpr std::string_view kFirstPlace = R"(
  mov.u32 %cupola_place, cupola_worker;
  or.b32 %cupola_place, %cupola_place, 16;
)";

// The stop word; with it when the poll is due, or, where every register counts, for those only that
// may have to poll.
constexpr std::string_view kAsk =
    "ld.relaxed.gpu.global.v2.u32 {%cupola_stop, %cupola_poll}, [%cupola_control];";
constexpr std::string_view kAskLean = "ld.relaxed.gpu.global.u32 %cupola_stop, [%cupola_control];";
constexpr std::string_view kPollWordLean = R"(
  mov.u32 %cupola_t0, %ctaid.x;
  and.b32 %cupola_t1, %cupola_t0, <worker_is_poller_mask>;
  setp.eq.u32 %cupola_p1, %cupola_t1, 0;
  @%cupola_p1 bra $cupola_read_poll;
  shr.u32 %cupola_t1, %cupola_now, 14;
  xor.b32 %cupola_t1, %cupola_t1, %cupola_t0;
  and.b32 %cupola_t1, %cupola_t1, 15;
  setp.ne.u32 %cupola_p1, %cupola_t1, 0;
  @%cupola_p1 bra $cupola_go_on;
$cupola_read_poll:
  ld.relaxed.gpu.global.u32 %cupola_poll, [%cupola_control+<physical_poll>];
)";

// In a batch: the indices of the next block, where the range ended.
constexpr std::string_view kGoOn = R"(
$cupola_go_on:
  setp.ge.u32 %cupola_p1, %cupola_current, %cupola_end;
  @%cupola_p1 bra $cupola_claim;
  ld.shared.v4.u32 {%cupola_t1, %cupola_y, %cupola_z, %cupola_x}, [<place>];
  ld.param.u32 %cupola_t2, [cupola_launch+<full_until>];
  ld.param.u32 %cupola_t3, [cupola_launch+<stride>];
  setp.lt.u32 %cupola_p1, %cupola_current, %cupola_t2;
  sub.u32 %cupola_t3, %cupola_t3, 1;
  @%cupola_p1 add.u32 %cupola_x, %cupola_x, %cupola_t3;
  ld.param.u32 %cupola_t2, [cupola_launch+<grid_x>];
  ld.param.u32 %cupola_t3, [cupola_launch+<grid_y>];
  setp.eq.u32 %cupola_p1, %cupola_x, %cupola_t2;
  @%cupola_p1 mov.u32 %cupola_x, 0;
  @%cupola_p1 add.u32 %cupola_y, %cupola_y, 1;
  setp.eq.and.u32 %cupola_p1, %cupola_y, %cupola_t3, %cupola_p1;
  @%cupola_p1 mov.u32 %cupola_y, 0;
  @%cupola_p1 add.u32 %cupola_z, %cupola_z, 1;
)";

// The next range is known: ask for what will be needed after it, tell all.
constexpr std::string_view kPublish = R"(
$cupola_publish:
  <size>
  mov.u32 %cupola_looked, 0;
  sub.u32 %cupola_t0, %cupola_now, %cupola_look_at;
  setp.lt.s32 %cupola_p1, %cupola_t0, 0;
  @%cupola_p1 bra $cupola_asked;
  <ask>
  ld.param.u32 %cupola_period, [cupola_launch+<poll_period_ns>];
  add.u32 %cupola_look_at, %cupola_now, %cupola_period;
  mov.u32 %cupola_looked, 1;
$cupola_asked:
  mov.u32 %cupola_count, 0;
  add.u32 %cupola_t0, %cupola_current, <blocks>;
  setp.lt.u32 %cupola_p1, %cupola_t0, %cupola_end;
  @%cupola_p1 bra $cupola_tell;
  ld.param.u32 %cupola_t0, [cupola_launch+<flags>];
  and.b32 %cupola_t0, %cupola_t0, <run_what_is_claimed>;
  setp.ne.u32 %cupola_p1, %cupola_t0, 0;
  setp.ge.or.u32 %cupola_p1, %cupola_seen, %cupola_total, %cupola_p1;
  @%cupola_p1 bra $cupola_tell;
  <count>
  atom.relaxed.gpu.global.add.u32 %cupola_ahead, [%cupola_slot+<slot_next>], %cupola_count;
$cupola_tell:
  st.shared.v4.u32 [cupola_worker+32], {%cupola_current, %cupola_end, %cupola_run, %cupola_seen};
  st.shared.v4.u32 [cupola_worker+48], {%cupola_count, %cupola_now, %cupola_look_at, %cupola_looked};
  <keep_size>
  <next_place>
  <x_end>
  st.shared.v4.u32 [%cupola_t0], {%cupola_x, %cupola_y, %cupola_z, %cupola_x_end};
)";

// One behind its last block.
constexpr std::string_view kEndOne = "add.u32 %cupola_x_end, %cupola_x, 1;";
constexpr std::string_view kEndRange = R"(
  ld.param.u32 %cupola_t1, [cupola_launch+<stride>];
  sub.u32 %cupola_t2, %cupola_blocks, 1;
  mad.lo.u32 %cupola_t2, %cupola_t2, %cupola_t1, %cupola_x;
  add.u32 %cupola_x_end, %cupola_t2, 1;
)";

// As many blocks as the range may have and the batch and the row still hold; one where batches end.
constexpr std::string_view kSize = R"(
  ld.param.u32 %cupola_t0, [cupola_launch+<grid_x>];
  sub.u32 %cupola_blocks, %cupola_end, %cupola_current;
  sub.u32 %cupola_t0, %cupola_t0, %cupola_x;
  min.u32 %cupola_blocks, %cupola_blocks, %cupola_t0;
  min.u32 %cupola_blocks, %cupola_blocks, %cupola_limit;
  ld.param.u32 %cupola_t0, [cupola_launch+<full_until>];
  setp.ge.u32 %cupola_p1, %cupola_current, %cupola_t0;
  @%cupola_p1 min.u32 %cupola_blocks, %cupola_blocks, 1;
)";

// All threads meet, here or, while some are still in the body, at its barriers: see early_return.h.
constexpr std::string_view kMeet = R"(
$cupola_join:
  barrier.sync <barrier>;
  bar.warp.sync -1;
)";
constexpr std::string_view kMeetRendezvous = R"(
$cupola_join:
  setp.ne.u32 %cupola_p2, 0, 0;
$cupola_drain:
  barrier.red.or.pred %cupola_p1, <barrier>, %cupola_p2;
  @%cupola_p1 bra $cupola_drain;
  bar.warp.sync -1;
)";
constexpr std::string_view kMeetReducing = R"(
$cupola_join:
  setp.ne.u32 %cupola_p2, 0, 0;
$cupola_drain:
  barrier.red.popc.u32 %cupola_t0, <barrier>, %cupola_p2;
  setp.eq.u32 %cupola_p1, %cupola_t0, 0;
  @%cupola_p1 bra $cupola_drained;
  barrier.red.popc.u32 %cupola_t0, <barrier>, %cupola_p2;
  bra.uni $cupola_drain;
$cupola_drained:
  bar.warp.sync -1;
)";

// Tells the lanes nothing new: it brings them together. An H200 lets those that wait for a lane go
// on alone once that yields, and neither barrier.sync nor bar.warp.sync merges them again: the
// leader's warp would run the block in two parts, in twice the time, and the others wait for it.
constexpr std::string_view kMerge = R"(
  mov.u32 %cupola_t0, 0;
  shfl.sync.idx.b32 %cupola_x_end, %cupola_x_end, %cupola_t0, 31, -1;
)";

// The claim, as the leader told it.
constexpr std::string_view kRead = R"(
  xor.b32 %cupola_place, %cupola_place, 16;
  ld.shared.v4.u32 {%cupola_x, %cupola_y, %cupola_z, %cupola_x_end}, [%cupola_place];
  <merge>
  setp.eq.u32 %cupola_p1, %cupola_x_end, 0;
  @%cupola_p1 bra $cupola_leave;
)";
// Ranges lie in one place, which no thread may still read when the next one is written: a second
// barrier, which costs less than a register that says where the next one is.
constexpr std::string_view kReadLean = R"(
  ld.shared.v4.u32 {%cupola_x, %cupola_y, %cupola_z, %cupola_x_end}, [cupola_worker];
  barrier.sync <barrier>;
  bar.warp.sync -1;
  <merge>
  setp.eq.u32 %cupola_p1, %cupola_x_end, 0;
  @%cupola_p1 bra $cupola_leave;
)";

// Functions see the block's indices in shared memory. A second barrier: they read late.
constexpr std::string_view kTellFunctions = R"(
  @%cupola_p0 bra $cupola_told;
  st.shared.v4.u32 [cupola_block], {%cupola_x, %cupola_y, %cupola_z, %cupola_x_end};
  ld.param.u32 %cupola_t1, [cupola_launch+<grid_x>];
  ld.param.u32 %cupola_t2, [cupola_launch+<grid_y>];
  ld.param.u32 %cupola_t3, [cupola_launch+<grid_z>];
  st.shared.v4.u32 [cupola_block+16], {%cupola_t1, %cupola_t2, %cupola_t3, %cupola_t3};
$cupola_told:
  barrier.sync <barrier>;
  bar.warp.sync -1;
)";

// The worker is to leave: the others are told so.
constexpr std::string_view kStopHere = R"(
$cupola_stop_here:
  st.shared.u32 [cupola_worker+40], %cupola_run;
  <next_place>
  st.shared.u32 [%cupola_t0+12], 0;
  bra.uni $cupola_join;
)";

// Within a range, each warp at its own pace.
constexpr std::string_view kNextOfRange = R"(
  bar.warp.sync -1;
  ld.param.u32 %cupola_t0, [cupola_launch+<stride>];
  add.u32 %cupola_x, %cupola_x, %cupola_t0;
  setp.lt.u32 %cupola_p1, %cupola_x, %cupola_x_end;
  @%cupola_p1 bra $cupola_body;
)";

std::string_view MeetingText(Meeting meeting) {
  switch (meeting) {
    case Meeting::kBarrier:
      return kMeet;
    case Meeting::kRendezvous:
      return kMeetRendezvous;
    case Meeting::kReducing:
      return kMeetReducing;
  }
  return kMeet;
}

}  // namespace

WorkerCode MakeWorkerCode(const WorkerShape& shape) {
  Words words = WorkerParts();
  words["barrier"] = std::to_string(shape.barrier);
  words["others"] = "$cupola_join";
  words["leaders_only"] = "@%cupola_p0 bra $cupola_gone;";
  words["at_run"] = "40";
  words["at_told"] = "64";
  const bool ranges = shape.warps_run_free;
  const bool lean = ranges && shape.has_few_registers;
  words["advance"] = ranges ? kAdvanceRange : kAdvanceOne;
  words["was_long"] = ranges ? kWasLongRange : kWasLongOne;
  words["size"] = ranges ? kSize : "";
  words["blocks"] = ranges ? "%cupola_blocks" : "1";
  words["x_end"] = ranges ? kEndRange : kEndOne;
  words["merge"] = kMerge;
  words["ask"] = lean ? kAskLean : kAsk;
  words["poll_word"] = lean ? kPollWordLean : "";
  words["place"] = lean ? "cupola_worker" : "%cupola_place";
  words["next_place"] =
      lean ? "mov.u32 %cupola_t0, cupola_worker;" : "xor.b32 %cupola_t0, %cupola_place, 16;";
  words["keep_size"] =
      ranges ? "st.shared.v2.u32 [cupola_worker+72], {%cupola_limit, %cupola_blocks};" : "";
  WorkerCode code;
  std::string before(kDeclarations);
  if (!lean) before += kFirstPlace;
  before += "<is_leader><addresses>";
  before += kBegin;
  before += "$cupola_head:\n<is_leader><addresses>";
  before += kHead;
  before += "<decide>";
  before += kGoOn;
  before += kPublish;
  before += MeetingText(shape.meeting);
  before += lean ? kReadLean : kRead;
  if (ranges) before += "$cupola_body:\n";
  if (shape.tells_functions) before += kTellFunctions;
  // One text, so that labels of the parts see each other.
  std::string after("$cupola_tail:\n");
  if (ranges) after += kNextOfRange;
  if (shape.waits_for_copies) after += "  cp.async.wait_all;\n";
  after += "  bra.uni $cupola_head;\n<claim><poll><yield>";
  after += kStopHere;
  after += "<leave>";
  code.before = Snippet(Fill(before, words));
  code.after = Snippet(Fill(after, words));
  return code;
}

}  // namespace cupola::passes
