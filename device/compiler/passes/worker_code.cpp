#include "device/compiler/passes/worker_code.h"

#include <string>

#include "device/compiler/passes/snippet.h"
#include "device/compiler/passes/worker_parts.h"

namespace cupola::passes {
namespace {

// All threads of a worker run a range of blocks, which have the same y and z, and then meet. Where the blocks of
// the kernel need a barrier themselves or share memory (shape.shares_in_blocks), the threads also meet behind each
// block of the range, but nothing is decided there.
//
// Layout of the worker's shared memory, cupola_worker, by byte offset:
//    0   a place for the range that all threads run next: {x, its last x, y, z}; a last x of all ones = leave
//   16   a second such place. The two are used by turns, so that one barrier for each range is enough. Before the
//        first range it holds {ranges in the list, places of the list} as the worker found them
//   32   used by the leader only: {current, blocks run, %globaltimer_lo when the range began, steady}. steady: the
//        blocks of the claim that is under way, if the range has as many and both are steady (SetSteady); else 0
//   48   used by the leader only: {end, seen, when to ask for the stop word again, whether it was asked for with
//        this range}
//   64   1: the worker leaves because of a stop of some SMs only
//   68   used by the leader only: {blocks of the claim that is under way, blocks that a range may have, blocks of
//        the last range}
// current: the block that begins the range; end: the end of the batch; seen: the claim counter as last seen, which
// decides the size of the next batch. All three count blocks in the order in which they are claimed; ClaimShape
// says which blocks they are.
//
// All threads hold these over the body: %cupola_place, the address of the place that was read last; x and the last
// x; %cupola_p0, a predicate. For the leader's sake they also hold what was asked for: the stop word, the time of
// the poll, the claim.
//
// The leader is thread 0. Only the leader has anything to do between ranges. What it waits for (the stop word, the
// next claim) it asked for before the range that has just ended, so that the answers are there. After a range of
// one block, or of one steady claim (SetSteady), that took longer than fresh_after_ns it looks at the stop word
// again: that costs some 0.6 us, little beside so long a range, and saves running another range before it leaves.
// Short blocks are many, so after them the leader asks for the word, which all workers read, only once in a poll
// period: an H200 serves one word some 600 times a microsecond and no more. A range grows until it takes between
// look_after_ns and twice that.
constexpr std::string_view kDeclarations = R"(
  .shared .align 32 .b8 cupola_worker[<shared_bytes>];
  <registers>
  .reg .b32 %cupola_place, %cupola_looked, %cupola_limit, %cupola_blocks, %cupola_steady;
)";

constexpr std::string_view kDeclarationsOfMeeting = R"(
  .reg .b32 %cupola_resume, %cupola_n0, %cupola_n1;
  .reg .pred %cupola_value;
)";

// Before the first range; leader only. The state is as if a range of no blocks had just ended.
constexpr std::string_view kBegin = R"(
  <begin>
  st.shared.v2.u32 [cupola_worker+16], {%cupola_t1, %cupola_t3};
  st.shared.u32 [cupola_worker+64], %cupola_run;
  mov.u32 %cupola_t1, 1;
  st.shared.v4.u32 [cupola_worker+32], {%cupola_current, %cupola_run, %cupola_now, %cupola_count};
  st.shared.v4.u32 [cupola_worker+48], {%cupola_end, %cupola_seen, %cupola_look_at, %cupola_t1};
  st.shared.u32 [cupola_worker+68], %cupola_count;
  st.shared.v2.u32 [cupola_worker+72], {%cupola_t1, %cupola_run};
)";

