#include "device/compiler/passes/worker_parts.h"

#include <string>

#include "device/compiler/passes/worker_words.h"

namespace cupola::passes {
namespace {

// Only the leader, thread 0 of a worker, runs the parts, but for <is_leader>, <merge> and the ends of <leave>. "The
// host's line" is the YieldLine. A poll is one read of it, due at PhysicalControl::poll_at_ns (%cupola_poll); it is not
// due while that lies 1 to poll_reach_ns ahead ("poll - now - 1 < reach" without sign, in %globaltimer_lo). The list is
// the ReturnedList, a place one of its `ranges`. A stop word (PhysicalControl::stop) with another tag is an old one.

// Registers of the parts; worker_code.cpp declares its own. What is decided for the next range has registers of its
// own (%cupola_next_...), separate from those of the range that runs, or ptxas holds more over the body than it must.
constexpr std::string_view kRegisters = R"(
  .reg .pred %cupola_p<3>;
  .reg .b32 %cupola_x, %cupola_y, %cupola_z, %cupola_x_last;
  .reg .b32 %cupola_next_x, %cupola_next_y, %cupola_next_z, %cupola_next_last;
  .reg .b32 %cupola_stop, %cupola_poll, %cupola_ahead, %cupola_look_at, %cupola_begun;
  .reg .b32 %cupola_current, %cupola_end, %cupola_run, %cupola_seen, %cupola_count;
  .reg .b32 %cupola_now, %cupola_period, %cupola_smid, %cupola_tag, %cupola_bound, %cupola_total;
  .reg .b32 %cupola_t<6>;
  .reg .b64 %cupola_slot, %cupola_control, %cupola_list, %cupola_u<3>;
)";

// %cupola_p0: whether this thread is not thread 0, the leader. It is held over the body: ptxas keeps it in a predicate
// register, and computing it again takes five instructions for each warp and block.
constexpr std::string_view kIsLeader = R"(
  mov.u32 %cupola_t0, %tid.x;
  mov.u32 %cupola_t1, %tid.y;
  mov.u32 %cupola_t2, %tid.z;
  or.b32 %cupola_t0, %cupola_t0, %cupola_t1;
  or.b32 %cupola_t0, %cupola_t0, %cupola_t2;
  setp.ne.u32 %cupola_p0, %cupola_t0, 0;
)";

// Computes the addresses of the slot and of the PhysicalControl of this physical launch.
constexpr std::string_view kAddresses = R"(
  ld.param.u64 %cupola_slot, [cupola_launch+<slot>];
  ld.param.u32 %cupola_t0, [cupola_launch+<physical>];
  mul.wide.u32 %cupola_control, %cupola_t0, <sizeof_physical>;
  add.s64 %cupola_control, %cupola_slot, %cupola_control;
  add.s64 %cupola_control, %cupola_control, <slot_physical>;
  ld.param.u32 %cupola_total, [cupola_launch+<total_blocks>];
)";

// A worker begins: it reads the state of the launch, all words at once.
constexpr std::string_view kBeginOfParts = R"(
  ld.relaxed.gpu.global.v2.u32 {%cupola_stop, %cupola_poll}, [%cupola_control];
  ld.relaxed.gpu.global.u32 %cupola_seen, [%cupola_slot+<slot_next>];
  ld.param.u64 %cupola_list, [cupola_launch+<returned>];
  ld.relaxed.gpu.global.v2.u32 {%cupola_t1, %cupola_t3}, [%cupola_list];
  mov.u32 %cupola_now, %globaltimer_lo;
  ld.param.u32 %cupola_t0, [cupola_launch+<base_next>];
  sub.u32 %cupola_seen, %cupola_seen, %cupola_t0;
  mov.u32 %cupola_current, 0;
  mov.u32 %cupola_end, 0;
  mov.u32 %cupola_run, 0;
  mov.u32 %cupola_count, 0;
  mov.u32 %cupola_look_at, %cupola_now;
)";

