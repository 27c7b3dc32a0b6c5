#include "device/compiler/passes/free_worker.h"

#include <string>

#include "device/compiler/passes/snippet.h"
#include "device/compiler/passes/worker_parts.h"

namespace cupola::passes {
namespace {

// Each warp goes from range to range by itself; no warp waits for a slower one, but where that is a
// whole range behind. A range is blocks with the same y and z. It grows to what takes look_after_ns
// to twice as long, for blocks of a microsecond or two would pay for what is between them with a
// good part of their time.
//
// Ranges have numbers, 0, 1, 2... modulo 2^32; range r lies in place r % 2 of the shared memory,
// cupola_worker:
//    0   a range: {x, y, z, one more than its last x; 0 = leave}
//   16   another one
//   32   {current, end, blocks run, seen}
//   48   {blocks of the claim that is under way, %globaltimer_lo when the range began, when to ask
//        for the stop word again, whether it was asked for with this range}
//   64   what was fetched: {where the claim begins, stop word, time of the poll}
//   80   {blocks that a range may have, blocks of the last one}
//   88   number of the range with which something was last fetched
//   92   1: it leaves because of a stop of some SMs only
//   96   of each place, warps that are through with the range in it; 0 = all of them, or none
//  104   number of the last range that was published
//  108   warps of the worker, less one
//  112   of each place, which warp decides on what follows the range in it: the first through with it,
//        0, or the last, as many as 108 says
// current: the block that begins the range; end: of the batch; seen: the claim counter as last
// seen, which the size of the next batch follows. All three count blocks in the order in which they
// are claimed; ClaimShape says which ones they are.
//
// All of it is done by lane 0 of a warp, for its warp:
//   - Through with range r, it counts itself at r's place. Who is the first there decides on range
//     r + 1 and publishes it; the others find it, or wait for it. So the fastest warp pays for the
//     decision, mostly while the others still run. Behind a range of one block that took long the
//     last one decides (112): where the first did, a stop would come to most warps two blocks late.
//   - What the decision on range r + 2 will need (the stop word once a poll, for an H200 serves one
//     word some 600 times a microsecond and no more; the next claim, with the last range of a
//     batch) the same warp fetches when it has published r + 1, while the others run on. Where a
//     range is one block and took longer than look_after_ns, the stop word is asked for again: what
//     that costs (some 0.6 us) is little beside so long a block, and the worker need not run
//     another one.
//   - It writes place (r + 1) % 2 when all warps are through with r - 1, which lay there. So at any
//     time all warps are in two ranges that follow each other, and a stop is late by no more than
//     that. More places would let it be later.
//   - What a warp waits for is mostly there, or comes within some 0.1 us; it may be much longer
//     where a warp is far behind. So those that wait sleep, twice as long each time, up to a
//     microsecond: a warp that spins takes issue slots from those that work.
//   - The worker leaves by a range that says so; then all meet at a barrier, and thread 0 leaves.
//
// Why this is right [PTX ISA 8.8, 8.9.5], all of it within the CTA:
//   - Who reads `published` (104) with acquire and finds r or more comes after all that the one who
//     decided on r did before its release, and after those who decided before that, for each of
//     them had acquired the range before. So the place can be read; and so can the words at 32, 48
//     and 80, which belong to whoever decides: one at a time, each after the other.
//   - What is fetched is written behind the publication, and has a release of its own (88). Who
//     decides next acquires it; whoever writes the words again comes after that.
//   - Lanes read a place before the bar.warp.sync at the end of its range, that comes before lane
//     0's addition (96) with release, and who writes the place again has read with acquire what the
//     additions came to: each of them heads a release sequence that goes on through the others'.
//   - Two may not decide on one range: additions to one word are in one order, one of them finds 0,
//     one what 108 says; which of the two decides lies at 112, written and read as the place is.
//     Who decides on r + 1 has added to the count of r - 1 itself, so that the 0 which it waits for
//     is that of all, not the one of before; and as r was published only after the place's count
//     had come to 0, additions for r begin there.
//
// The last warp decides behind a block that took look_after_ns << kLastDecidesShift or more.
constexpr int kLastDecidesShift = 2;

// Held over the body by all threads: the number of the range, x, its end.
constexpr std::string_view kDeclarations = R"(
  .shared .align 32 .b8 cupola_worker[<shared_bytes>];
  <registers>
  .reg .b32 %cupola_range, %cupola_next, %cupola_at;
  .reg .b32 %cupola_limit, %cupola_blocks, %cupola_looked, %cupola_decider;
)";

// Thread 0 sets up what warps share, as if range -1, of no blocks, were published and all about to be
// through with it, and reads how things stand, as if that had been fetched with it. The first warp
// then decides on range 0.
//
// So the loop has one entry, $cupola_head. ptxas then ends what lane 0 does alone, from there to
// $cupola_join, with a convergence barrier (BSSY, BSYNC), which brings the warp together. Where the
// loop could also be entered in the middle there was none, and warps ran the body in two parts, in
// twice the time. Nor was there where $cupola_head was so short that ptxas copied it to both places
// that lead there: so some of what only lane 0 needs comes before the branch. The test
// passes.convergence looks for the barrier.
constexpr std::string_view kBegin = R"(
  <is_leader>
  @%cupola_p0 bra $cupola_set_up;
  <addresses>
  <begin>
  mov.u32 %cupola_t0, %ntid.x;
  mov.u32 %cupola_t1, %ntid.y;
  mov.u32 %cupola_t2, %ntid.z;
  mul.lo.u32 %cupola_t0, %cupola_t0, %cupola_t1;
  mul.lo.u32 %cupola_t0, %cupola_t0, %cupola_t2;
  sub.u32 %cupola_t0, %cupola_t0, 1;
  shr.u32 %cupola_t3, %cupola_t0, 5;
  mov.u32 %cupola_t0, 0;
  mov.u32 %cupola_t1, 1;
  mov.u32 %cupola_t2, -1;
  st.shared.v4.u32 [cupola_worker+32], {%cupola_t0, %cupola_t0, %cupola_t0, %cupola_seen};
  st.shared.v4.u32 [cupola_worker+48], {%cupola_t0, %cupola_now, %cupola_now, %cupola_t1};
  st.shared.v4.u32 [cupola_worker+64], {%cupola_t0, %cupola_stop, %cupola_poll, %cupola_t0};
  st.shared.v4.u32 [cupola_worker+80], {%cupola_t1, %cupola_t0, %cupola_t2, %cupola_t0};
  st.shared.v4.u32 [cupola_worker+96], {%cupola_t0, %cupola_t0, %cupola_t2, %cupola_t3};
  st.shared.v2.u32 [cupola_worker+112], {%cupola_t0, %cupola_t0};
$cupola_set_up:
  mov.u32 %cupola_range, -1;
  bar.warp.sync -1;
  bar.sync <barrier>;
)";