// Behind a range; leader only. Counts the range, sets how many blocks the next one may have, and decides whether to
// look at the stop word. %cupola_p2: whether the range was one block that took fresh_after_ns or more.
constexpr std::string_view kHead = R"(
  ld.shared.v4.u32 {%cupola_current, %cupola_run, %cupola_begun, %cupola_steady},
      [cupola_worker+32];
  mov.u32 %cupola_now, %globaltimer_lo;
  sub.u32 %cupola_t1, %cupola_now, %cupola_begun;
  ld.param.u32 %cupola_t3, [cupola_launch+<fresh_after_ns>];
  <steady>
  <rest>
  ld.param.u32 %cupola_t2, [cupola_launch+<look_after_ns>];
  setp.ge.u32 %cupola_p2, %cupola_t1, %cupola_t3;
  setp.eq.and.u32 %cupola_p2, %cupola_blocks, 1, %cupola_p2;
  shr.u32 %cupola_t0, %cupola_t1, 1;
  setp.ge.u32 %cupola_p1, %cupola_t0, %cupola_t2;
  @%cupola_p1 shr.u32 %cupola_limit, %cupola_limit, 1;
  setp.eq.u32 %cupola_p1, %cupola_blocks, %cupola_limit;
  setp.lt.and.u32 %cupola_p1, %cupola_t1, %cupola_t2, %cupola_p1;
  @%cupola_p1 shl.b32 %cupola_limit, %cupola_limit, 1;
  max.u32 %cupola_limit, %cupola_limit, 1;
  @%cupola_p2 <ask>
  @%cupola_p2 bra $cupola_decide;
  setp.eq.u32 %cupola_p1, %cupola_looked, 0;
  @%cupola_p1 bra $cupola_go_on;
)";

// Reads the leader's other values and counts the range as run.
constexpr std::string_view kRest = R"(
  ld.shared.v4.u32 {%cupola_end, %cupola_seen, %cupola_look_at, %cupola_looked},
      [cupola_worker+48];
  ld.shared.u32 %cupola_count, [cupola_worker+68];
  ld.shared.v2.u32 {%cupola_limit, %cupola_blocks}, [cupola_worker+72];
  add.u32 %cupola_run, %cupola_run, %cupola_blocks;
  add.u32 %cupola_current, %cupola_current, %cupola_blocks;
)";

// A shorter way for ranges that follow each other, each of one claim and long enough to look for a stop behind it.
// Where nothing more has to be decided, the claim that is under way becomes the next range. That takes less than
// half the instructions, which a leader issues while its worker waits. The end of the batch and the claim counter
// as seen are not updated, so they are older then; the next claim of the long way sets both. A worker goes this way
// too if it stays on its SM while those of others are asked for, and where a poll is due that other workers make:
// after a stop of some SMs that is so until the kernel ends, and the watcher may have left.
constexpr std::string_view kSteady = R"(
  sub.u32 %cupola_t0, %cupola_t1, %cupola_t3;
  ld.param.u32 %cupola_t2, [cupola_launch+<steady_span_ns>];
  setp.le.u32 %cupola_p1, %cupola_t0, %cupola_t2;
  setp.ne.and.u32 %cupola_p1, %cupola_steady, 0, %cupola_p1;
  @!%cupola_p1 bra $cupola_any_range;
  <ask>
  ld.param.u32 %cupola_tag, [cupola_launch+<tag>];
  shr.u32 %cupola_t0, %cupola_stop, 16;
  setp.eq.u32 %cupola_p1, %cupola_t0, %cupola_tag;
  ld.param.u32 %cupola_t2, [cupola_launch+<poll_reach_ns>];
  sub.u32 %cupola_t0, %cupola_poll, %cupola_now;
  sub.u32 %cupola_t0, %cupola_t0, 1;
  setp.ge.or.u32 %cupola_p1, %cupola_t0, %cupola_t2, %cupola_p1;
  ld.param.u32 %cupola_t0, [cupola_launch+<base_next>];
  sub.u32 %cupola_next_x, %cupola_ahead, %cupola_t0;
  add.u32 %cupola_next_last, %cupola_next_x, %cupola_steady;
  ld.param.u32 %cupola_t0, [cupola_launch+<steady_until>];
  setp.ge.or.u32 %cupola_p1, %cupola_next_last, %cupola_t0, %cupola_p1;
  @%cupola_p1 bra $cupola_perhaps_steady;
$cupola_steady:
  atom.relaxed.gpu.global.add.u32 %cupola_ahead, [%cupola_slot+<slot_next>], %cupola_steady;
  add.u32 %cupola_run, %cupola_run, %cupola_steady;
  sub.u32 %cupola_next_last, %cupola_next_last, 1;
  st.shared.v4.u32 [cupola_worker+32], {%cupola_next_x, %cupola_run, %cupola_now, %cupola_steady};
  mov.u32 %cupola_next_y, 0;
  xor.b32 %cupola_t0, %cupola_place, 16;
  st.shared.v4.u32 [%cupola_t0],
      {%cupola_next_x, %cupola_next_last, %cupola_next_y, %cupola_next_y};
  bra.uni $cupola_join;
