#include "intercept/tasks/task_launch.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "device/runtime/task_grid.h"
#include "intercept/batches/batches.h"
#include "intercept/facts/green_contexts.h"
#include "intercept/facts/launch_limits.h"
#include "intercept/facts/live_streams.h"
#include "intercept/path/launch_path.h"
#include "intercept/preempt/hardware_queues.h"
#include "intercept/preempt/launch_arguments.h"
#include "intercept/preempt/launch_prediction.h"
#include "intercept/preempt/preemption.h"
#include "intercept/preempt/variants.h"
#include "intercept/preempt/waiting.h"
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

using preempt::PredictByPlan;
using runtime::TaskGrid;
using runtime::TaskHeader;
using runtime::TaskWords;

constexpr uint32_t kWordsBefore = (sizeof(TaskHeader) + sizeof(TaskGrid)) / sizeof(uint32_t);
constexpr Plain kIsTask = Plain::kCount;

// Held while a kernel is loaded for tasks, over the driver's call.
pthread_mutex_t load_mutex = PTHREAD_MUTEX_INITIALIZER;

/// Narrow launches of the process that followed each other closely. Any thread, relaxed: it decides
/// when tasks begin, nothing else.
struct Row {
  std::atomic<uint32_t> length{0};
  std::atomic<uint32_t> ripe{0};  ///< launches so far that would have been tasks, before the first one
  std::atomic<uint64_t> last_ns{0};
  std::atomic<uint64_t> quiet_until_ns{0};  ///< wide kernels came between too often
  std::atomic<uint64_t> quiet_ns{0};
  std::atomic<uint64_t> tasks_at_end{0};  ///< Counters::tasks when the row last ended
} row;

constexpr uint64_t kFirstQuietNs = 200'000, kMostQuietNs = 1'000'000'000;
constexpr uint64_t kWorthwhile = 64;  // tasks in a row that pay for a start

// A launch that is no task came between. Where tasks were few since the last one, they have cost
// more than they have gained: for a while, longer each time, none are made.
void EndRow() {
  row.length.store(0, std::memory_order_relaxed);
  const uint64_t tasks = counters.tasks.load(std::memory_order_relaxed);
  const uint64_t made = tasks - row.tasks_at_end.exchange(tasks, std::memory_order_relaxed);
  if (made == 0) return;
  if (made >= kWorthwhile) return row.quiet_ns.store(0, std::memory_order_relaxed);
  const uint64_t quiet =
      std::clamp(2 * row.quiet_ns.load(std::memory_order_relaxed), kFirstQuietNs, kMostQuietNs);
  row.quiet_ns.store(quiet, std::memory_order_relaxed);
  row.quiet_until_ns.store(NowNs() + quiet, std::memory_order_relaxed);
}

// Whether launches follow each other so closely, and so many, that tasks pay.
Plain JudgeTimes() {
  const uint64_t now = NowNs();
  const uint64_t last = row.last_ns.exchange(now, std::memory_order_relaxed);
  if (now < row.quiet_until_ns.load(std::memory_order_relaxed)) return Plain::kMixed;
  if (now - last > settings.row_ns && settings.after_launches != 0) {
    row.length.store(0, std::memory_order_relaxed);
  }
  const uint32_t length = row.length.fetch_add(1, std::memory_order_relaxed);
  if (length < settings.after_launches) return Plain::kFew;
  const bool is_ripe =
      settings.ripe_launches == 0 || AnyEngineIsReady() ||
      (row.ripe.fetch_add(1, std::memory_order_relaxed) >= settings.ripe_launches && !batches::IsMeasuring());
  return is_ripe ? kIsTask : Plain::kFew;
}

// Tasks pay. When they do again, after a while without, each stream may have been given work.
bool TasksPay() {
  return worth.Pays([] { return NowNs(); }, [] { AfterWork(); });
}

// Looked at now and then by those that would pass by.
void NoteIdle() {
  constexpr uint32_t kEvery = 64;
  thread_local uint32_t looks = 0;
  if (++looks % kEvery != 0) return;
  const uint64_t put = PutSoFar();
  bool is_idle = true;
  ForEachReadyEngine([&](const TaskEngine& engine) { is_idle = is_idle && engine.IsIdle(); });
  if (is_idle) counters.idle_at.store(put, std::memory_order_relaxed);
}