// A warp is through with its range: is it the one that decides?
constexpr std::string_view kArrive = R"(
$cupola_head:
  mov.u32 %cupola_at, cupola_worker;
  and.b32 %cupola_t0, %cupola_range, 1;
  shl.b32 %cupola_t1, %cupola_t0, 2;
  add.u32 %cupola_t1, %cupola_at, %cupola_t1;
  mov.u32 %cupola_t0, %laneid;
  setp.ne.u32 %cupola_p1, %cupola_t0, 0;
  @%cupola_p1 bra $cupola_join;
  ld.shared.u32 %cupola_t2, [cupola_worker+108];
  ld.shared.u32 %cupola_t3, [%cupola_t1+112];
  atom.release.cta.shared.inc.u32 %cupola_t2, [%cupola_t1+96], %cupola_t2;
  setp.ne.u32 %cupola_p1, %cupola_t2, %cupola_t3;
  @%cupola_p1 bra $cupola_wait;
)";

// What the range was, and what was fetched with it. Words that are not needed soon go back to
// shared memory at once: registers are scarce.
constexpr std::string_view kLookBack = R"(
  <addresses>
  mov.u32 %cupola_now, %globaltimer_lo;
  ld.shared.v4.u32 {%cupola_count, %cupola_begun, %cupola_t0, %cupola_looked}, [cupola_worker+48];
  ld.shared.v2.u32 {%cupola_t3, %cupola_blocks}, [cupola_worker+80];
  ld.param.u32 %cupola_t2, [cupola_launch+<look_after_ns>];
  sub.u32 %cupola_t1, %cupola_now, %cupola_begun;
  setp.ge.u32 %cupola_p2, %cupola_t1, %cupola_t2;
  setp.eq.and.u32 %cupola_p2, %cupola_blocks, 1, %cupola_p2;
  shr.u32 %cupola_t0, %cupola_t1, <last_decides_shift>;
  setp.ge.and.u32 %cupola_p1, %cupola_t0, %cupola_t2, %cupola_p2;
  ld.shared.u32 %cupola_t0, [cupola_worker+108];
  selp.u32 %cupola_decider, %cupola_t0, 0, %cupola_p1;
  shr.u32 %cupola_t0, %cupola_t1, 1;
  setp.ge.u32 %cupola_p1, %cupola_t0, %cupola_t2;
  @%cupola_p1 shr.u32 %cupola_t3, %cupola_t3, 1;
  setp.eq.u32 %cupola_p1, %cupola_blocks, %cupola_t3;
  setp.lt.and.u32 %cupola_p1, %cupola_t1, %cupola_t2, %cupola_p1;
  @%cupola_p1 shl.b32 %cupola_t3, %cupola_t3, 1;
  max.u32 %cupola_t3, %cupola_t3, 1;
  st.shared.u32 [cupola_worker+80], %cupola_t3;
  ld.shared.v4.u32 {%cupola_current, %cupola_end, %cupola_run, %cupola_seen}, [cupola_worker+32];
  add.u32 %cupola_run, %cupola_run, %cupola_blocks;
  add.u32 %cupola_current, %cupola_current, %cupola_blocks;
  st.shared.u32 [cupola_worker+40], %cupola_run;
  or.b32 %cupola_t0, %cupola_count, %cupola_looked;
  setp.eq.u32 %cupola_p1, %cupola_t0, 0;
  mov.u32 %cupola_ahead, 0;
  mov.u32 %cupola_stop, 0;
  mov.u32 %cupola_poll, 0;
  @%cupola_p1 bra $cupola_fetched;