$cupola_perhaps_steady:
  setp.ge.u32 %cupola_p1, %cupola_next_last, %cupola_t0;
  @%cupola_p1 bra $cupola_not_steady;
  shr.u32 %cupola_t0, %cupola_stop, 16;
  setp.ne.u32 %cupola_p1, %cupola_t0, %cupola_tag;
  @%cupola_p1 bra $cupola_stays;
  and.b32 %cupola_bound, %cupola_stop, 65535;
  mov.u32 %cupola_smid, %smid;
  setp.lt.u32 %cupola_p1, %cupola_smid, %cupola_bound;
  @%cupola_p1 bra $cupola_not_steady;
$cupola_stays:
  sub.u32 %cupola_t0, %cupola_poll, %cupola_now;
  sub.u32 %cupola_t0, %cupola_t0, 1;
  setp.lt.u32 %cupola_p1, %cupola_t0, %cupola_t2;
  @%cupola_p1 bra $cupola_steady;
  mov.u32 %cupola_t0, %ctaid.x;
  and.b32 %cupola_t0, %cupola_t0, <worker_is_poller_mask>;
  setp.eq.u32 %cupola_p1, %cupola_t0, 0;
  sub.u32 %cupola_t0, %cupola_now, %cupola_poll;
  setp.ge.or.u32 %cupola_p1, %cupola_t0, %cupola_t2, %cupola_p1;
  @!%cupola_p1 bra $cupola_steady;
$cupola_not_steady:
  <rest>
  setp.eq.u32 %cupola_p2, %cupola_blocks, 1;
  bra.uni $cupola_decide;
$cupola_any_range:
)";

constexpr std::string_view kFirstPlace = R"(
  mov.u32 %cupola_place, cupola_worker;
  or.b32 %cupola_place, %cupola_place, 16;
  mov.u32 %cupola_x, 0;
  mov.u32 %cupola_x_last, 0;
)";

// Asks for the stop word, and with it for the time when the poll is due.
constexpr std::string_view kAsk =
    "ld.relaxed.gpu.global.v2.u32 {%cupola_stop, %cupola_poll}, [%cupola_control];";

// The first block of the next range is known. The range has as many blocks as a range may have and as are left in the
// batch and in the row; behind full_until it has one. The leader asks for what will be needed after the range (the stop
// word, and the next claim if the range ends the batch), and writes the range where all threads will read it.
constexpr std::string_view kPublish = R"(
$cupola_publish:
  ld.param.u32 %cupola_t0, [cupola_launch+<grid_x>];
  sub.u32 %cupola_blocks, %cupola_end, %cupola_current;
  sub.u32 %cupola_t0, %cupola_t0, %cupola_next_x;
  min.u32 %cupola_blocks, %cupola_blocks, %cupola_t0;
  min.u32 %cupola_blocks, %cupola_blocks, %cupola_limit;
  ld.param.u32 %cupola_t0, [cupola_launch+<full_until>];
  setp.ge.u32 %cupola_p1, %cupola_current, %cupola_t0;
  @%cupola_p1 min.u32 %cupola_blocks, %cupola_blocks, 1;
  ld.param.u32 %cupola_t1, [cupola_launch+<stride>];
  sub.u32 %cupola_t2, %cupola_blocks, 1;
  mad.lo.u32 %cupola_next_last, %cupola_t2, %cupola_t1, %cupola_next_x;
  mov.u32 %cupola_looked, 0;
  sub.u32 %cupola_t0, %cupola_now, %cupola_look_at;
  setp.lt.or.s32 %cupola_p1, %cupola_t0, 0, %cupola_p2;
  @%cupola_p1 bra $cupola_asked;
  <ask>
  ld.param.u32 %cupola_period, [cupola_launch+<poll_period_ns>];
  add.u32 %cupola_look_at, %cupola_now, %cupola_period;
  mov.u32 %cupola_looked, 1;