// %cupola_p1: whether this worker is not the watcher: worker 0 of a physical launch with kHasWatcher.
constexpr std::string_view kIsNoWatcher = R"(
  ld.param.u32 %cupola_t0, [cupola_launch+<flags>];
  and.b32 %cupola_t0, %cupola_t0, <has_watcher>;
  mov.u32 %cupola_t1, %ctaid.x;
  setp.eq.u32 %cupola_p1, %cupola_t0, 0;
  setp.ne.or.u32 %cupola_p1, %cupola_t1, 0, %cupola_p1;
)";

// The host's line (%cupola_u1, _u2) asks: stores the stop word for the workers. %cupola_p1: whether this one may stay.
constexpr std::string_view kPublishStop = R"(
  cvt.u32.u64 %cupola_bound, %cupola_u2;
  min.u32 %cupola_bound, %cupola_bound, 65535;
  shl.b32 %cupola_t0, %cupola_tag, 16;
  or.b32 %cupola_stop, %cupola_t0, %cupola_bound;
  st.relaxed.gpu.global.u32 [%cupola_control], %cupola_stop;
  setp.ge.u32 %cupola_p1, %cupola_smid, %cupola_bound;
)";

// Worker 0 of a launch that has a watcher takes no blocks, where there are some to claim: it goes to leave, and
// watches on its way out.
constexpr std::string_view kBecomeWatcher = R"(
  <is_no_watcher>
  setp.ge.or.u32 %cupola_p1, %cupola_seen, %cupola_total, %cupola_p1;
  @!%cupola_p1 bra $cupola_stop_here;
)";

// The watcher reads the host's line again and again, until it is to leave itself, all blocks are claimed, or all
// other workers have left. The last condition is needed: another worker may have found a request that was withdrawn
// before the watcher read the line, and nobody resumes a launch whose watcher stays. So the stop word is never older
// than one read takes, and workers see it at the end of their current block. Without a watcher, the first poller that
// comes to the end of a block finds the request. That is late where workers end their blocks together, for the others
// have just begun their next blocks. The watcher puts the poll off by several periods, more than a read takes, or the
// poll would be due most of the time.
constexpr std::string_view kWatch = R"(
  <is_no_watcher>
  ld.param.u64 %cupola_u0, [cupola_launch+<yield_line>];
  setp.eq.or.u64 %cupola_p1, %cupola_u0, 0, %cupola_p1;
  @%cupola_p1 bra $cupola_watched;
  <addresses>
  ld.param.u32 %cupola_tag, [cupola_launch+<tag>];
  ld.param.u32 %cupola_seen, [cupola_launch+<base_next>];
  ld.param.u32 %cupola_period, [cupola_launch+<poll_reach_ns>];
  shr.u32 %cupola_period, %cupola_period, 2;
  mov.u32 %cupola_smid, %smid;
$cupola_watch:
  ld.relaxed.gpu.global.u32 %cupola_t0, [%cupola_slot+<slot_next>];
  ld.relaxed.gpu.global.u32 %cupola_t1, [%cupola_control+<physical_exits>];
  ld.param.u32 %cupola_t2, [cupola_launch+<workers>];
  sub.u32 %cupola_t2, %cupola_t2, 1;
  setp.eq.u32 %cupola_p1, %cupola_t1, %cupola_t2;
  sub.u32 %cupola_t0, %cupola_t0, %cupola_seen;
  setp.ge.or.u32 %cupola_p1, %cupola_t0, %cupola_total, %cupola_p1;
  @%cupola_p1 bra $cupola_watched;
  ld.relaxed.sys.global.v2.u64 {%cupola_u1, %cupola_u2}, [%cupola_u0];
  mov.u32 %cupola_now, %globaltimer_lo;
  add.u32 %cupola_t1, %cupola_now, %cupola_period;
  setp.eq.u64 %cupola_p1, %cupola_u1, 0;
  @%cupola_p1 bra $cupola_watch_on;
  <publish_stop>
  @%cupola_p1 bra $cupola_watch_on;
  setp.eq.u32 %cupola_p1, %cupola_bound, 65535;
  mov.u32 %cupola_t0, 1;
  @!%cupola_p1 st.shared.u32 [cupola_worker+64], %cupola_t0;
  bra.uni $cupola_watched;
