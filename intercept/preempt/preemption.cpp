#include "intercept/preempt/preemption.h"

#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "intercept/calls/hold_rules.h"
#include "intercept/facts/live_streams.h"
#include "intercept/facts/stream_levels.h"
#include "intercept/images/images.h"
#include "intercept/preempt/agent.h"
#include "intercept/preempt/counters.h"
#include "intercept/preempt/demand.h"
#include "intercept/preempt/gates.h"
#include "intercept/preempt/gpu_board.h"
#include "intercept/preempt/hardware_queues.h"
#include "intercept/preempt/host_holds.h"
#include "intercept/preempt/launched_names.h"
#include "intercept/preempt/preempt_context.h"
#include "intercept/preempt/sm_demand.h"
#include "intercept/preempt/variants.h"
#include "intercept/preempt/waiting.h"
#include "intercept/process/fast_clock.h"
#include "intercept/process/notice.h"
#include "profiles/claim_word.h"
#include "sched/board/socket_path.h"

namespace cupola::intercept::preempt {

Settings settings;
std::atomic<Participation> participation{Participation::kUndecided};
std::atomic<uint32_t> watched{0};
std::atomic<bool> stands_aside{false};
Counters counters;

namespace {

// How long an exiting program waits for its kernels.
constexpr uint64_t kExitBoundNs = 5'000'000'000;
constexpr uint64_t kShortGapOfSharedNs = 20'000;  // under MPS: no change of context

uint64_t Number(const char* name, uint64_t fallback) {
  const char* text = getenv(name);
  if (text == nullptr || *text < '0' || *text > '9') return fallback;
  return strtoull(text, nullptr, 10);
}

bool HasArbiter() {
  const char* board = getenv("CUPOLA_BOARD");
  if (board != nullptr && *board != '\0') return true;
  const sched::ArbiterPlaces places = sched::FindArbiterPlaces();
  return std::any_of(places.paths, places.paths + places.count,
                     [](const char* path) { return access(path, F_OK) == 0; });
}

// Numbers separated by commas, a g behind them for claims in the order of the grid, a w for one worker
// less on each SM, x4 for four eighths of the workers. False: there is none, or something else, or too
// many.
bool ReadTurns(const char* text) {
  while (text != nullptr && *text >= '0' && *text <= '9' && settings.turn_count < kMostTurns) {
    char* end = nullptr;
    uint32_t& turn = settings.turns[settings.turn_count++];
    turn = static_cast<uint32_t>(strtoul(text, &end, 10));
    if (*end == 'g') {
      turn |= profiles::kClaimsInGridOrder;
      ++end;
    }
    if (*end == 'w') {
      turn |= profiles::kOneWorkerLess;
      ++end;
    }
    if (end[0] == 'x' && end[1] >= '1' && end[1] <= '8') {
      turn |= profiles::WorkerEighths(static_cast<uint32_t>(end[1] - '0'));
      end += 2;
    }
    if (*end == '\0') return true;
    text = *end == ',' ? end + 1 : nullptr;
  }
  Say(Level::kWarn, {"CUPOLA_PREEMPT=turns wants CUPOLA_TURNS=0,1,1w,1x4,4,4g: plain is 0, g in the "
                     "order of the grid, w with one worker less on each SM, x4 with half of them"});
  return false;
}

bool ReadSettings() {
  const char* mode = getenv("CUPOLA_PREEMPT");
  if (mode != nullptr && *mode != '\0') {
    if (strcmp(mode, "off") == 0) return false;
    if (strcmp(mode, "never") == 0) {
      settings.mode = Mode::kNever;
    } else if (strcmp(mode, "always") == 0) {
      settings.mode = Mode::kAlways;
    } else if (strcmp(mode, "turns") == 0) {
      settings.mode = ReadTurns(getenv("CUPOLA_TURNS")) ? Mode::kTurns : Mode::kAuto;
    } else if (strcmp(mode, "auto") != 0) {
      Say(Level::kWarn, {"CUPOLA_PREEMPT=", mode, " is not known: use auto, always, turns, never or off"});
    }
  }
  settings.allow_inexact = Number("CUPOLA_INEXACT", 0) != 0;
  settings.threshold_ns = Number("CUPOLA_PREEMPT_ABOVE_US", settings.threshold_ns / 1000) * 1000;
  settings.equals_threshold_ns =
      Number("CUPOLA_PREEMPT_EQUALS_ABOVE_US", settings.equals_threshold_ns / 1000) * 1000;
  settings.gate_every = static_cast<uint32_t>(Number("CUPOLA_GATE_EVERY", settings.gate_every));
  settings.batch = static_cast<uint32_t>(Number("CUPOLA_BATCH", 0));
  settings.poll_period_ns =
      static_cast<uint32_t>(Number("CUPOLA_POLL_NS", settings.poll_period_ns));
  settings.watch_from = static_cast<uint32_t>(Number("CUPOLA_WATCH_FROM", settings.watch_from));
  settings.look_after_ns =
      static_cast<uint32_t>(Number("CUPOLA_LOOK_AFTER_NS", settings.look_after_ns));
  settings.fresh_after_ns =
      static_cast<uint32_t>(Number("CUPOLA_FRESH_AFTER_NS", settings.fresh_after_ns));
  settings.demand_limit_ns =
      Number("CUPOLA_DEMAND_LIMIT_MS", settings.demand_limit_ns / 1'000'000) * 1'000'000;
  settings.wait_limit_ns =
      Number("CUPOLA_WAIT_LIMIT_MS", settings.wait_limit_ns / 1'000'000) * 1'000'000;
  settings.hot_ns = Number("CUPOLA_AGENT_HOT_US", settings.hot_ns / 1000) * 1000;
  return true;
}

void SayCounts() {
  const auto number = [](const std::atomic<uint64_t>& counter) {
    return Decimal(counter.load(std::memory_order_relaxed));
  };
  Say(Level::kInfo,
      {"preemption: ", number(counters.preemptible), " launches preemptible, ",
       number(counters.preemptions), " preemptions, ", number(counters.resumes), " resumes, ",
       number(counters.waits), " waits, ", number(counters.scopes), " scopes, ",
       number(counters.demands), " demands, ", number(counters.markers), " markers, ",
       number(counters.gates), " gates, ", number(counters.priorities), " with priority"});
  if (const uint64_t stops = counters.stops.load(); stops != 0) {
    Say(Level::kInfo, {"preemption: a stop takes ", Decimal(counters.stop_ns.load() / stops / 1000),
                       " us on average, as its agent sees it"});
  }
  uint64_t between_gates_ns = 0;
  ForEachContextEver([&](const PreemptContext& context) {
    between_gates_ns = std::max(between_gates_ns, BetweenGatesNs(*context.gpu));
  });
  if (counters.gates.load() != 0 && between_gates_ns != 0) {
    Say(Level::kInfo, {"preemption: ", Decimal(between_gates_ns / 1000), " us between two gates"});
  }
  if (counters.stuck.load() != 0) {
    Say(Level::kInfo, {"preemption: ", number(counters.stuck), " waits ended though nothing went on"});
  }
  if (counters.sliced.load() != 0) {
    Say(Level::kInfo, {"preemption: ", number(counters.sliced), " launches sliced"});
  }
  if (counters.sliced_unasked.load() != 0) {
    Say(Level::kInfo, {"preemption: ", number(counters.sliced_unasked),
                       " launches sliced for want of a preemptible variant"});
  }
  for (size_t i = 0; i < static_cast<size_t>(Plain::kCount); ++i) {
    if (counters.plain[i].load() == 0) continue;
    Say(Level::kInfo,
        {"preemption: ", number(counters.plain[i]), " launches plain: ", kPlainWords[i]});
  }
}

}  // namespace

bool ToolAtWork() noexcept {
  static constexpr const char* kPrefixes[] = {"CUDA_INJECTION64_PATH=",
                                              "NV_COMPUTE_PROFILER",
                                              "NV_NSIGHT_",
                                              "NSYS_",
                                              "NV_SANITIZER_",
                                              "CUDBG_",
                                              "CUDA_LAUNCH_BLOCKING=1"};
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    for (const char* prefix : kPrefixes) {
      if (strncmp(*entry, prefix, strlen(prefix)) != 0) continue;
      Say(Level::kWarn,
          {"kernels are not preempted: ", prefix, " in the environment, a tool is at work"});
      return true;
    }
  }
  return false;
}