// The same, or a MasterKernel is there: of which context is looked at later (PutIn).
Plain JudgeRow() {
  if (!TasksPay()) [[unlikely]]
    return Plain::kLong;
  return AnyEngineRuns() ? kIsTask : JudgeTimes();
}

// By the plan; 0 where there is none.
uint64_t PlannedNs(const LaunchFacts& facts, const LaunchDetails& details, Variant& variant) {
  if (!variant.settled.load(std::memory_order_acquire)) {
    if (!preempt::PreemptionOn()) return 0;
    const preempt::PreemptContext* const context =
        ContextOf(ResolveStream(facts.stream, facts.per_thread));
    if (context == nullptr) return 0;
    SettleVariant(variant, *context);
  }
  return PredictByPlan(variant, facts, details.params, details.extra);
}

Plain JudgeShape(const LaunchFacts& facts, const LaunchDetails& details, Variant* variant) {
  if (variant == nullptr || (variant->entry->flags & store::kTask) == 0) return Plain::kNoBody;
  const store::KernelEntry& entry = *variant->entry;
  const uint64_t threads = uint64_t{facts.block[0]} * facts.block[1] * facts.block[2];
  const uint64_t blocks = uint64_t{facts.grid[0]} * facts.grid[1] * facts.grid[2];
  const uint64_t warps = (threads + 31) / 32;
  const uint32_t executors = runtime::MtbExecutors(variant->image->bundle.header().task_registers);
  if (!GridIsAllowed(facts.grid) || !BlockIsAllowed(facts.block) || warps > executors ||
      warps * blocks > settings.most_warps ||
      entry.task_shared + uint64_t{facts.shared_bytes} >
          runtime::kArenaUnits * runtime::kTaskUnitBytes ||
      (entry.max_threads != 0 && threads > entry.max_threads) ||
      !KernelAllows(*variant, facts.block, facts.shared_bytes)) {
    return Plain::kWide;
  }
  const bool is_row = facts.block[1] == 1 && facts.block[2] == 1;
  if ((entry.flags & store::kOneDimensionalBlocks) != 0 && !is_row) return Plain::kWide;
  if ((entry.flags & store::kTaskNotBitExact) != 0 && !settings.allow_inexact) {
    return Plain::kInexact;
  }
  const bool has_attributes = details.config != nullptr && details.config->numAttrs != 0;
  if (has_attributes || (facts.flags & kFlagCooperative) != 0) return Plain::kAttribute;
  // One that would take too long in as many streams as there are need not be tried.
  const uint64_t ns = PlannedNs(facts, details, *variant);
  if (ns != 0 && ns > worth.LimitNs(StreamsSoFar(), blocks != 1)) return Plain::kLong;
  return kIsTask;
}

void FillHead(const LaunchFacts& facts, const store::KernelEntry& entry, TaskWords* words) {
  const auto narrow = [](uint32_t value) { return static_cast<uint16_t>(value); };
  const uint32_t used = kWordsBefore + (entry.parameter_bytes + 3) / 4;
  words->header = {
      .body = narrow(entry.task_body),
      .chunks = static_cast<uint8_t>((used + runtime::kChunkWords - 1) / runtime::kChunkWords),
      .barrier = (entry.flags & store::kTaskBarrier) != 0 ? runtime::kMeetsAndLeaves : uint8_t{0},
      .threads = narrow(facts.block[0] * facts.block[1] * facts.block[2]),
      .after = 0,
      .blocks = facts.grid[0] * facts.grid[1] * facts.grid[2],
      .shared_bytes = entry.task_shared + facts.shared_bytes};
  const TaskGrid grid{
      .block = {narrow(facts.block[0]), narrow(facts.block[1]), narrow(facts.block[2])},
      .blocks_z = narrow(facts.grid[2]),
      .blocks_x = facts.grid[0],
      .blocks_y = facts.grid[1]};
  memcpy(words->words + sizeof(TaskHeader) / sizeof(uint32_t), &grid, sizeof(grid));
}