$cupola_watch_on:
  st.relaxed.gpu.global.u32 [%cupola_control+<physical_poll>], %cupola_t1;
  nanosleep.u32 500;
  bra.uni $cupola_watch;
$cupola_watched:
)";

// Between ranges: leave, poll, or go on. One worker in kWorkersPerPoller makes the poll. The other workers make it
// when it is overdue by poll_reach_ns, which is 16 periods (then those workers have left, or run long blocks), but not
// before their first block, so that never all of them poll as they start.
constexpr std::string_view kDecide = R"(
$cupola_decide:
  ld.param.u32 %cupola_tag, [cupola_launch+<tag>];
  shr.u32 %cupola_t0, %cupola_stop, 16;
  setp.ne.u32 %cupola_p1, %cupola_t0, %cupola_tag;
  @%cupola_p1 bra $cupola_stay;
  and.b32 %cupola_bound, %cupola_stop, 65535;
  mov.u32 %cupola_smid, %smid;
  setp.lt.u32 %cupola_p1, %cupola_smid, %cupola_bound;
  @%cupola_p1 bra $cupola_yield;
$cupola_stay:
  ld.param.u32 %cupola_t2, [cupola_launch+<poll_reach_ns>];
  sub.u32 %cupola_t3, %cupola_poll, %cupola_now;
  sub.u32 %cupola_t3, %cupola_t3, 1;
  setp.lt.u32 %cupola_p1, %cupola_t3, %cupola_t2;
  @%cupola_p1 bra $cupola_go_on;
  mov.u32 %cupola_t0, %ctaid.x;
  and.b32 %cupola_t0, %cupola_t0, <worker_is_poller_mask>;
  setp.eq.u32 %cupola_p1, %cupola_t0, 0;
  @%cupola_p1 bra $cupola_look;
  setp.eq.u32 %cupola_p1, %cupola_run, 0;
  @%cupola_p1 bra $cupola_go_on;
  sub.u32 %cupola_t1, %cupola_now, %cupola_poll;
  setp.ge.u32 %cupola_p1, %cupola_t1, %cupola_t2;
  @%cupola_p1 bra $cupola_look;
)";

// Within a batch: the indices of the next block. Its x is one more than the last one's, or `stride` more (ClaimShape).
constexpr std::string_view kGoOn = R"(
$cupola_go_on:
  setp.ge.u32 %cupola_p1, %cupola_current, %cupola_end;
  @%cupola_p1 bra $cupola_claim;
  ld.shared.v4.u32 {%cupola_t1, %cupola_next_x, %cupola_next_y, %cupola_next_z}, [%cupola_place];
  ld.param.u32 %cupola_t2, [cupola_launch+<full_until>];
  ld.param.u32 %cupola_t3, [cupola_launch+<stride>];
  add.u32 %cupola_next_x, %cupola_next_x, 1;
  setp.lt.u32 %cupola_p1, %cupola_current, %cupola_t2;
  sub.u32 %cupola_t3, %cupola_t3, 1;
  @%cupola_p1 add.u32 %cupola_next_x, %cupola_next_x, %cupola_t3;
  ld.param.u32 %cupola_t2, [cupola_launch+<grid_x>];
  ld.param.u32 %cupola_t3, [cupola_launch+<grid_y>];
  setp.eq.u32 %cupola_p1, %cupola_next_x, %cupola_t2;
  @%cupola_p1 mov.u32 %cupola_next_x, 0;
  @%cupola_p1 add.u32 %cupola_next_y, %cupola_next_y, 1;
  setp.eq.and.u32 %cupola_p1, %cupola_next_y, %cupola_t3, %cupola_p1;
  @%cupola_p1 mov.u32 %cupola_next_y, 0;
  @%cupola_p1 add.u32 %cupola_next_z, %cupola_next_z, 1;
)";