$cupola_fetching:
  ld.acquire.cta.shared.u32 %cupola_t0, [cupola_worker+88];
  setp.ne.u32 %cupola_p1, %cupola_t0, %cupola_range;
  @%cupola_p1 bra $cupola_fetching;
  ld.shared.v4.u32 {%cupola_ahead, %cupola_stop, %cupola_poll, %cupola_t0}, [cupola_worker+64];
$cupola_fetched:
  @%cupola_p2 ld.relaxed.gpu.global.v2.u32 {%cupola_stop, %cupola_poll}, [%cupola_control];
  ld.param.u32 %cupola_t0, [cupola_launch+<poll_period_ns>];
  add.u32 %cupola_t0, %cupola_now, %cupola_t0;
  @%cupola_p2 st.shared.u32 [cupola_worker+56], %cupola_t0;
  @%cupola_p2 bra $cupola_decide;
  setp.eq.u32 %cupola_p1, %cupola_looked, 0;
  @%cupola_p1 bra $cupola_go_on;
)";

// The place of the range.
constexpr std::string_view kFindPlace = R"(
  mov.u32 %cupola_at, cupola_worker;
  and.b32 %cupola_t0, %cupola_range, 1;
  shl.b32 %cupola_t0, %cupola_t0, 4;
  add.u32 %cupola_at, %cupola_at, %cupola_t0;
)";

// One that waits sleeps, longer each time.
constexpr std::string_view kSleepLonger = R"(
  nanosleep.u32 %cupola_t3;
  shl.b32 %cupola_t3, %cupola_t3, 1;
  min.u32 %cupola_t3, %cupola_t3, 1000;
)";

