#include "intercept/batches/batches.h"

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>
#include <utility>

#include <linux/futex.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/settings/variables.h"
#include "intercept/batches/batch_graphs.h"
#include "intercept/batches/batch_kernels.h"
#include "intercept/facts/context_scope.h"
#include "intercept/facts/green_contexts.h"
#include "intercept/facts/streams.h"
#include "intercept/launch/launch.h"
#include "intercept/launch/resident.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/fast_clock.h"
#include "intercept/process/mutex_lock.h"
#include "intercept/process/notice.h"
#include "intercept/process/own_thread.h"
#include "intercept/process/participation.h"
#include "intercept/process/tools.h"
#include "intercept/tasks/context_rest.h"
#include "intercept/tasks/task_launch.h"
#include "intercept/tasks/task_rules.h"
#include "intercept/tasks/task_worth.h"
#include "intercept/tasks/tasks.h"

namespace cupola::intercept::batches {
namespace internal {
std::atomic<State> state{State::kOff};
std::atomic<uint32_t> held{0};
}  // namespace internal

namespace {

using internal::held;
using internal::state;

// A thread of Cupola's own looks every kLookNs whether the oldest held launch has been held for kLateNs or
// longer while the program made no call, and then makes the held launches. After kNapAfterNs without a held
// launch it sleeps until one is held.
constexpr uint64_t kLateNs = 40'000;
constexpr long kLookNs = 50'000;
constexpr uint64_t kNapAfterNs = 5'000'000;

bool is_always = false;  // CUPOLA_BATCHES=always; set before any launch

struct Counters {
  std::atomic<uint64_t> launches{0};  ///< launches that were held
  std::atomic<uint64_t> graphs{0};    ///< launches of graphs
  std::atomic<uint64_t> single{0};    ///< held launches that went out by themselves
  std::atomic<uint64_t> late{0};      ///< times that launches were held for kLateNs (SubmitLate)
  std::atomic<uint64_t> begun{0};     ///< times that batches began
  std::atomic<uint64_t> failed{0};    ///< launches of graphs that the driver refused
} counters;

void Count(std::atomic<uint64_t>& counter, uint64_t by = 1) {
  counter.fetch_add(by, std::memory_order_relaxed);
}

// All variables below that are not atomic are used under `batches_mutex`. A thread may make a launch while it holds
// the mutex; that launch waits for nobody, because the driver's queues have room (batch_graphs.h, HasRoom).
pthread_mutex_t batches_mutex = PTHREAD_MUTEX_INITIALIZER;
BatchRow row;
BatchWorth worth;
HeldLaunch launches[kMostHeld];  // the first `held` ones are held back, in the order of the program's calls
// The stream of the row. A null context: the stream is to be looked at again. Handles of streams are used
// again by the driver, numbers are not (StreamKey).
CUstream stream = nullptr;
uint64_t stream_number = 0;
CUcontext context = nullptr;
bool stream_allows = false;  // launches into it may be held
// The present window, that is, the launches by which batches are judged next (JudgeWindow): launches offered so
// far; those of them that went out in graphs; times that launches were held for kLateNs; when it began.
uint32_t window_launches = 0, window_batched = 0, window_late = 0;
uint64_t window_since_ns = 0;
CUresult pending = CUDA_SUCCESS;  ///< first error of a held launch, which the next launch tells the program
tasks::ContextRest rest;          ///< asked before graphs are made (Begin)
bool is_watching = false;  ///< other threads' calls come to calls/ (Watch)

std::atomic<bool> row_ended{false};      // a call that ends the row came since the last launch
std::atomic<uint64_t> first_held_ns{0};  // when the oldest held launch came
std::atomic<uint64_t> last_held_ns{0};   // when a launch was last held

// Makes a held launch as a launch of its own. The row's context is current.
CUresult LaunchAlone(const HeldLaunch& launch) {
  void* arguments[BatchKernel::kMostParameters + 1] = {};
  launch.PointAtArguments(arguments);
  return CUPOLA_CALL_REAL(cuLaunchKernel, PFN_cuLaunchKernel_v4000)(
      static_cast<CUfunction>(const_cast<void*>(launch.kernel->program)), launch.grid[0], launch.grid[1],
      launch.grid[2], launch.block[0], launch.block[1], launch.block[2], launch.shared_bytes, stream,
      arguments, nullptr);
}

// The largest graph that `left` launches fill; 0: none.
uint32_t LargestGraph(uint32_t left) {
  for (const uint32_t size : kGraphSizes) {
    if (size <= left) return size;
  }
  return 0;
}

// No launch is held from now on; the caller still has to submit those that are.
void EndForGood() {
  state.store(State::kFailed);
  tasks::is_batch_measured.store(false);
  tasks::worth.SetBatched(0);
}

// Makes the launches that are held. If the driver refuses a graph its launches go out one by one, and no more
// are held.
void SubmitHeld() {
  const uint32_t count = held.load(std::memory_order_relaxed);
  if (count == 0) return;
  const ContextScope current(context);
  bool has_graphs = HasGraphs(context);
  for (uint32_t at = 0; at < count;) {
    const uint32_t size = has_graphs ? LargestGraph(count - at) : 0;
    if (size != 0 && LaunchAsGraph(launches + at, size, stream) == CUDA_SUCCESS) {
      Count(counters.graphs);
      window_batched += size;
      at += size;
      continue;
    }
    if (size != 0) {
      Count(counters.failed);
      has_graphs = false;
      EndForGood();
    }
    Count(counters.single);
    const CUresult result = LaunchAlone(launches[at++]);
    if (result != CUDA_SUCCESS && pending == CUDA_SUCCESS) pending = result;
  }
  row.AddSubmitted(count);
  held.store(0, std::memory_order_release);
}

// Makes the held launches and ends the row.
void BreakRow() {
  SubmitHeld();
  row.End();
}

// Has the calls of all threads come to calls/ while launches may be held, or no longer.
void WatchCalls(bool wanted) {
  if (wanted == std::exchange(is_watching, wanted)) return;
  wanted ? Watch(1) : Unwatch(1);
}

// Pauses batches: launches are only sampled again, and a number of samples are ignored (BatchWorth::Skip). Calls
// are still watched, because what is known of kernels, and the graphs that launch them, must end when a call
// changes the kernels.
void Rest() {
  SubmitHeld();
  worth.Skip();
  tasks::worth.SetBatched(0);
  tasks::is_batch_measured.store(false);
  State expected = State::kActive;
  state.compare_exchange_strong(expected, State::kSampling);
}

// Ends the row, and has the next launch's stream be looked at anew (TurnTo).
void ForgetStream() {
  BreakRow();
  context = nullptr;
}

// Forgets stream, graphs and kernels, and pauses batches: some programs set a kernel's attributes before each
// launch, and batches that begin again each time would not pay.
void ForgetAll() {
  if (!KnowsKernels()) return;
  ForgetStream();
  EndGraphs();
  ForgetKernels();
  WatchCalls(false);
  if (state.load() != State::kActive) return;
  if (is_always) return state.store(State::kStarting);
  Rest();
}

// The thread that makes held launches when the program makes no call for long: LookAfterHeld.

std::atomic<uint32_t> naps{0};  // 1: the thread sleeps until it is woken
std::atomic_flag has_thread;

void Futex(int operation, uint32_t value) {
  syscall(SYS_futex, &naps, operation | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
}

// Makes the launches that have been held for kLateNs. The next row is then held only once it is long.
void SubmitLate() {
  const MutexLock lock(batches_mutex);
  if (held.load() == 0 || NowNs() - first_held_ns.load() < kLateNs) return;
  Count(counters.late);
  ++window_late;
  SubmitHeld();
  row.StartAnew();
}

void* LookAfterHeld(void*) {
  prctl(PR_SET_NAME, "cupola-batches");
  prctl(PR_SET_TIMERSLACK, 1000);
  const HookScope scope;
  const timespec look{0, kLookNs};
  for (;;) {
    if (held.load() == 0 && NowNs() - last_held_ns.load() > kNapAfterNs) {
      naps.store(1);
      while (held.load() == 0 && naps.load() == 1) Futex(FUTEX_WAIT, 1);
      naps.store(0);
    }
    nanosleep(&look, nullptr);
    if (held.load() != 0 && NowNs() - first_held_ns.load() >= kLateNs) SubmitLate();
  }
  return nullptr;
}

// Starts the thread if there is none. False: it cannot be started, and nothing may be held.
bool HasThread() {
  static bool is_started = false;
  if (!has_thread.test_and_set()) is_started = StartOwnThread(&LookAfterHeld, nullptr, 256 << 10);
  return is_started;
}

// Records that `count` launches are held now, the last of them since `now`, and wakes the thread if it sleeps.
void CountHeld(uint32_t count, uint64_t now) {
  if (count == 1) first_held_ns.store(now, std::memory_order_relaxed);
  last_held_ns.store(now, std::memory_order_relaxed);
  held.store(count);
  if (naps.load() != 0) [[unlikely]] {
    naps.store(0);
    Futex(FUTEX_WAKE, INT_MAX);
  }
}

// Whether a launch may be held as far as its form goes, whatever its kernel is.
bool MayBeHeld(const Launch& launch) {
  const auto value = reinterpret_cast<uintptr_t>(launch.stream);
  const bool is_threads_own = value == 2 || (value == 0 && launch.per_thread);
  const bool has_attributes = launch.attribute_count != 0;
  return launch.function != nullptr && !has_attributes && (launch.flags & kFlagCooperative) == 0 &&
         !is_threads_own && open_captures.load() == 0 && !StandsAside();
}

// Whether launches into the stream may go out in graphs. Kernels of a graph have neither the priority of the
// stream nor its access-policy window of the L2 cache.
bool StreamAllows(CUstream asked) {
  int priority = 0;
  CUstreamAttrValue window = {};
  const auto get_priority = CUPOLA_CALL_REAL(cuStreamGetPriority, PFN_cuStreamGetPriority_v5050);
  const auto get = CUPOLA_CALL_REAL(cuStreamGetAttribute, PFN_cuStreamGetAttribute_v11000);
  if (get_priority(asked, &priority) != CUDA_SUCCESS || priority != 0) return false;
  return get(asked, CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW, &window) != CUDA_SUCCESS ||
         window.accessPolicyWindow.num_bytes == 0;
}

// Makes the stream of a launch that of the row; if it is another one than before, the held launches are made and
// the row ends. False: launches into the stream are not held. While another context
// than the stream's is current, a CUkernel may mean another function (cuKernelGetFunction), or the driver may
// refuse the launch.
bool TurnTo(const Launch& launch) {
  const StreamKey key = ResolveStream(launch.stream, launch.per_thread);
  const auto of = reinterpret_cast<CUcontext>(key.context);
  if (of == nullptr || CurrentContext() != of) return false;
  if (key.stream == stream_number && of == context) [[likely]] return stream_allows;
  BreakRow();
  stream = launch.stream;
  stream_number = key.stream;
  context = of;
  stream_allows = !IsGreen(launch.stream, key) && StreamAllows(launch.stream) && HasGraphs(of);
  return stream_allows;
}

// Whether the row's context has not failed. A context that has failed reports that at each launch, so then no
// more are held. Asked once a row, since the program hears of it at the earliest from a call between rows.
bool IsWell() {
  const CUresult result = AskStream(stream != nullptr ? stream : CU_STREAM_LEGACY);
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY) return true;
  EndForGood();
  return false;
}

// Counts an offered launch. At the end of a window it judges whether batches pay and begins the next window.
// False: they do not, and no more launches are held for a while.
bool JudgeWindow(uint64_t now) {
  if (++window_launches < BatchWorth::kWindowLaunches || is_always) return true;
  const uint64_t ns = now - window_since_ns;
  const bool goes_on = worth.JudgeWindow(ns, window_batched, window_late);
  if (window_batched >= BatchWorth::kWindowLaunches / 2) {
    tasks::worth.SetBatched(ns / BatchWorth::kWindowLaunches);
  }
  tasks::is_batch_measured.store(false);
  window_since_ns = now;
  window_launches = window_batched = window_late = 0;
  if (!goes_on) Rest();
  return goes_on;
}

// Ends the calling thread's sample and begins the next one. A sample is BatchWorth::kSampleLaunches launches of one
// thread into one stream; where the stream changed or a graph of the program was launched, it is left out. It is also
// left out while another thread holds the mutex, so that no launch waits for that.
void Sample(const Launch& launch) {
  ThreadState& mine = this_thread;
  const uint64_t now = NowNs();
  const bool is_whole = mine.batch_stream == launch.stream && launch.function != nullptr &&
                        mine.batch_sampled == BatchWorth::kSampleLaunches;
  const uint64_t ns = now - mine.batch_sampled_ns;
  mine.batch_stream = launch.stream;
  mine.batch_sampled = 0;
  mine.batch_sampled_ns = now;
  if (!is_whole || pthread_mutex_trylock(&batches_mutex) != 0) return;
  State expected = State::kSampling;
  if (worth.AddSample(ns)) state.compare_exchange_strong(expected, State::kStarting);
  pthread_mutex_unlock(&batches_mutex);
}

// Begins batches behind `launch`, which the driver has just accepted in the context `of`, which is current. Graphs are
// made only if no task runs and all earlier work of the context has ended (ContextRest): making them may wait in the
// driver for such work, which may itself wait for the program. If they cannot be made now, batches pause.
void Begin(const Launch& launch, CUcontext of) {
  const BatchKernel* const kernel = LearnKernel(launch, of);
  bool is_ready = kernel != nullptr && HasThread();
  if (is_ready && !HasGraphs(of)) {
    const tasks::NoTasksScope no_tasks;
    const RelaxedCapture relaxed;
    HeldLaunch first = {};
    first.Take(launch, *kernel);
    is_ready = no_tasks.is_clear() && rest.Comes(of) && MakeGraphs(of, launch.stream, first);
  }
  ForgetStream();
  window_launches = window_batched = window_late = 0;
  window_since_ns = NowNs();
  WatchCalls(KnowsKernels());
  if (!is_ready) {
    worth.Skip();
    if (!is_always) state.store(State::kSampling);
    return;
  }
  tasks::is_batch_measured.store(!is_always);
  Count(counters.begun);
  state.store(State::kActive);
}

void SayCounts() {
  const auto number = [](const std::atomic<uint64_t>& counter) { return Decimal(counter.load()); };
  if (counters.begun.load() == 0) return;
  Say(Level::kInfo,
      {"batches: ", number(counters.launches), " launches in ", number(counters.graphs), " graphs, ",
       number(counters.single), " of them by themselves, begun ", number(counters.begun), " times, ",
       number(counters.late), " pauses, ", number(counters.failed), " refused"});
}

void AtExit() {
  internal::EndRow();
  SayCounts();
}

}  // namespace

namespace internal {

void EndRow() noexcept {
  row_ended.store(true, std::memory_order_relaxed);
  if (held.load(std::memory_order_acquire) == 0) return;
  const HookScope scope;
  const MutexLock lock(batches_mutex);
  SubmitHeld();
}

bool OfferLaunch(const Launch& launch, CUresult* result) noexcept {
  const State now_state = state.load(std::memory_order_relaxed);
  if (now_state == State::kSampling) {
    Sample(launch);
    return false;
  }
  if (now_state != State::kActive) return false;
  const MutexLock lock(batches_mutex);
  if (state.load() != State::kActive) return false;
  const uint64_t now = NowNs();
  if (!JudgeWindow(now)) return false;
  if (row_ended.exchange(false, std::memory_order_relaxed)) row.End();
  if (!MayBeHeld(launch) || !TurnTo(launch)) {
    BreakRow();
    return false;
  }
  const BatchKernel* const kernel = FindKernel(launch, context);
  const uint32_t count = held.load(std::memory_order_relaxed);
  const bool is_wanted = row.Holds(now) || is_always;
  if (kernel == nullptr || !is_wanted || !HasRoom() || (count == 0 && row.IsNew() && !IsWell()) ||
      !CopyLaunch(launch, *kernel, &launches[count])) {
    SubmitHeld();
    return false;
  }
  CountHeld(count + 1, now);
  Count(counters.launches);
  if (count + 1 >= row.Wanted() || now - first_held_ns.load(std::memory_order_relaxed) > BatchRow::kHoldNs) {
    SubmitHeld();
  }
  *result = std::exchange(pending, CUDA_SUCCESS);
  return true;
}

CUresult AfterPlain(const Launch& launch, CUresult made) noexcept {
  if (made != CUDA_SUCCESS || launch.function == nullptr || open_captures.load() != 0) return made;
  const auto of = reinterpret_cast<CUcontext>(ResolveStream(launch.stream, launch.per_thread).context);
  const MutexLock lock(batches_mutex);
  const State now_state = state.load();
  const bool is_current = of != nullptr && CurrentContext() == of;
  if (now_state == State::kStarting && is_current) Begin(launch, of);
  if (now_state == State::kActive && is_current) (void)LearnKernel(launch, of);
  if (now_state == State::kFailed) {
    state.store(State::kOff);
    ForgetAll();
  }
  return std::exchange(pending, CUDA_SUCCESS);
}

}  // namespace internal

void BeforeCall(BatchRule ends) noexcept {
  const State now_state = state.load(std::memory_order_relaxed);
  if (now_state == State::kOff && held.load(std::memory_order_relaxed) == 0) return;
  internal::EndRow();
  if (ends == BatchRule::kRow) return;
  const HookScope scope;
  const MutexLock lock(batches_mutex);
  ends == BatchRule::kKernels ? ForgetAll() : ForgetStream();
}

void StartBatches() noexcept {
  if (!TasksOn() || PreemptionOn()) return;
  const std::string_view mode = settings::Word("CUPOLA_BATCHES");
  if (mode == "off") return;
  is_always = mode == "always";
  resident.batches.end_row = []() noexcept { EndRow(); };
  static std::atomic_flag says_counts;
  if (!says_counts.test_and_set()) atexit(&AtExit);
  state.store(is_always ? State::kStarting : State::kSampling);
}

void ForgetBatchesAfterFork() noexcept {
  state.store(State::kOff);
  held.store(0);
  tasks::is_batch_measured.store(false);
  new (&batches_mutex) pthread_mutex_t(PTHREAD_MUTEX_INITIALIZER);
  has_thread.clear();
  naps.store(0);
  WatchCalls(false);
  row = BatchRow();
  worth = BatchWorth();
  context = nullptr;
  pending = CUDA_SUCCESS;
  ForgetGraphs();
  ForgetKernelsAfterFork();
}

}  // namespace cupola::intercept::batches