// How many blocks to claim: see ClaimShape.
constexpr std::string_view kCount = R"(
  ld.param.u32 %cupola_t1, [cupola_launch+<full_until>];
  ld.param.u32 %cupola_count, [cupola_launch+<batch>];
  setp.ge.u32 %cupola_p1, %cupola_seen, %cupola_t1;
  @%cupola_p1 mov.u32 %cupola_count, 1;
)";

// The batch is at its end. The next one is the claim that is under way, a new claim, or blocks that others handed back,
// for which a new worker looks first and others last. Then computes the indices of %cupola_current.
constexpr std::string_view kClaim = R"(
$cupola_claim:
  setp.ne.u32 %cupola_p1, %cupola_run, 0;
  @%cupola_p1 bra $cupola_claim_next;
  <become_watcher>
  <take_own>
$cupola_claim_next:
  setp.ne.u32 %cupola_p1, %cupola_count, 0;
  @%cupola_p1 bra $cupola_claimed_ahead;
  setp.ge.u32 %cupola_p1, %cupola_seen, %cupola_total;
  @%cupola_p1 bra $cupola_list;
  <count>
  ld.param.u32 %cupola_t0, [cupola_launch+<flags>];
  and.b32 %cupola_t0, %cupola_t0, <run_what_is_claimed>;
  setp.ne.u32 %cupola_p1, %cupola_t0, 0;
  @%cupola_p1 mov.u32 %cupola_count, 1;
  atom.relaxed.gpu.global.add.u32 %cupola_current, [%cupola_slot+<slot_next>], %cupola_count;
  bra.uni $cupola_claimed;
$cupola_claimed_ahead:
  mov.u32 %cupola_current, %cupola_ahead;
$cupola_claimed:
  ld.param.u32 %cupola_t0, [cupola_launch+<base_next>];
  sub.u32 %cupola_current, %cupola_current, %cupola_t0;
  add.u32 %cupola_seen, %cupola_current, %cupola_count;
  min.u32 %cupola_end, %cupola_seen, %cupola_total;
  setp.lt.u32 %cupola_p1, %cupola_current, %cupola_total;
  @%cupola_p1 bra $cupola_place;
  <take_any>
$cupola_place:
  mov.u32 %cupola_next_x, %cupola_current;
  mov.u32 %cupola_next_y, 0;
  mov.u32 %cupola_next_z, 0;
  ld.param.u32 %cupola_t2, [cupola_launch+<stride>];
  setp.ne.u32 %cupola_p1, %cupola_t2, 1;
  @%cupola_p1 bra $cupola_interleave;
  ld.param.u32 %cupola_t2, [cupola_launch+<grid_x>];
  setp.eq.u32 %cupola_p1, %cupola_t2, %cupola_total;
  @%cupola_p1 bra $cupola_publish;
  ld.param.u32 %cupola_t3, [cupola_launch+<grid_y>];
  div.u32 %cupola_t1, %cupola_current, %cupola_t2;
  mul.lo.u32 %cupola_t0, %cupola_t1, %cupola_t2;
  sub.u32 %cupola_next_x, %cupola_current, %cupola_t0;
  div.u32 %cupola_next_z, %cupola_t1, %cupola_t3;
  mul.lo.u32 %cupola_t0, %cupola_next_z, %cupola_t3;
  sub.u32 %cupola_next_y, %cupola_t1, %cupola_t0;
  bra.uni $cupola_publish;
