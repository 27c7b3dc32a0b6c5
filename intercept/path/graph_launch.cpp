#include "intercept/path/graph_launch.h"

#include <algorithm>
#include <optional>

#include "intercept/facts/graphs.h"
#include "intercept/graphs/pieces.h"
#include "intercept/launch/demand.h"
#include "intercept/launch/gates.h"
#include "intercept/launch/gpu_board.h"
#include "intercept/launch/launch.h"
#include "intercept/launch/launch_context.h"
#include "intercept/launch/launch_counters.h"
#include "intercept/launch/plain_times.h"
#include "intercept/launch/preemption_settings.h"
#include "intercept/launch/stoppable_time.h"
#include "intercept/path/graph_feeder.h"
#include "intercept/path/node_launches.h"
#include "intercept/path/piece_row.h"
#include "intercept/preempt/host_holds.h"
#include "intercept/preempt/waiting.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/mutex_lock.h"

namespace cupola::intercept {
namespace {

// The stream waits until all pieces that were put into other streams have ended.
void WaitForPieces(LaunchContext& context, const Launch& launch) {
  PieceQueue& queue = context.pieces;
  (void)AwaitFed(context);
  if (queue.left() == 0) return;
  (void)StreamWaitsForWord(launch.stream, launch.per_thread, queue.ended_word(), queue.given.load());
}

enum class Way : uint8_t {
  kWhole,     ///< it cannot go in pieces: others are on their way to another stream, or the driver has too little room for it
  kNotNow,    ///< there is no room yet
  kLaunched,
};

// Puts all pieces into the program's stream, or defers the launch, if that is possible now. Of a launch that is held
// (`may_defer` is false) nothing may be waited for, so it is not deferred.
Way TryPieces(const Launch& launch, const StreamKey& stream, PieceRow& row, bool may_defer, CUresult* result) {
  LaunchContext& context = row.context();
  PieceQueue& queue = context.pieces;
  const MutexLock lock(context.launch_mutex);
  const bool is_fed = queue.pending() != 0;  // the deferred launches come first
  if ((is_fed || queue.left() != 0) && queue.stream.load() != stream.stream) return Way::kWhole;
  // Behind guards a stream has less room.
  const bool has_room = context.outstanding.load() == 0 || context.queued.left() + row.entries() <= kMostQueued;
  if (!is_fed && has_room && row.Fitting() == row.size()) {
    queue.stream.store(stream.stream);
    // No other thread's work comes between the pieces.
    context.half_made.fetch_add(1);
    row.Promise();
    *result = row.Put(launch.stream, launch.per_thread, row.size());
    context.half_made.fetch_sub(1);
    if (context.outstanding.load() != 0) context.queued.Add(row.entries());
    row.End();
    return Way::kLaunched;
  }
  const Deferral deferral = may_defer ? Defer(launch, row) : Deferral::kRefused;
  if (deferral == Deferral::kDeferred) {
    queue.stream.store(stream.stream);
    *result = CUDA_SUCCESS;
    return Way::kLaunched;
  }
  return row.MayFit() || deferral == Deferral::kNotNow ? Way::kNotNow : Way::kWhole;
}

// In pieces, if there are any and nothing speaks against it. False: nothing was done.
bool LaunchPieces(LaunchContext& context, const Launch& launch, const StreamKey& stream, graphs::PieceSet& set,
                  CUresult* result) {
  PieceRow row(context, set);
  // In a trial all kernels go as pieces, so that their times are those of pieces.
  const bool has_nodes = !set.kernels.empty() && !row.is_trial() && row.MayFit() && row.entries() <= kMostQueued;
  std::optional<NodeLaunches> nodes;
  if (has_nodes) nodes.emplace(context, launch, stream, set);
  preempt::EnterPlain(context);
  const uint64_t hold = preempt::BeginGraph(launch.graph, stream, launch.stream, launch.per_thread);
  if (nodes && !nodes->IsEmpty() && hold == 0) row.SetNodes(&*nodes);
  Way way = Way::kNotNow;
  for (PieceWait wait(context);;) {
    way = TryPieces(launch, stream, row, /*may_defer=*/hold == 0 && !row.HasNodes(), result);
    if (way != Way::kNotNow || !wait.Pause()) break;
  }
  preempt::EndHold(hold);
  if (way != Way::kLaunched) {
    row.End();
    return false;
  }
  context.pieces.last_launch.store(context.gpu->demand.plain_launches.load());
  Count(set.is_cut ? launch_counters.graphs_in_pieces : launch_counters.priorities);
  const uint64_t guarded_ns = row.HasNodes() ? nodes->ns() : 0;  // counted as they end
  if (set.is_cut) CountStopsBetween(*context.gpu, set.expected_ns - std::min(guarded_ns, set.expected_ns));
  return true;
}

// A graph that is no longer than a piece is held as well as one in pieces.
void CountWhole(GpuBoard& gpu, uint64_t expected_ns, const char* why) {
  if (expected_ns > preemption_settings.piece_ns) {
    CountStopsNot(gpu, expected_ns, why);
  } else {
    CountStopsBetween(gpu, expected_ns);
  }
}

}  // namespace

// A graph may put its stream behind other streams: it may contain waits for events, and it waits for its
// own last launch, which may be on another stream. RecordJoin accounts for that. A graph may also make the
// work behind it wait for the program; BeginGraph then records a hold of the stream.
CUresult LaunchGraph(LaunchContext& context, const Launch& launch, const StreamKey& stream,
                     const ProgramCall& call) noexcept {
  preempt::RecordJoin(context, launch.stream, launch.per_thread);
  const bool is_captured = IsCapturing(launch.stream, launch.per_thread);
  const bool may_be_held = !is_captured && GatesMayHold(context) && MapBoard(&context);
  const char* why = "";
  if (!is_captured) {
    const graphs::PiecesInUse pieces(launch.graph, context, stream.stream, may_be_held, WantsPriority(context));
    CUresult result = CUDA_SUCCESS;
    if (pieces.get() != nullptr && LaunchPieces(context, launch, stream, *pieces.get(), &result)) return result;
    if (pieces.is_elsewhere()) WaitForPieces(context, launch);  // plant: pieces_not_awaited
    why = pieces.why_whole();
  }
  std::optional<PlainTime> time;
  if (may_be_held) CountWhole(*context.gpu, time.emplace(launch, stream).ns(), why);
  GateStream(context, launch, stream);
  preempt::EnterPlain(context);
  const uint64_t hold =
      is_captured ? 0 : preempt::BeginGraph(launch.graph, stream, launch.stream, launch.per_thread);
  if (time) time->Begin();
  const CUresult result = MakePlainLaunch(context, launch, call);
  if (time) time->End(result);
  preempt::EndHold(hold);
  return result;
}

}  // namespace cupola::intercept