/// When a MasterKernel is to serve another module: after as many launches of others in a row as the
/// first task takes, and twice as many each time that few tasks were made in between, unless its
/// own was unloaded. Any thread, relaxed: a turn too early or too late costs time, nothing else.
class Turns {
 public:
  bool IsTime(const TaskEngine& engine) {
    uint32_t wanted = settings.after_launches;
    if (!engine.Serves(nullptr)) {
      wanted = std::max(wanted, wanted_.load(std::memory_order_relaxed));
    }
    return elsewhere_.fetch_add(1, std::memory_order_relaxed) >= wanted;
  }
  void NoteTask() {
    if (elsewhere_.load(std::memory_order_relaxed) != 0) {
      elsewhere_.store(0, std::memory_order_relaxed);
    }
  }
  void NoteTurn() {
    const uint64_t tasks = counters.tasks.load(std::memory_order_relaxed);
    const uint64_t made = tasks - tasks_at_turn_.exchange(tasks, std::memory_order_relaxed);
    const uint32_t before = wanted_.load(std::memory_order_relaxed);
    wanted_.store(made < kWorthwhile ? std::clamp(2 * before, kFewest, kMost) : 0,
                  std::memory_order_relaxed);
    elsewhere_.store(0, std::memory_order_relaxed);
  }

 private:
  static constexpr uint32_t kFewest = 64, kMost = 65'536;
  std::atomic<uint32_t> elsewhere_{0};  ///< launches of other modules since the last task
  std::atomic<uint32_t> wanted_{0};
  std::atomic<uint64_t> tasks_at_turn_{0};
};
Turns turns[kMostEngines];  // by engine

void Turn(TaskEngine& engine, Image* image) {
  const AllStreams held(engine);
  if (engine.Serves(image) || !engine.IsReady()) return;
  engine.TurnTo(image);
  turns[engine.index()].NoteTurn();
}

// The driver loads a kernel when that is first launched, and waits for the device meanwhile. It is
// to do so here, where it would without us: a later launch that cannot be a task may be behind work
// that waits for the host. Who comes meanwhile waits for that, as a launch would: sent to the driver
// it left its stream work for long, and the loading of the same kernel in a scope of its own. False:
// not here, or its parameters lie elsewhere than the record has them.
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
  const WaitingScope no_tasks;
  if (!no_tasks.is_clear()) return false;
  const preempt::OwnCallScope nothing_stopped;
  if (!nothing_stopped.may_ask()) return false;
  const RelaxedCapture relaxed;
  const CUfunction original = OriginalOf(variant, program);
  const auto load = CUPOLA_CALL_REAL(cuFuncLoad, PFN_cuFuncLoad_v12040);
  if (original != nullptr && load(original) == CUDA_SUCCESS) preempt::NoteLoaded(program);
  const bool agrees = original == nullptr || preempt::LieAsBundled(variant, original, 0);
  variant.loaded_for_tasks.fetch_or(agrees ? bit : Variant::kLiesElsewhere,
                                    std::memory_order_relaxed);
  return agrees;
}

// `engine`: of the stream's context, or null.
Plain JudgeEngine(TaskEngine* engine, const Variant& variant) {
  if (engine == nullptr) return Plain::kNoEngine;
  if (engine->state() == TaskEngine::State::kNone) {
    if (CurrentContext() != engine->context()) return Plain::kElsewhere;
    engine->Open(variant.image);
    if (engine->state() == TaskEngine::State::kNone) return Plain::kBusy;
  }
  if (!engine->IsReady()) return Plain::kNoEngine;
  if (!engine->Serves(variant.image) && !turns[engine->index()].IsTime(*engine)) {
    return Plain::kElsewhere;
  }
  return kIsTask;
}