$cupola_interleave:
  ld.param.u32 %cupola_t1, [cupola_launch+<full_until>];
  setp.ge.u32 %cupola_p1, %cupola_current, %cupola_t1;
  @%cupola_p1 bra $cupola_publish;
  ld.param.u32 %cupola_t3, [cupola_launch+<batch>];
  div.u32 %cupola_t0, %cupola_current, %cupola_t3;
  mul.lo.u32 %cupola_t1, %cupola_t0, %cupola_t3;
  sub.u32 %cupola_t1, %cupola_current, %cupola_t1;
  div.u32 %cupola_t4, %cupola_t0, %cupola_t2;
  mul.lo.u32 %cupola_t4, %cupola_t4, %cupola_t2;
  sub.u32 %cupola_t0, %cupola_t0, %cupola_t4;
  mad.lo.u32 %cupola_next_x, %cupola_t4, %cupola_t3, %cupola_t0;
  mad.lo.u32 %cupola_next_x, %cupola_t1, %cupola_t2, %cupola_next_x;
  bra.uni $cupola_publish;
)";

// Blocks that workers handed back. A worker begins with what lies in the place of its own number: after a stop of all
// workers each finds one range there, and no two meet. (Taking them from a queue whose head all workers swapped cost
// an H200 some 300 us a resume.) Where fewer workers come, after a stop of some SMs, each begins at another place and
// looks on until it finds a range or there is none. Ranges that nobody took would be run at the end of the grid, a
// whole batch by one worker, while the others have nothing to do. Workers that left together had numbers next to each
// other, so the next range may be a hundred places away.
constexpr std::string_view kTakeOwn = R"(
  ld.shared.v2.u32 {%cupola_t1, %cupola_t3}, [cupola_worker+16];
  setp.eq.u32 %cupola_p1, %cupola_t1, 0;
  @%cupola_p1 bra $cupola_claim_next;
  ld.param.u64 %cupola_list, [cupola_launch+<returned>];
  mov.u32 %cupola_t5, 1;
  mov.u32 %cupola_t4, 1;
  mov.u32 %cupola_t2, %ctaid.x;
  ld.param.u32 %cupola_t0, [cupola_launch+<workers>];
  setp.ge.u32 %cupola_p1, %cupola_t0, %cupola_t3;
  @%cupola_p1 bra $cupola_seek;
  mul.lo.u32 %cupola_t2, %cupola_t2, %cupola_t3;
  div.u32 %cupola_t2, %cupola_t2, %cupola_t0;
  mov.u32 %cupola_t4, %cupola_t3;
  bra.uni $cupola_seek;
)";

// Takes what is left in any place. The worker looks at all places, from its own on, while the list holds something:
// most workers find nothing, and to look at a thousand places one behind the other takes an H200 some 0.3 ms. A range
// that is handed back after the look is left to a resume: the launch is not complete without it. %cupola_t2: the next
// place; _t3: places; _t4: places left to look at; _t5: 1 for a worker that begins, which claims if it finds nothing.
constexpr std::string_view kTakeAny = R"(
$cupola_list:
  ld.param.u64 %cupola_list, [cupola_launch+<returned>];
  ld.relaxed.gpu.global.v2.u32 {%cupola_t1, %cupola_t3}, [%cupola_list];
  mov.u32 %cupola_t5, 0;
  mov.u32 %cupola_t4, %cupola_t3;
  mov.u32 %cupola_t2, %ctaid.x;
  setp.eq.u32 %cupola_p1, %cupola_t1, 0;
  @%cupola_p1 bra $cupola_stop_here;
