#include "intercept/tasks/task_launch.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "device/runtime/task_grid.h"
#include "intercept/facts/green_contexts.h"
#include "intercept/facts/launch_limits.h"
#include "intercept/facts/live_streams.h"
#include "intercept/images/images.h"
#include "intercept/images/variant.h"
#include "intercept/launch/hardware_queues.h"
#include "intercept/launch/launch.h"
#include "intercept/launch/launch_prediction.h"
#include "intercept/launch/loaded_kernels.h"
#include "intercept/launch/own_call_scope.h"
#include "intercept/launch/packed_launch.h"
#include "intercept/launch/resident.h"
#include "intercept/launch/variant_use.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/mutex_lock.h"
#include "intercept/tasks/driver_work.h"
#include "intercept/tasks/task_demand.h"
#include "intercept/tasks/task_engines.h"
#include "intercept/tasks/task_rules.h"
#include "intercept/tasks/task_streams.h"
#include "intercept/tasks/task_times.h"
#include "intercept/tasks/tasks.h"

namespace cupola::intercept::tasks {
namespace {

using runtime::TaskGrid;
using runtime::TaskHeader;
using runtime::TaskWords;

constexpr uint32_t kWordsBefore = (sizeof(TaskHeader) + sizeof(TaskGrid)) / sizeof(uint32_t);
constexpr Reason kIsTask = Reason::kNone;

// Held while a kernel is loaded for tasks, for the whole of the driver's call.
pthread_mutex_t load_mutex = PTHREAD_MUTEX_INITIALIZER;

/// A row: narrow launches of the process that follow each other closely. Any thread, relaxed: all
/// that it decides is when tasks begin.
struct Row {
  std::atomic<uint32_t> length{0};  ///< launches in the row
  /// Launches that would have been tasks, before the first task of the process.
  std::atomic<uint32_t> ripe{0};
  std::atomic<uint64_t> last_ns{0};         ///< time of the last launch
  std::atomic<uint64_t> quiet_until_ns{0};  ///< until then no tasks: wide kernels came between
  std::atomic<uint64_t> quiet_ns{0};        ///< length of the last such pause
  std::atomic<uint64_t> tasks_at_end{0};  ///< TaskCounters::tasks when the row last ended
} row;

constexpr uint64_t kFirstQuietNs = 200'000, kMostQuietNs = 1'000'000'000;
constexpr uint64_t kWorthwhile = 64;  // tasks in a row that pay for a start

// A launch that is too wide for a task ends the row. If only few tasks were made since the last
// such launch, they have cost more than they gained: then none are made for a while, longer each
// time.
void EndRow() {
  row.length.store(0, std::memory_order_relaxed);
  const uint64_t tasks = task_counters.tasks.load(std::memory_order_relaxed);
  const uint64_t made = tasks - row.tasks_at_end.exchange(tasks, std::memory_order_relaxed);
  if (made == 0) return;
  if (made >= kWorthwhile) return row.quiet_ns.store(0, std::memory_order_relaxed);
  const uint64_t quiet =
      std::clamp(2 * row.quiet_ns.load(std::memory_order_relaxed), kFirstQuietNs, kMostQuietNs);
  row.quiet_ns.store(quiet, std::memory_order_relaxed);
  row.quiet_until_ns.store(NowNs() + quiet, std::memory_order_relaxed);
}

// Counts a launch and judges whether so many followed each other so closely that tasks pay.
Reason JudgeTimes() {
  const uint64_t now = NowNs();
  const uint64_t last = row.last_ns.exchange(now, std::memory_order_relaxed);
  if (now < row.quiet_until_ns.load(std::memory_order_relaxed)) return Reason::kMixed;
  if (now - last > task_settings.row_ns && task_settings.after_launches != 0) {
    row.length.store(0, std::memory_order_relaxed);
  }
  const uint32_t length = row.length.fetch_add(1, std::memory_order_relaxed);
  if (length < task_settings.after_launches) return Reason::kFew;
  const bool is_ripe =
      task_settings.ripe_launches == 0 || AnyEngineIsReady() ||
      (row.ripe.fetch_add(1, std::memory_order_relaxed) >= task_settings.ripe_launches && !is_batch_measured.load(std::memory_order_relaxed));
  return is_ripe ? kIsTask : Reason::kFew;
}

// Whether tasks pay. When a pause without tasks ends, each stream may have been given driver work
// that was not recorded, so AfterWork records some for all.
bool TasksPay() {
  return worth.Pays([] { return NowNs(); }, [] { AfterWork(); });
}

// Called for launches that are plain because tasks do not pay. Every kEvery calls of a thread it
// looks whether all engines are idle; if so, launches may pass by (PassesBy).
void LookWhetherIdle() {
  constexpr uint32_t kEvery = 64;
  thread_local uint32_t looks = 0;
  if (++looks % kEvery != 0) return;
  const uint64_t put = PutSoFar();
  bool is_idle = true;
  ForEachReadyEngine([&](const TaskEngine& engine) { is_idle = is_idle && engine.IsIdle(); });
  if (is_idle) task_counters.idle_at.store(put, std::memory_order_relaxed);
}

// As JudgeTimes, but a launch is also in a row while a MasterKernel runs; PutIn looks later of
// which context that one is.
Reason JudgeRow() {
  if (!TasksPay()) [[unlikely]]
    return Reason::kLong;
  return AnyEngineRuns() ? kIsTask : JudgeTimes();
}

// How long the kernel takes by its plan; 0 if there is no plan.
uint64_t PlannedNs(const Launch& launch, Variant& variant) {
  if (!variant.settled.load(std::memory_order_acquire)) {
    if (!PreemptionOn()) return 0;
    const LaunchContext* const context =
        ContextOf(ResolveStream(launch.stream, launch.per_thread));
    if (context == nullptr) return 0;
    SettleVariant(variant, *context);
  }
  return PredictByPlan(variant, launch, launch.params, launch.extra);
}

Reason JudgeShape(const Launch& launch, Variant* variant) {
  if (variant == nullptr || (variant->entry->flags & store::kTask) == 0) return Reason::kNoBody;
  const store::KernelEntry& entry = *variant->entry;
  const uint64_t threads = uint64_t{launch.block[0]} * launch.block[1] * launch.block[2];
  const uint64_t blocks = uint64_t{launch.grid[0]} * launch.grid[1] * launch.grid[2];
  const uint64_t warps = (threads + 31) / 32;
  const uint32_t executors = runtime::MtbExecutors(variant->image->bundle.header().task_registers);
  if (!GridIsAllowed(launch.grid) || !BlockIsAllowed(launch.block) || warps > executors ||
      warps * blocks > task_settings.most_warps ||
      entry.task_shared + uint64_t{launch.shared_bytes} >
          runtime::kArenaUnits * runtime::kTaskUnitBytes ||
      (entry.max_threads != 0 && threads > entry.max_threads) ||
      !KernelAllows(*variant, launch.block, launch.shared_bytes)) {
    return Reason::kWide;
  }
  if ((entry.flags & store::kTaskNotBitExact) != 0 && !task_settings.allow_inexact) {
    return Reason::kInexact;
  }
  const bool has_attributes = launch.attribute_count != 0;
  if (has_attributes || (launch.flags & kFlagCooperative) != 0) return Reason::kAttribute;
  // A kernel that would take too long, with as many streams as there are, need not be tried.
  const uint64_t ns = PlannedNs(launch, *variant);
  if (ns != 0 && ns > worth.LimitNs(StreamsSoFar(), blocks != 1)) return Reason::kLong;
  return kIsTask;
}

void FillHead(const Launch& launch, const store::KernelEntry& entry, TaskWords* words) {
  const auto narrow = [](uint32_t value) { return static_cast<uint16_t>(value); };
  const uint32_t used = kWordsBefore + (entry.parameter_bytes + 3) / 4;
  words->header = {
      .body = narrow(entry.task_body),
      .chunks = static_cast<uint8_t>((used + runtime::kChunkWords - 1) / runtime::kChunkWords),
      .barrier = (entry.flags & store::kTaskBarrier) != 0 ? runtime::kMeetsAndLeaves : uint8_t{0},
      .threads = narrow(launch.block[0] * launch.block[1] * launch.block[2]),
      .after = 0,
      .blocks = launch.grid[0] * launch.grid[1] * launch.grid[2],
      .shared_bytes = entry.task_shared + launch.shared_bytes};
  const TaskGrid grid{
      .block = {narrow(launch.block[0]), narrow(launch.block[1]), narrow(launch.block[2])},
      .blocks_z = narrow(launch.grid[2]),
      .blocks_x = launch.grid[0],
      .blocks_y = launch.grid[1]};
  memcpy(words->words + sizeof(TaskHeader) / sizeof(uint32_t), &grid, sizeof(grid));
}

/// Decides when an engine is to turn to another module: after as many launches of other modules in
/// a row as precede the first task, and after twice as many each time that few tasks were made
/// between two turns. If the engine's own module was unloaded only the first number counts. Any
/// thread, relaxed: a turn too early or too late costs time, nothing else.
class Turns {
 public:
  bool IsTime(const TaskEngine& engine) {
    uint32_t wanted = task_settings.after_launches;
    if (!engine.Serves(nullptr)) {
      wanted = std::max(wanted, wanted_.load(std::memory_order_relaxed));
    }
    return elsewhere_.fetch_add(1, std::memory_order_relaxed) >= wanted;
  }
  void CountTask() {
    if (elsewhere_.load(std::memory_order_relaxed) != 0) {
      elsewhere_.store(0, std::memory_order_relaxed);
    }
  }
  void CountTurn() {
    const uint64_t tasks = task_counters.tasks.load(std::memory_order_relaxed);
    const uint64_t made = tasks - tasks_at_turn_.exchange(tasks, std::memory_order_relaxed);
    const uint32_t before = wanted_.load(std::memory_order_relaxed);
    wanted_.store(made < kWorthwhile ? std::clamp(2 * before, kFewest, kMost) : 0,
                  std::memory_order_relaxed);
    elsewhere_.store(0, std::memory_order_relaxed);
  }

