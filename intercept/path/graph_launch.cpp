#include "intercept/path/graph_launch.h"

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
#include "intercept/preempt/host_holds.h"
#include "intercept/preempt/waiting.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/fast_clock.h"
#include "intercept/process/mutex_lock.h"
#include "intercept/process/patient_wait.h"

namespace cupola::intercept {
namespace {

// A write costs the stream 2 us (H200), so it is not made behind each piece.
constexpr uint32_t kPiecesAWrite = 8;

// Waits until the driver has room for the pieces. False: pieces before them do not go on although
// nobody holds the process; perhaps they wait for what the program does next.
bool AwaitRoom(LaunchContext& context, const graphs::PieceSet& set, bool is_trial) {
  const auto count = static_cast<uint32_t>(set.execs.size());
  const uint32_t counted = is_trial ? 2 * count : count;
  const PieceQueue& queue = context.pieces;
  PatientWait wait;
  uint32_t seen = queue.left();
  uint64_t since_ns = 0;
  for (;;) {
    const uint32_t left = queue.left();
    const uint64_t entries = (left + count) * (uint64_t{set.nodes} + graphs::kEntriesOfPiece * count) / count;
    const bool fits = entries <= graphs::kMostQueuedEntries && left + counted <= graphs::kMostQueuedPieces;
    if (left == 0 || fits) return true;
    const uint64_t now = NowNs();
    const bool is_held = context.gpu->requests() != 0;
    if (left != seen || since_ns == 0 || is_held) {
      seen = left;
      since_ns = now;
    }
    const uint64_t limit_ns = preemption_settings.wait_limit_ns;
    if (limit_ns != 0 && now - since_ns >= limit_ns) return false;
    wait.Pause(/*is_held=*/true);  // what is left in the queue takes long: there is no hurry
  }
}

// The stream writes how many pieces have ended, `count` more than the last time. Where the driver refuses that they are not
// counted.
void WriteEnded(LaunchContext& context, const Launch& launch, uint32_t count) {
  const auto write = Real<PFN_cuStreamWriteValue32_v11070>(
      launch.per_thread ? Call::k_cuStreamWriteValue32_v2_ptsz : Call::k_cuStreamWriteValue32_v2);
  PieceQueue& queue = context.pieces;
  const uint32_t number = queue.given.fetch_add(count) + count;
  if (write(launch.stream, queue.word_device.load(), number, 0) != CUDA_SUCCESS) queue.given.fetch_sub(count);
}

// The stream waits until all pieces that were put into other streams have ended.
void WaitForPieces(LaunchContext& context, const Launch& launch) {
  PieceQueue& queue = context.pieces;
  if (queue.left() == 0) return;
  const auto wait = Real<PFN_cuStreamWaitValue32_v11070>(
      launch.per_thread ? Call::k_cuStreamWaitValue32_v2_ptsz : Call::k_cuStreamWaitValue32_v2);
  (void)wait(launch.stream, queue.word_device.load(), queue.given.load(), CU_STREAM_WAIT_VALUE_GEQ);
}

bool RecordEvent(const Launch& launch, CUevent event) {
  const auto record = Real<PFN_cuEventRecord_v2000>(launch.per_thread ? Call::k_cuEventRecord_ptsz
                                                                      : Call::k_cuEventRecord);
  return record(event, launch.stream) == CUDA_SUCCESS;
}

// Puts all pieces into the stream. The first that the driver refuses ends the row; what it refused is returned.
CUresult PutPieces(LaunchContext& context, const Launch& launch, const StreamKey& stream, graphs::PieceSet& set,
                   bool is_trial) {
  using Trial = graphs::PieceSet::Trial;
  const auto launch_graph = Real<PFN_cuGraphLaunch_v10000>(launch.per_thread ? Call::k_cuGraphLaunch_ptsz
                                                                              : Call::k_cuGraphLaunch);
  if (is_trial) set.wake = context.gpu->slot().wake.load();
  context.pieces.stream.store(stream.stream);
  context.pieces.longest_ns.store(set.longest_ns);
  CUresult result = CUDA_SUCCESS;
  uint32_t unwritten = 0;
  bool is_timed = is_trial;
  for (size_t i = 0; i < set.execs.size() && result == CUDA_SUCCESS; ++i) {
    GateStream(context, launch, stream, GateWhen::kAlways);  // plant: piece_ungated
    if (is_timed) is_timed = RecordEvent(launch, set.events[2 * i]);
    result = launch_graph(set.execs[i], launch.stream);  // plant: piece_early
    if (is_timed) is_timed = RecordEvent(launch, set.events[2 * i + 1]);
    if (++unwritten < kPiecesAWrite && i + 1 != set.execs.size() && result == CUDA_SUCCESS) continue;
    WriteEnded(context, launch, unwritten);
    unwritten = 0;
  }
  context.queued.Add(set.execs.size() + set.execs.size() / kPiecesAWrite + 1);
  if (is_trial && is_timed && result == CUDA_SUCCESS) {
    graphs::OnTrialSubmitted(set);
  } else if (is_trial) {
    set.trial.store(Trial::kNone);
  }
  return result;
}

// In pieces, if there are any and nothing speaks against it. False: nothing was done.
bool LaunchPieces(LaunchContext& context, const Launch& launch, const StreamKey& stream, graphs::PieceSet& set,
                  CUresult* result) {
  if (context.pieces.left() != 0 && context.pieces.stream.load() != stream.stream) return false;
  using Trial = graphs::PieceSet::Trial;
  Trial wanted = Trial::kWanted;
  const bool is_trial = set.trial.compare_exchange_strong(wanted, Trial::kBegun);
  if (!AwaitRoom(context, set, is_trial)) {
    if (is_trial) set.trial.store(Trial::kWanted);
    return false;
  }
  preempt::EnterPlain(context);
  const uint64_t hold = preempt::BeginGraph(launch.graph, stream, launch.stream, launch.per_thread);
  {
    const MutexLock lock(context.launch_mutex);
    // No other thread's work comes between the pieces.
    context.half_made.store(1);
    *result = PutPieces(context, launch, stream, set, is_trial);
    context.half_made.store(0);
  }
  preempt::EndHold(hold);
  Count(set.is_cut ? launch_counters.graphs_in_pieces : launch_counters.priorities);
  if (set.is_cut) CountStopsBetween(*context.gpu, set.expected_ns);
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