$cupola_seek:
  setp.eq.u32 %cupola_p1, %cupola_t4, 0;
  @%cupola_p1 bra $cupola_found_none;
  sub.u32 %cupola_t4, %cupola_t4, 1;
  setp.ge.u32 %cupola_p1, %cupola_t2, %cupola_t3;
  @%cupola_p1 mov.u32 %cupola_t2, 0;
  mul.wide.u32 %cupola_u0, %cupola_t2, 8;
  add.s64 %cupola_u0, %cupola_list, %cupola_u0;
  add.u32 %cupola_t2, %cupola_t2, 1;
  ld.relaxed.gpu.global.u32 %cupola_t1, [%cupola_list+<list_count>];
  ld.relaxed.gpu.global.u64 %cupola_u1, [%cupola_u0+<list_ranges>];
  setp.eq.u32 %cupola_p1, %cupola_t1, 0;
  @%cupola_p1 bra $cupola_found_none;
  setp.eq.u64 %cupola_p1, %cupola_u1, 0;
  @%cupola_p1 bra $cupola_seek;
  atom.relaxed.gpu.global.exch.b64 %cupola_u1, [%cupola_u0+<list_ranges>], 0;
  setp.eq.u64 %cupola_p1, %cupola_u1, 0;
  @%cupola_p1 bra $cupola_seek;
  atom.relaxed.gpu.global.add.u32 %cupola_t1, [%cupola_list+<list_count>], -1;
  mov.b64 {%cupola_current, %cupola_end}, %cupola_u1;
  add.u32 %cupola_end, %cupola_current, %cupola_end;
  bra.uni $cupola_place;
$cupola_found_none:
  setp.ne.u32 %cupola_p1, %cupola_t5, 0;
  @%cupola_p1 bra $cupola_claim_next;
  bra.uni $cupola_stop_here;
)";

// The poll is due, unless others have just moved its time. The worker that moves the time reads the host's line and
// tells all workers.
constexpr std::string_view kPoll = R"(
$cupola_look:
  ld.param.u64 %cupola_u0, [cupola_launch+<yield_line>];
  setp.eq.u64 %cupola_p1, %cupola_u0, 0;
  @%cupola_p1 bra $cupola_go_on;
  mov.u32 %cupola_t1, %globaltimer_lo;
  ld.param.u32 %cupola_t2, [cupola_launch+<poll_reach_ns>];
  sub.u32 %cupola_t3, %cupola_poll, %cupola_t1;
  sub.u32 %cupola_t3, %cupola_t3, 1;
  setp.lt.u32 %cupola_p1, %cupola_t3, %cupola_t2;
  @%cupola_p1 bra $cupola_go_on;
  ld.param.u32 %cupola_period, [cupola_launch+<poll_period_ns>];
  add.u32 %cupola_t1, %cupola_t1, %cupola_period;
  atom.relaxed.gpu.global.cas.b32 %cupola_t3, [%cupola_control+<physical_poll>], %cupola_poll,
      %cupola_t1;
  setp.ne.u32 %cupola_p1, %cupola_t3, %cupola_poll;
  @%cupola_p1 bra $cupola_go_on;
  ld.relaxed.sys.global.v2.u64 {%cupola_u1, %cupola_u2}, [%cupola_u0];
  setp.eq.u64 %cupola_p1, %cupola_u1, 0;
  @%cupola_p1 bra $cupola_go_on;
  mov.u32 %cupola_smid, %smid;
  <publish_stop>
  @%cupola_p1 bra $cupola_go_on;
)";

// The worker is asked to leave. It hands back what is claimed and not begun: the rest of the batch, or the claim that
// is under way (never both: that claim is made with the last block of a batch).
constexpr std::string_view kYield = R"(
$cupola_yield:
  setp.lt.u32 %cupola_p1, %cupola_current, %cupola_end;
  @%cupola_p1 bra $cupola_hand_back;
  setp.eq.u32 %cupola_p1, %cupola_count, 0;
  @%cupola_p1 bra $cupola_tell_yield;
  ld.param.u32 %cupola_t0, [cupola_launch+<base_next>];
  sub.u32 %cupola_current, %cupola_ahead, %cupola_t0;
  add.u32 %cupola_end, %cupola_current, %cupola_count;
  min.u32 %cupola_end, %cupola_end, %cupola_total;
  setp.ge.u32 %cupola_p1, %cupola_current, %cupola_end;
  @%cupola_p1 bra $cupola_tell_yield;