void StandAside(const char* why) noexcept {
  if (stands_aside.exchange(true)) return;
  Say(Level::kWarn, {"kernels are not preempted: ", why, ", a tool is at work"});
  GpuBoard::TakeAbilitiesAway();
}

namespace {

struct ObjectSearch {
  uintptr_t address;
  bool is_cupti;
};

// Not dladdr: it takes the dynamic linker's lock, and whoever holds that may be a constructor that waits for
// the calling thread. The lock of dl_iterate_phdr is never held while code of others runs.
int LookWhetherCupti(dl_phdr_info* object, size_t, void* data) {
  auto& search = *static_cast<ObjectSearch*>(data);
  for (unsigned i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    const uintptr_t begin = object->dlpi_addr + segment.p_vaddr;
    if (segment.p_type != PT_LOAD || search.address - begin >= segment.p_memsz) continue;
    const char* const slash = strrchr(object->dlpi_name, '/');
    const char* const name = slash != nullptr ? slash + 1 : object->dlpi_name;
    search.is_cupti = strncmp(name, "libcupti.so", strlen("libcupti.so")) == 0;
    return 1;
  }
  return 0;
}

}  // namespace

void NoteTablesAsked(const void* caller) noexcept {
  if (StandsAside()) return;
  ObjectSearch search{reinterpret_cast<uintptr_t>(caller), false};
  dl_iterate_phdr(&LookWhetherCupti, &search);
  if (!search.is_cupti) return;
  StandAside("the program uses CUPTI");
}