 private:
  static constexpr uint32_t kFewest = 64, kMost = 65'536;
  std::atomic<uint32_t> elsewhere_{0};  ///< launches of other modules since the last task
  std::atomic<uint32_t> wanted_{0};          ///< such launches before the next turn, at least
  std::atomic<uint64_t> tasks_at_turn_{0};   ///< TaskCounters::tasks at the last turn
};
Turns turns[kMostEngines];  // by engine

void Turn(TaskEngine& engine, Image* image) {
  const AllStreams held(engine);
  if (engine.Serves(image) || !engine.IsReady()) return;
  engine.TurnTo(image);
  turns[engine.index()].CountTurn();
}

// Has the driver load the kernel now. The driver loads a kernel at its first launch and waits for
// the device meanwhile. Without Cupola it would do so at this launch, and so it is to do it here: a
// later launch of the kernel that cannot be a task may be behind work that waits for the host.
// Other threads that launch the kernel meanwhile wait here, as a launch would. If they sent theirs
// to the driver instead, their streams would have driver work for long, and each would load the
// same kernel in a scope of its own. False: the kernel cannot be loaded here, or its parameters do
// not lie where the bundle says.
bool IsLoadedIn(const TaskEngine& engine, Variant& variant, const void* program) {
  static_assert(kMostEngines < 32);
  const uint32_t bit = 1u << engine.index();
  const uint32_t before = variant.loaded_for_tasks.load(std::memory_order_relaxed);
  if ((before & bit) != 0) return true;
  if ((before & Variant::kLiesElsewhere) != 0) return false;
  if (CurrentContext() != engine.context()) return false;
  const MutexLock lock(load_mutex);
  const uint32_t loaded = variant.loaded_for_tasks.load(std::memory_order_relaxed);
  if ((loaded & bit) != 0) return true;
  if ((loaded & Variant::kLiesElsewhere) != 0) return false;
  const NoTasksScope no_tasks;
  if (!no_tasks.is_clear()) return false;
  const OwnCallScope nothing_stopped;
  if (!nothing_stopped.may_ask()) return false;
  const RelaxedCapture relaxed;
  const CUfunction original = OriginalOf(variant, program);
  const auto load = CUPOLA_CALL_REAL(cuFuncLoad, PFN_cuFuncLoad_v12040);
  if (original != nullptr && load(original) == CUDA_SUCCESS) MarkLoaded(program);
  const bool agrees = original == nullptr || LieAsBundled(variant, original, 0);
  variant.loaded_for_tasks.fetch_or(agrees ? bit : Variant::kLiesElsewhere,
                                    std::memory_order_relaxed);
  return agrees;
}

// Whether the engine of the stream's context, or null, can take the launch; sets it up if needed.
Reason JudgeEngine(TaskEngine* engine, const Variant& variant) {
  if (engine == nullptr) return Reason::kNoEngine;
  if (engine->state() == TaskEngine::State::kNone) {
    if (CurrentContext() != engine->context()) return Reason::kElsewhere;
    engine->Open(variant.image);
    if (engine->state() == TaskEngine::State::kNone) return Reason::kBusy;
  }
  if (!engine->IsReady()) return Reason::kNoEngine;
  if (!engine->Serves(variant.image) && !turns[engine->index()].IsTime(*engine)) {
    return Reason::kElsewhere;
  }
  return kIsTask;
}

// Puts a launch in whose shape and row allow it. Checks the rest: captures, scopes, the engine, and
// that no driver work of the stream is outstanding.
Reason PutIn(const Launch& launch, Variant& variant) {
  if (open_captures.load(std::memory_order_relaxed) != 0) return Reason::kCapturing;
  resident.batches.end_row();  // launches before this one that are held back go to the driver first
  const StreamKey key = ResolveStream(launch.stream, launch.per_thread);
  if (IsGreen(launch.stream, key)) return Reason::kGreen;
  if (IsAskedToYield(key)) return Reason::kAsked;
  if (!StreamsFitTasks()) {
    RecordTooManyStreams();
    return Reason::kTooManyStreams;
  }
  TaskEngine* engine = EngineOf(key.context);
  if (engine == nullptr || !engine->IsRunning()) {
    // The MasterKernel that runs, if any, is of another context.
    if (const Reason why = AnyEngineRuns() ? JudgeTimes() : kIsTask; why != kIsTask) return why;
    if (engine == nullptr) engine = EngineFor(key.context);
  }
  if (const Reason why = JudgeEngine(engine, variant); why != kIsTask) return why;
  if (!IsLoadedIn(*engine, variant, launch.function)) return Reason::kElsewhere;
  if (scopes.load(std::memory_order_acquire) != 0) return Reason::kScope;
  StreamTasks* const stream = FindStream(*engine, launch.stream, key);
  if (stream == nullptr) return Reason::kStream;
  PrefetchFor(*stream, *engine);
  if (!engine->Serves(variant.image)) Turn(*engine, variant.image);
  const StreamLock lock(*stream);
  if (open_captures.load() != 0) return Reason::kCapturing;
  if (scopes.load() != 0) return Reason::kScope;
  if (!engine->IsReady()) return Reason::kNoEngine;
  if (!engine->Serves(variant.image)) return Reason::kElsewhere;
  if (!MayBeTask(*stream, *engine)) return Reason::kTrial;
  if (!IsClean(*stream)) return Reason::kDriverWork;
  TaskWords words;
  FillHead(launch, *variant.entry, &words);
  uint32_t* const parameters = words.words + kWordsBefore;
  const store::KernelEntry& entry = *variant.entry;
  if (!CopyArguments(launch.params, launch.extra, variant.parameters, entry.parameters,
                              entry.parameter_bytes, parameters)) {
    return Reason::kArguments;
  }
  stream->spreads.store(words.header.blocks != 1, std::memory_order_relaxed);
  const TaskDemand demand(key, launch.stream, launch.function);
  if (!PutInto(*stream, &words)) return Reason::kNoEngine;
  turns[engine->index()].CountTask();
  return kIsTask;
}

}  // namespace

void CountPassedBy() noexcept {
  task_counters.plain[static_cast<size_t>(Reason::kLong)].fetch_add(
      std::exchange(this_thread.passed_by, 0), std::memory_order_relaxed);
  task_counters.plain[this_thread.never_why].fetch_add(std::exchange(this_thread.never_passed, 0),
                                                  std::memory_order_relaxed);
}

bool LookWhilePassing() noexcept {
  const bool passes = !TasksPay();
  if (!passes) --this_thread.passed_by;
  CountPassedBy();
  return passes;
}

bool IsInRow() noexcept { return JudgeRow() == kIsTask; }

Reason TryTask(const Launch& launch, CUresult* result) noexcept {
  if ((this_thread.passed_by | this_thread.never_passed) != 0) CountPassedBy();
  Variant* const variant = FindVariant(launch.function);
  Reason why = JudgeShape(launch, variant);
  const bool is_narrow = why == kIsTask;
  this_thread.never_in_row = is_narrow ? 0 : this_thread.never_in_row + 1;
  this_thread.never_why = static_cast<uint8_t>(is_narrow ? Reason::kNoBody : why);
  if (is_narrow) why = JudgeRow();
  if (why == kIsTask) why = PutIn(launch, *variant);
  if (why == kIsTask) [[likely]] {
    task_counters.tasks.fetch_add(1, std::memory_order_release);
    *result = CUDA_SUCCESS;
    return kIsTask;
  }
  Count(task_counters.plain[static_cast<size_t>(why)]);
  if (!is_narrow) EndRow();
  if (why == Reason::kLong) LookWhetherIdle();
  BeforePlainLaunch(launch.function, launch.stream, launch.per_thread);
  return why;
}

}  // namespace cupola::intercept::tasks