$cupola_hand_back:
  ld.param.u64 %cupola_list, [cupola_launch+<returned>];
  mov.u32 %cupola_t2, %ctaid.x;
  sub.u32 %cupola_end, %cupola_end, %cupola_current;
  mov.b64 %cupola_u1, {%cupola_current, %cupola_end};
$cupola_put:
  and.b32 %cupola_t2, %cupola_t2, <list_mask>;
  mul.wide.u32 %cupola_u0, %cupola_t2, 8;
  add.s64 %cupola_u0, %cupola_list, %cupola_u0;
  add.u32 %cupola_t2, %cupola_t2, 1;
  atom.relaxed.gpu.global.cas.b64 %cupola_u2, [%cupola_u0+<list_ranges>], 0, %cupola_u1;
  setp.ne.u64 %cupola_p1, %cupola_u2, 0;
  @%cupola_p1 bra $cupola_put;
  atom.relaxed.gpu.global.max.u32 %cupola_t1, [%cupola_list+<list_high>], %cupola_t2;
  atom.release.gpu.global.add.u32 %cupola_t1, [%cupola_list+<list_count>], 1;
$cupola_tell_yield:
  setp.eq.u32 %cupola_p1, %cupola_bound, 65535;
  @%cupola_p1 bra $cupola_stop_here;
  mov.u32 %cupola_t0, 1;
  st.shared.u32 [cupola_worker+64], %cupola_t0;
  bra.uni $cupola_stop_here;
)";

// The worker leaves. All its threads have finished their blocks (the barrier before this).
//   - Their writes come before the barrier, the barrier before the leader's fence, and the fence before the addition
//     to `completed`. The worker that makes it complete reads the additions of the others, fences again and stores
//     `done` (fence and store are a release pattern; a release store would be one more fence in the guard's way). So
//     all blocks' writes happen before `done` [PTX ISA 8.8, 8.9.5: causality order goes through barriers, release
//     patterns and acquire patterns alike].
//   - Stores of `yielded` by several workers may pass each other. So each worker looks, after its own store, whether
//     more have left, and then stores that number. If the last store to the host's word were an old count, its worker
//     would have looked before another worker's addition, and that one would store later: the fences between addition
//     and store, and between store and look, are sequentially consistent [PTX ISA 8.9.3].
//   - `exits` is counted up last, acq_rel. So the last worker of the physical launch comes after all that the others
//     did to the slot, and so does what the host does after it reads `ended`.
constexpr std::string_view kLeave = R"(
$cupola_leave:
  @%cupola_p0 bra $cupola_gone;
  <watch>
  ld.shared.u32 %cupola_run, [cupola_worker+36];
  ld.param.u64 %cupola_u0, [cupola_launch+<status>];
  setp.eq.u32 %cupola_p1, %cupola_run, 0;
  @%cupola_p1 bra $cupola_count_out;
  fence.acq_rel.sys;
  atom.relaxed.gpu.global.add.u32 %cupola_t0, [%cupola_slot+<slot_completed>], %cupola_run;
  add.u32 %cupola_t0, %cupola_t0, %cupola_run;
  ld.param.u32 %cupola_t1, [cupola_launch+<base_completed>];
  sub.u32 %cupola_t0, %cupola_t0, %cupola_t1;
  setp.ne.u32 %cupola_p1, %cupola_t0, %cupola_total;
  @%cupola_p1 bra $cupola_count_out;
  ld.param.u32 %cupola_t2, [cupola_launch+<sequence>];
  fence.acq_rel.sys;
  st.relaxed.sys.global.u32 [%cupola_slot+<slot_done>], %cupola_t2;
  st.relaxed.sys.global.u32 [%cupola_u0+<status_done>], %cupola_t2;
