#include "intercept/tasks/task_copies.h"

#include <algorithm>
#include <cstring>

#include "device/runtime/task_grid.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/fast_clock.h"
#include "intercept/process/thread_state.h"
#include "intercept/tasks/task_demand.h"
#include "intercept/tasks/task_engines.h"
#include "intercept/tasks/task_launch.h"
#include "intercept/tasks/task_rules.h"
#include "intercept/tasks/task_staging.h"
#include "intercept/tasks/task_streams.h"
#include "intercept/tasks/task_times.h"
#include "intercept/tasks/tasks.h"
#include "intercept/tasks/waiting_kernels.h"

namespace cupola::intercept::tasks {
namespace {

using runtime::TaskCopy;
using runtime::TaskFill;
using runtime::TaskGrid;
using runtime::TaskHeader;
using runtime::TaskWords;

constexpr uint32_t kMostThreads = 256, kBytesOfAThread = 16;

/// What is known of the allocation in which an address lies.
struct Range {
  uint64_t begin = 0, end = 0;  ///< addresses that a kernel in `context` can use as they are
  /// Null: every context can. Where host memory is registered others than `context` may not.
  CUcontext context = nullptr;
  uint64_t generation = 0;  ///< the global `generation` when this was asked
  bool is_pageable = false;  ///< the driver knows nothing of it; never kept, since begin is end
  bool is_device = false;
};

// Each thread has its own, so that there is no lock. Indexed by the address in units of two
// megabytes, so a large allocation is asked about several times.
constexpr uint32_t kRanges = 64, kRangeShift = 21;
struct Ranges {
  Range ranges[kRanges];
};
std::atomic<uint64_t> generation{1};

// Asks the driver. The range is empty unless the address lies in device memory, or in pinned host
// memory that has the same address on the device.
Range AskAbout(uint64_t address) {
  const RelaxedCapture relaxed;
  const auto get = CUPOLA_CALL_REAL(cuPointerGetAttributes, PFN_cuPointerGetAttributes_v7000);
  unsigned type = 0, is_managed = 0;
  CUdeviceptr device = 0, begin = 0;
  size_t bytes = 0;
  CUcontext context = nullptr;
  CUpointer_attribute what[] = {
      CU_POINTER_ATTRIBUTE_MEMORY_TYPE,      CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
      CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
      CU_POINTER_ATTRIBUTE_IS_MANAGED,       CU_POINTER_ATTRIBUTE_CONTEXT};
  void* data[] = {&type, &device, &begin, &bytes, &is_managed, &context};
  if (get(6, what, data, address) != CUDA_SUCCESS) return {};
  if (type == 0) return {.is_pageable = true};
  const bool is_device = type == CU_MEMORYTYPE_DEVICE;
  // For device memory without a context, which is a pool's, the driver does not say who can reach
  // it.
  const bool is_known = type == CU_MEMORYTYPE_HOST || (is_device && context != nullptr);
  if (!is_known || is_managed != 0 || device != address || begin == 0) return {};
  return {.begin = begin, .end = begin + bytes, .context = context, .is_device = is_device};
}

enum class Reach : uint8_t {
  kNo,
  kAsItIs,    ///< by the engine's context
  kPageable,  ///< by the host alone
};

Range RangeOf(uint64_t address) {
  const uint64_t now = generation.load(std::memory_order_acquire);
  ThreadMemory* const memory = MemoryOfThread();
  if (memory == nullptr) return AskAbout(address);
  Range& known = KeptIn<Ranges>(memory->ranges)->ranges[(address >> kRangeShift) % kRanges];
  if (known.generation != now || address < known.begin || address >= known.end) {
    known = AskAbout(address);
    known.generation = now;
  }
  return known;
}

// How a task of that engine can reach `bytes` bytes from `address` on.
Reach ReachOf(const TaskEngine& engine, const Range& known, uint64_t address, uint64_t bytes) {
  constexpr uint64_t kFirstPage = 4096;  // addresses in it are left for the driver to refuse
  if (known.is_pageable) return address < kFirstPage ? Reach::kNo : Reach::kPageable;
  if (known.context != nullptr && known.context != engine.context()) return Reach::kNo;
  const bool is_within =
      address >= known.begin && bytes <= known.end - address && known.end > address;
  return is_within ? Reach::kAsItIs : Reach::kNo;
}

template <typename Parameters>
void Fill(uint16_t body, size_t bytes, const Parameters& parameters, TaskWords* words) {
  constexpr size_t kUsed = (sizeof(TaskHeader) + sizeof(TaskGrid) + sizeof(Parameters)) / 4;
  const auto threads = static_cast<uint16_t>(
      std::clamp<size_t>((bytes + kBytesOfAThread - 1) / kBytesOfAThread, 1, kMostThreads));
  words->header = {
      .body = body,
      .chunks = static_cast<uint8_t>((kUsed + runtime::kChunkWords - 1) / runtime::kChunkWords),
      .barrier = 0,
      .threads = threads,
      .after = 0,
      .blocks = 1,
      .shared_bytes = 0};
  char* const at = reinterpret_cast<char*>(words->words) + sizeof(TaskHeader);
  memset(at, 0, sizeof(TaskGrid));
  memcpy(at + sizeof(TaskGrid), &parameters, sizeof(parameters));
}

/// A call, its resolved stream, and the engine of the stream's context.
struct Place {
  const MemoryCall& call;
  const StreamKey& key;
  TaskEngine& engine;
};

// Puts a task in if the stream's order allows it. Calls `fill` to make the task's words, and `used`
// with the task's id, both under the stream's lock.
template <typename FillWords, typename Used>
bool PutIn(const Place& at, FillWords&& fill, Used&& used) {
  if (IsAskedToYield(at.key)) return false;
  StreamTasks* const stream = FindStream(at.engine, at.call.stream, at.key);
  if (stream == nullptr) return false;
  const StreamLock lock(*stream);
  if (open_captures.load() != 0 || scopes.load() != 0 || !at.engine.IsReady()) return false;
  if (at.engine.Serves(nullptr) || !MayBeTask(*stream, at.engine) || !IsClean(*stream)) {
    return false;
  }
  TaskWords words;
  fill(&words);
  const TaskDemand demand(at.key, at.call.stream);
  if (!PutInto(*stream, &words)) return false;
  used(stream->last);
  return true;
}

// Puts a copy in. `staged`: the place that replaces the host's side, or null.
bool PutIn(const Place& at, const CopyFacts& facts, StagingPlace* staged, runtime::TaskId* id) {
  const auto fill = [&](TaskWords* words) {
    TaskCopy copy{facts.to, facts.from, facts.bytes};
    if (staged != nullptr && facts.host == HostSide::kFrom) {
      memcpy(staged->host(), reinterpret_cast<const void*>(facts.from), facts.bytes);
      copy.from = staged->device();
    } else if (staged != nullptr) {
      copy.to = staged->device();
    }
    Fill(runtime::kCopyBody, facts.bytes, copy, words);
  };
  return PutIn(at, fill, [&](const runtime::TaskId& last) {
    *id = last;
    if (staged != nullptr) staged->Use(last);
  });
}

// Waits until the copy is over. False: the context has faulted; the driver says so when it is given
// the copy instead.
bool AwaitCopy(TaskEngine& engine, const runtime::TaskId& id) {
  // Only a launch or two and the copy of their result count. A copy by itself says nothing of
  // launches.
  constexpr uint32_t kFew = 4;
  Count(task_counters.waits);
  const uint32_t left = engine.CountLeft(id);
  const bool are_few = left > 1 && left <= kFew;
  const uint64_t since = NowNs();
  engine.WaitFor(id);
  if (are_few) MeasureShortWait(NowNs() - since);
  return engine.IsDone(id);
}

// A copy from pageable memory has read it before the call returns, and a synchronous one is over by
// then, with all work before it. A copy to pageable memory has written it before the call returns.
bool PutInStaged(const Place& at, const CopyFacts& facts) {
  StagingPlace staged(at.engine);
  runtime::TaskId id{};
  if (!staged || !PutIn(at, facts, &staged, &id)) return false;
  const bool is_from = facts.host == HostSide::kFrom;
  if (is_from && !at.call.is_synchronous) return true;
  if (!AwaitCopy(at.engine, id)) return false;
  if (!is_from) memcpy(reinterpret_cast<void*>(facts.to), staged.host(), facts.bytes);
  return true;
}

bool PutInAnyhow(const Place& at, CopyFacts facts) {
  const Reach to = ReachOf(at.engine, RangeOf(facts.to), facts.to, facts.bytes);
  const Reach from = ReachOf(at.engine, RangeOf(facts.from), facts.from, facts.bytes);
  if (to == Reach::kAsItIs && from == Reach::kAsItIs) {
    runtime::TaskId id{};
    const bool waits = at.call.is_synchronous && facts.host != HostSide::kNone;
    return PutIn(at, facts, nullptr, &id) && (!waits || AwaitCopy(at.engine, id));
  }
  if (facts.host == HostSide::kEither) {
    facts.host = from == Reach::kPageable ? HostSide::kFrom : HostSide::kTo;
  }
  const Reach host = facts.host == HostSide::kFrom ? from : to;
  const Reach device = facts.host == HostSide::kFrom ? to : from;
  return facts.host != HostSide::kNone && host == Reach::kPageable && device == Reach::kAsItIs &&
         PutInStaged(at, facts);
}

bool PutInFill(const Place& at, const FillFacts& facts) {
  const Range range = RangeOf(facts.to);
  const Reach to = ReachOf(at.engine, range, facts.to, facts.bytes);
  if (!range.is_device || to != Reach::kAsItIs) return false;
  const auto fill = [&](TaskWords* words) {
    const TaskFill parameters{facts.to, facts.pattern, static_cast<uint32_t>(facts.bytes)};
    Fill(runtime::kFillBody, facts.bytes, parameters, words);
  };
  return PutIn(at, fill, [](const runtime::TaskId&) {});
}

// Before the driver makes the copy or memory set. A synchronous one waits inside the driver, so all
// tasks are waited for first.
void BeforeDriver(const MemoryCall& call) {
  if (!call.is_synchronous) return BeforeWorkOf(call.stream, call.per_thread);
  BeginDriverCopy(call.per_thread);
}

template <typename PutInAt>
bool Try(const MemoryCall& call, size_t bytes, PutInAt&& put_in) {
  if (!AnyEngineIsReady()) return false;
  const bool is_small = bytes != 0 && bytes <= task_settings.most_copied;
  if (is_small && open_captures.load(std::memory_order_relaxed) == 0 &&
      scopes.load(std::memory_order_acquire) == 0 && IsInRow()) {
    const StreamKey key = ResolveStream(call.stream, call.per_thread);
    TaskEngine* const engine = EngineOf(key.context);
    // For a copy no MasterKernel is launched while one of another context runs.
    const bool may_run =
        engine != nullptr && engine->IsReady() && (engine->IsRunning() || !AnyEngineRuns());
    if (may_run && put_in(Place{call, key, *engine})) {
      task_counters.copies.fetch_add(1, std::memory_order_release);
      return true;
    }
  }
  BeforeDriver(call);
  return false;
}

}  // namespace

bool TryCopy(const MemoryCall& call, const CopyFacts& facts) noexcept {
  return Try(call, facts.bytes, [&](const Place& at) { return PutInAnyhow(at, facts); });
}

bool TryFill(const MemoryCall& call, const FillFacts& facts) noexcept {
  return Try(call, facts.bytes, [&](const Place& at) { return PutInFill(at, facts); });
}

void AfterDriver(const MemoryCall& call) noexcept {
  using enum Behind::What;
  if (!AnyEngineIsReady()) return EndDriverCopy();
  DoBehind({call.is_synchronous ? kEndWait : kNoteWorkOf, call.per_thread, call.stream});
}

void ForgetMemory() noexcept { generation.fetch_add(1, std::memory_order_release); }

}  // namespace cupola::intercept::tasks