$cupola_asked:
  mov.u32 %cupola_count, 0;
  add.u32 %cupola_t0, %cupola_current, %cupola_blocks;
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
  ld.param.u32 %cupola_t1, [cupola_launch+<steady_until>];
  mov.u32 %cupola_steady, 0;
  setp.ne.u32 %cupola_p1, %cupola_t1, 0;
  setp.eq.and.u32 %cupola_p1, %cupola_count, %cupola_blocks, %cupola_p1;
  @%cupola_p1 mov.u32 %cupola_steady, %cupola_count;
  st.shared.v4.u32 [cupola_worker+32],
      {%cupola_current, %cupola_run, %cupola_now, %cupola_steady};
  st.shared.u32 [cupola_worker+68], %cupola_count;
  st.shared.v4.u32 [cupola_worker+48],
      {%cupola_end, %cupola_seen, %cupola_look_at, %cupola_looked};
  st.shared.v2.u32 [cupola_worker+72], {%cupola_limit, %cupola_blocks};
  xor.b32 %cupola_t0, %cupola_place, 16;
  st.shared.v4.u32 [%cupola_t0],
      {%cupola_next_x, %cupola_next_last, %cupola_next_y, %cupola_next_z};
)";

// All threads of the worker meet, after a range, and where blocks share something also after each block. Where the
// threads come to the same barriers of the body, they meet at the aligned kind of barrier: a single barrier of the
// other kind in the loop over blocks keeps ptxas from unrolling loops of the body that have barriers. Where they do
// not, parts of warps come to this meeting for those barriers too: see early_return.h.
// %cupola_resume: the number of the place to which a thread goes back; 0 once it has returned.
constexpr std::string_view kMeet = R"(
$cupola_join:
  bar.warp.sync -1;
  bar.sync <barrier>;
)";
constexpr std::string_view kMeetRendezvous = R"(
$cupola_resumes: .branchtargets <resumes>;
$cupola_join:
  mov.u32 %cupola_resume, 0;
$cupola_meet:
  setp.ne.u32 %cupola_p2, %cupola_resume, 0;
  barrier.red.or.pred %cupola_p1, <barrier>, %cupola_p2;
  @!%cupola_p1 bra $cupola_drained;
  brx.idx %cupola_resume, $cupola_resumes;
$cupola_drained:
  bar.warp.sync -1;
)";
constexpr std::string_view kMeetReducing = R"(
$cupola_resumes: .branchtargets <resumes>;
$cupola_join:
  mov.u32 %cupola_resume, 0;
  setp.ne.u32 %cupola_value, 0, 0;
$cupola_meet:
  setp.ne.u32 %cupola_p2, %cupola_resume, 0;
  barrier.red.popc.u32 %cupola_n0, <barrier>, %cupola_p2;
  setp.eq.u32 %cupola_p1, %cupola_n0, 0;
  @%cupola_p1 bra $cupola_drained;
  barrier.red.popc.u32 %cupola_n1, <barrier>, %cupola_value;
  brx.idx %cupola_resume, $cupola_resumes;
$cupola_drained:
  bar.warp.sync -1;
)";

// The list of labels to which threads go back from the meeting, by number.
std::string PlacesToResume(uint32_t places) {
  std::string list = "$cupola_meet";
  for (uint32_t k = 1; k <= places; ++k) list += ", $cupola_resume_" + std::to_string(k);
  return list;
}

// Within a range of blocks that share memory there is no new range to read.
constexpr std::string_view kWithinRange = R"(
  setp.ne.u32 %cupola_p1, %cupola_x, %cupola_x_last;
  @%cupola_p1 bra $cupola_next_of_range;
)";
constexpr std::string_view kNextOfRange = R"(
$cupola_next_of_range:
  ld.param.u32 %cupola_t0, [cupola_launch+<stride>];
  add.u32 %cupola_x, %cupola_x, %cupola_t0;
  bra.uni $cupola_body;
)";
// Reads the range that the leader wrote.
constexpr std::string_view kRead = R"(
  xor.b32 %cupola_place, %cupola_place, 16;
  ld.shared.v4.u32 {%cupola_x, %cupola_x_last, %cupola_y, %cupola_z}, [%cupola_place];
  <merge>
  setp.eq.u32 %cupola_p1, %cupola_x_last, -1;
  @%cupola_p1 bra $cupola_leave;