$cupola_count_out:
  ld.shared.u32 %cupola_t0, [cupola_worker+64];
  setp.eq.u32 %cupola_p1, %cupola_t0, 0;
  @%cupola_p1 bra $cupola_exit;
  atom.relaxed.gpu.global.add.u32 %cupola_t1, [%cupola_slot+<slot_yielded>], 1;
  add.u32 %cupola_t1, %cupola_t1, 1;
$cupola_tell_host:
  fence.sc.sys;
  st.relaxed.sys.global.u32 [%cupola_u0+<status_yielded>], %cupola_t1;
  fence.sc.sys;
  mov.u32 %cupola_t0, %cupola_t1;
  ld.relaxed.gpu.global.u32 %cupola_t1, [%cupola_slot+<slot_yielded>];
  setp.ne.u32 %cupola_p1, %cupola_t0, %cupola_t1;
  @%cupola_p1 bra $cupola_tell_host;
$cupola_exit:
  ld.param.u32 %cupola_t1, [cupola_launch+<workers>];
  sub.u32 %cupola_t1, %cupola_t1, 1;
  atom.acq_rel.gpu.global.inc.u32 %cupola_t0, [%cupola_control+<physical_exits>], %cupola_t1;
  setp.ne.u32 %cupola_p1, %cupola_t0, %cupola_t1;
  @%cupola_p1 bra $cupola_gone;
  ld.relaxed.gpu.global.u32 %cupola_t2, [%cupola_slot+<slot_next>];
  ld.param.u32 %cupola_t0, [cupola_launch+<physical>];
  mul.wide.u32 %cupola_u1, %cupola_t0, 4;
  add.s64 %cupola_u0, %cupola_u0, %cupola_u1;
  ld.param.u32 %cupola_tag, [cupola_launch+<tag>];
  st.relaxed.sys.global.u32 [%cupola_u0+<status_next_final>], %cupola_t2;
  st.release.sys.global.u32 [%cupola_u0+<status_ended>], %cupola_tag;
$cupola_gone:
  ret;
)";

// All threads run this. The value is not new to the lanes: the shuffle brings them together. An H200 lets lanes that
// wait for another lane go on alone once that one yields, and neither barrier.sync nor bar.warp.sync merges them again:
// the warp would run the block in two parts, in twice the time.
constexpr std::string_view kMerge = R"(
  mov.u32 %cupola_t0, 0;
  shfl.sync.idx.b32 %cupola_x_last, %cupola_x_last, %cupola_t0, 31, -1;
)";

}  // namespace

Words WorkerParts() {
  Words words = LayoutWords();
  words["registers"] = kRegisters;
  words["is_leader"] = kIsLeader;
  words["addresses"] = kAddresses;
  words["begin"] = kBeginOfParts;
  words["merge"] = kMerge;
  words["is_no_watcher"] = kIsNoWatcher;
  words["publish_stop"] = kPublishStop;
  words["become_watcher"] = kBecomeWatcher;
  words["watch"] = kWatch;
  words["decide"] = kDecide;
  words["go_on"] = kGoOn;
  words["count"] = kCount;
  words["claim"] = kClaim;
  words["take_own"] = kTakeOwn;
  words["take_any"] = kTakeAny;
  words["poll"] = kPoll;
  words["yield"] = kYield;
  words["leave"] = kLeave;
  return words;
}

std::string Fill(std::string_view part, const Words& words) {
  std::string text;
  while (true) {
    const size_t open = part.find('<');
    const size_t close = open == part.npos ? part.npos : part.find('>', open);
    if (close == part.npos) break;
    const auto at = words.find(part.substr(open + 1, close - open - 1));
    text += part.substr(0, open);
    text += at == words.end() ? std::string(part.substr(open, close - open + 1))
                              : Fill(at->second, words);
    part.remove_prefix(close + 1);
  }
  return text += part;
}

}  // namespace cupola::passes