// All but the order in the stream is as it should be: puts it in.
Plain PutIn(const LaunchFacts& facts, const LaunchDetails& details, Variant& variant) {
  if (open_captures.load(std::memory_order_relaxed) != 0) return Plain::kCapturing;
  batches::EndRow();  // the driver is to know of the launches before this one
  const StreamKey key = ResolveStream(facts.stream, facts.per_thread);
  if (IsGreen(facts.stream, key)) return Plain::kGreen;
  if (IsAskedToYield(key)) return Plain::kAsked;
  if (!StreamsFitTasks()) {
    preempt::NoteStreamsExceedQueues();
    return Plain::kStreams;
  }
  TaskEngine* engine = EngineOf(key.context);
  if (engine == nullptr || !engine->IsRunning()) {
    // The MasterKernel that runs, if any, is of another context.
    if (const Plain why = AnyEngineRuns() ? JudgeTimes() : kIsTask; why != kIsTask) return why;
    if (engine == nullptr) engine = EngineFor(key.context);
  }
  if (const Plain why = JudgeEngine(engine, variant); why != kIsTask) return why;
  if (!IsLoadedIn(*engine, variant, facts.function)) return Plain::kElsewhere;
  if (scopes.load(std::memory_order_acquire) != 0) return Plain::kScope;
  StreamTasks* const stream = FindStream(*engine, facts.stream, key);
  if (stream == nullptr) return Plain::kStream;
  PrefetchFor(*stream, *engine);
  if (!engine->Serves(variant.image)) Turn(*engine, variant.image);
  const StreamLock lock(*stream);
  if (open_captures.load() != 0) return Plain::kCapturing;
  if (scopes.load() != 0) return Plain::kScope;
  if (!engine->IsReady()) return Plain::kNoEngine;
  if (!engine->Serves(variant.image)) return Plain::kElsewhere;
  if (!MayBeTask(*stream, *engine)) return Plain::kTrial;
  if (!IsClean(*stream)) return Plain::kDriverWork;
  TaskWords words;
  FillHead(facts, *variant.entry, &words);
  uint32_t* const parameters = words.words + kWordsBefore;
  const store::KernelEntry& entry = *variant.entry;
  if (!preempt::CopyArguments(details.params, details.extra, variant.parameters, entry.parameters,
                              entry.parameter_bytes, parameters)) {
    return Plain::kArguments;
  }
  stream->spreads.store(words.header.blocks != 1, std::memory_order_relaxed);
  const TaskDemand demand(key, facts.stream, facts.function);
  if (!PutInto(*stream, &words)) return Plain::kNoEngine;
  turns[engine->index()].NoteTask();
  return kIsTask;
}

}  // namespace

void CountPassedBy() noexcept {
  counters.plain[static_cast<size_t>(Plain::kLong)].fetch_add(
      std::exchange(this_thread.passed_by, 0), std::memory_order_relaxed);
  counters.plain[this_thread.never_why].fetch_add(std::exchange(this_thread.never_passed, 0),
                                                  std::memory_order_relaxed);
}

bool LookWhilePassing() noexcept {
  const bool passes = !TasksPay();
  if (!passes) --this_thread.passed_by;
  CountPassedBy();
  return passes;
}

bool IsInRow() noexcept { return JudgeRow() == kIsTask; }

bool TryTask(const LaunchFacts& facts, const LaunchDetails& details, CUresult* result) noexcept {
  if ((this_thread.passed_by | this_thread.never_passed) != 0) CountPassedBy();
  Variant* const variant = FindVariant(facts.function);
  Plain why = JudgeShape(facts, details, variant);
  const bool is_narrow = why == kIsTask;
  this_thread.never_in_row = is_narrow ? 0 : this_thread.never_in_row + 1;
  this_thread.never_why = static_cast<uint8_t>(is_narrow ? Plain::kNoBody : why);
  if (is_narrow) why = JudgeRow();
  if (why == kIsTask) why = PutIn(facts, details, *variant);
  if (why == kIsTask) [[likely]] {
    counters.tasks.fetch_add(1, std::memory_order_release);
    *result = CUDA_SUCCESS;
    return true;
  }
  Count(counters.plain[static_cast<size_t>(why)]);
  if (!is_narrow) EndRow();
  if (why == Plain::kLong) NoteIdle();
  BeforePlainLaunch(facts.function, facts.stream, facts.per_thread);
  return false;
}

}  // namespace cupola::intercept::tasks