// The range: as many blocks as it may have and the batch and the row still hold; one where batches
// end. Its place is free when all warps are through with the range that lay there.
constexpr std::string_view kPublish = R"(
$cupola_publish:
  ld.param.u32 %cupola_t0, [cupola_launch+<grid_x>];
  sub.u32 %cupola_blocks, %cupola_end, %cupola_current;
  sub.u32 %cupola_t0, %cupola_t0, %cupola_next_x;
  min.u32 %cupola_blocks, %cupola_blocks, %cupola_t0;
  ld.shared.u32 %cupola_limit, [cupola_worker+80];
  min.u32 %cupola_blocks, %cupola_blocks, %cupola_limit;
  ld.param.u32 %cupola_t0, [cupola_launch+<full_until>];
  setp.ge.u32 %cupola_p1, %cupola_current, %cupola_t0;
  @%cupola_p1 min.u32 %cupola_blocks, %cupola_blocks, 1;
  ld.param.u32 %cupola_t1, [cupola_launch+<stride>];
  sub.u32 %cupola_t2, %cupola_blocks, 1;
  mad.lo.u32 %cupola_t2, %cupola_t2, %cupola_t1, %cupola_next_x;
  add.u32 %cupola_next_end, %cupola_t2, 1;
$cupola_tell:
  add.u32 %cupola_next, %cupola_range, 1;
  mov.u32 %cupola_at, cupola_worker;
  and.b32 %cupola_t0, %cupola_next, 1;
  shl.b32 %cupola_t1, %cupola_t0, 2;
  add.u32 %cupola_t1, %cupola_at, %cupola_t1;
  shl.b32 %cupola_t0, %cupola_t0, 4;
  add.u32 %cupola_at, %cupola_at, %cupola_t0;
  mov.u32 %cupola_t3, 100;
$cupola_behind:
  ld.acquire.cta.shared.u32 %cupola_t2, [%cupola_t1+96];
  setp.eq.u32 %cupola_p1, %cupola_t2, 0;
  @%cupola_p1 bra $cupola_is_free;
  <sleep_longer>
  bra.uni $cupola_behind;
$cupola_is_free:
  st.shared.u32 [%cupola_t1+112], %cupola_decider;
  st.shared.v4.u32 [%cupola_at],
      {%cupola_next_x, %cupola_next_y, %cupola_next_z, %cupola_next_end};
  mov.u32 %cupola_count, 0;
  mov.u32 %cupola_looked, 0;
  setp.eq.u32 %cupola_p1, %cupola_next_end, 0;
  @%cupola_p1 bra $cupola_told;
)";

// What to fetch with it; then the range is told.
constexpr std::string_view kFetch = R"(
  mov.u32 %cupola_now, %globaltimer_lo;
  ld.shared.u32 %cupola_look_at, [cupola_worker+56];
  sub.u32 %cupola_t0, %cupola_now, %cupola_look_at;
  setp.ge.s32 %cupola_p1, %cupola_t0, 0;
  @%cupola_p1 mov.u32 %cupola_looked, 1;
  ld.param.u32 %cupola_t0, [cupola_launch+<poll_period_ns>];
  @%cupola_p1 add.u32 %cupola_look_at, %cupola_now, %cupola_t0;
  add.u32 %cupola_t0, %cupola_current, %cupola_blocks;
  setp.lt.u32 %cupola_p1, %cupola_t0, %cupola_end;
  setp.ge.or.u32 %cupola_p1, %cupola_seen, %cupola_total, %cupola_p1;
  @%cupola_p1 bra $cupola_keep;
  <count>
$cupola_keep:
  st.shared.v4.u32 [cupola_worker+48],
      {%cupola_count, %cupola_now, %cupola_look_at, %cupola_looked};
  st.shared.u32 [cupola_worker+84], %cupola_blocks;
  st.shared.v2.u32 [cupola_worker+32], {%cupola_current, %cupola_end};
  st.shared.u32 [cupola_worker+44], %cupola_seen;