// Its control daemon has a pipe where the driver will look for it [MPS documentation,
// CUDA_MPS_PIPE_DIRECTORY].
bool MpsIsThere() noexcept {
  const char* folder = getenv("CUDA_MPS_PIPE_DIRECTORY");
  char path[512];
  const int length = snprintf(path, sizeof(path), "%s/control",
                              folder != nullptr && *folder != 0 ? folder : "/tmp/nvidia-mps");
  return length > 0 && static_cast<size_t>(length) < sizeof(path) && access(path, F_OK) == 0;
}

void StartPreemption() noexcept {
  if (participation.load() != Participation::kUndecided) return;
  const bool takes_part = ReadSettings() && HasArbiter() && !ToolAtWork();
  if (takes_part) {
    const bool shares_context = MpsIsThere();
    if (shares_context) settings.short_gap_ns = kShortGapOfSharedNs;
    OpenVariantStore();
    ChooseHardwareQueues(shares_context);
    StartFastClock();
    StartWaitingRules();
    StartHoldRules();
    KeepLevelBack();
    streams_share_queues.Subscribe(&EndGuardedWhereQueuesAreShared);
    StartHostHolds();
    image_to_be_freed.Subscribe([](const Image& image, bool* is_named) { *is_named |= AnyLaunchIsOf(image); });
    watched.fetch_or(kTakesPartBit);
  }
  participation.store(takes_part ? Participation::kOn : Participation::kOff);
}

void ForgetPreemptionAfterFork() noexcept {
  if (!PreemptionOn()) return;
  watched.store(kTakesPartBit);
  std::construct_at(&counters);
  ForgetHoldsAfterFork();
  ForgetContextsAfterFork();
  ForgetImagesAfterFork();
  ForgetNamesAfterFork();
  ForgetSmNeedsAfterFork();
  GpuBoard::ForgetAllAfterFork();
}

void RegisterPreemptionExit() noexcept {
  static std::atomic_flag is_registered;
  if (!is_registered.test_and_set()) atexit(&EndPreemptionAtExit);
}

void EndPreemptionAtExit() noexcept {
  static std::atomic_flag has_ended;
  if (!PreemptionOn() || has_ended.test_and_set()) return;
  const uint64_t deadline = MonotonicNs() + kExitBoundNs;
  WaitAtExit(deadline);
  DropDemandAtExit();
  GpuBoard::LeaveAll();
  SayCounts();
  RememberStreamsExceedQueues();
}

}  // namespace cupola::intercept::preempt