$cupola_body:
)";
// Device functions read the block's indices in shared memory. There is a second barrier, since they may read late.
constexpr std::string_view kTellFunctions = R"(
  @%cupola_p0 bra $cupola_told;
  st.shared.v4.u32 [cupola_block], {%cupola_x, %cupola_y, %cupola_z, %cupola_z};
  ld.param.u32 %cupola_t1, [cupola_launch+<grid_x>];
  ld.param.u32 %cupola_t2, [cupola_launch+<grid_y>];
  ld.param.u32 %cupola_t3, [cupola_launch+<grid_z>];
  st.shared.v4.u32 [cupola_block+16], {%cupola_t1, %cupola_t2, %cupola_t3, %cupola_t3};
$cupola_told:
  bar.warp.sync -1;
  bar.sync <barrier>;
)";

// The worker is to leave: the leader writes a last x of all ones, which the other threads read as the next range.
constexpr std::string_view kStopHere = R"(
$cupola_stop_here:
  st.shared.u32 [cupola_worker+36], %cupola_run;
  xor.b32 %cupola_t0, %cupola_place, 16;
  st.shared.u32 [%cupola_t0+4], -1;
  bra.uni $cupola_join;
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

// Behind a block: go on with the next block of the range. Where blocks share nothing, threads go on at once; the
// lanes of a warp may have parted in the body, so they come together first.
constexpr std::string_view kGoOnInRange = R"(
  setp.eq.u32 %cupola_p1, %cupola_x, %cupola_x_last;
  @%cupola_p1 bra $cupola_head;
  ld.param.u32 %cupola_t0, [cupola_launch+<stride>];
  add.u32 %cupola_x, %cupola_x, %cupola_t0;
  bar.warp.sync -1;
  bra.uni $cupola_body;
)";

// All threads but the leader go to the meeting. Where blocks share something, the leader goes too within a range.
constexpr std::string_view kToMeeting = R"(
  @%cupola_p0 bra $cupola_join;
)";
constexpr std::string_view kToMeetingWithinRange = R"(
  setp.ne.or.u32 %cupola_p1, %cupola_x, %cupola_x_last, %cupola_p0;
  @%cupola_p1 bra $cupola_join;
)";

}  // namespace

WorkerCode MakeWorkerCode(const WorkerShape& shape) {
  Words words = WorkerParts();
  words["barrier"] = std::to_string(shape.barrier);
  words["shared_bytes"] = std::to_string(kWorkerSharedBytes);
  words["ask"] = kAsk;
  words["rest"] = kRest;
  words["steady"] = kSteady;
  words["resumes"] = PlacesToResume(shape.resumes);
  WorkerCode code;
  std::string before(kDeclarations);
  if (shape.meeting != Meeting::kBarrier) before += kDeclarationsOfMeeting;
  before += kFirstPlace;
  before += "<is_leader>@%cupola_p0 bra $cupola_head;\n<addresses>";
  before += kBegin;
  before += "$cupola_head:\n";
  before += shape.shares_in_blocks ? kToMeetingWithinRange : kToMeeting;
  before += "<addresses>";
  before += kHead;
  before += "<decide><go_on>";
  before += kPublish;
  before += MeetingText(shape.meeting);
  if (shape.shares_in_blocks) before += kWithinRange;
  before += kRead;
  if (shape.tells_functions) before += kTellFunctions;
  // All is one text, so that the parts see each other's labels.
  std::string after("$cupola_tail:\n");
  if (shape.waits_for_copies) after += "  cp.async.wait_all;\n";
  after += shape.shares_in_blocks ? "  bra.uni $cupola_head;\n" : kGoOnInRange;
  if (shape.shares_in_blocks) after += kNextOfRange;
  after += "<claim><poll><yield>";
  after += kStopHere;
  after += "<leave>";
  code.before = Snippet(Fill(before, words));
  code.after = Snippet(Fill(after, words));
  return code;
}

}  // namespace cupola::passes