$cupola_told:
  st.release.cta.shared.u32 [cupola_worker+104], %cupola_next;
  or.b32 %cupola_t0, %cupola_count, %cupola_looked;
  setp.eq.u32 %cupola_p1, %cupola_t0, 0;
  @%cupola_p1 bra $cupola_join;
  <addresses>
  setp.ne.u32 %cupola_p2, %cupola_looked, 0;
  setp.ne.u32 %cupola_p3, %cupola_count, 0;
  mov.u32 %cupola_ahead, 0;
  mov.u32 %cupola_stop, 0;
  mov.u32 %cupola_poll, 0;
  @%cupola_p2 ld.relaxed.gpu.global.v2.u32 {%cupola_stop, %cupola_poll}, [%cupola_control];
  @%cupola_p3 atom.relaxed.gpu.global.add.u32 %cupola_ahead, [%cupola_slot+<slot_next>],
      %cupola_count;
  st.shared.v4.u32 [cupola_worker+64], {%cupola_ahead, %cupola_stop, %cupola_poll, %cupola_poll};
  st.release.cta.shared.u32 [cupola_worker+88], %cupola_next;
  bra.uni $cupola_join;
)";

// The next range, as it was told.
constexpr std::string_view kWait = R"(
$cupola_wait:
  mov.u32 %cupola_t3, 100;
$cupola_look_again:
  ld.acquire.cta.shared.u32 %cupola_t0, [cupola_worker+104];
  sub.u32 %cupola_t0, %cupola_t0, %cupola_range;
  setp.ge.s32 %cupola_p1, %cupola_t0, 1;
  @%cupola_p1 bra $cupola_join;
  <sleep_longer>
  bra.uni $cupola_look_again;
$cupola_join:
  bar.warp.sync -1;
  add.u32 %cupola_range, %cupola_range, 1;
  <find_place>
  ld.shared.v4.u32 {%cupola_x, %cupola_y, %cupola_z, %cupola_x_end}, [%cupola_at];
  <merge>
  setp.eq.u32 %cupola_p1, %cupola_x_end, 0;
  @%cupola_p1 bra $cupola_leave;
$cupola_body:
)";

// Within a range. The warp comes together, for its lanes may have parted in the body; at the end of
// the range, so that all of them have read its place.
constexpr std::string_view kTail = R"(
$cupola_tail:
  bar.warp.sync -1;
  ld.param.u32 %cupola_t0, [cupola_launch+<stride>];
  add.u32 %cupola_x, %cupola_x, %cupola_t0;
  setp.lt.u32 %cupola_p1, %cupola_x, %cupola_x_end;
  @%cupola_p1 bra $cupola_body;
  bra.uni $cupola_head;
)";

// The worker is to leave: the range that says so.
constexpr std::string_view kStopHere = R"(
$cupola_stop_here:
  mov.u32 %cupola_next_x, 0;
  mov.u32 %cupola_next_y, 0;
  mov.u32 %cupola_next_z, 0;
  mov.u32 %cupola_next_end, 0;
  bra.uni $cupola_tell;
)";

// All warps come here.
constexpr std::string_view kLeadersOnly = R"(
  bar.sync <barrier>;
  <is_leader>
  @%cupola_p0 bra $cupola_gone;
  <addresses>
)";

}  // namespace

WorkerCode MakeFreeWorker(const WorkerShape& shape) {
  Words words = WorkerParts();
  words["barrier"] = std::to_string(shape.barrier);
  words["leaders_only"] = kLeadersOnly;
  words["find_place"] = kFindPlace;
  words["last_place"] = "%cupola_at";
  words["sleep_longer"] = kSleepLonger;
  words["shared_bytes"] = std::to_string(kFreeWorkerBytes);
  words["last_decides_shift"] = std::to_string(kLastDecidesShift);
  words["at_run"] = "40";
  words["at_told"] = "92";
  std::string before(kDeclarations);
  for (const std::string_view part : {kBegin, kArrive, kLookBack}) before += part;
  before += "<decide><go_on>";
  for (const std::string_view part : {kPublish, kFetch, kWait}) before += part;
  // One text, so that labels of the parts see each other.
  std::string after(kTail);
  after += "<claim><poll><yield>";
  after += kStopHere;
  after += "<leave>";
  return {Snippet(Fill(before, words)), Snippet(Fill(after, words))};
}

}  // namespace cupola::passes
