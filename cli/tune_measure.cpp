#include "cli/tune_measure.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <thread>
#include <tuple>

#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/private_folder.h"
#include "base/settings/variables.h"
#include "cli/profile_print.h"
#include "models/train/plan_builder.h"
#include "models/train/select.h"
#include "profiles/profile_file.h"
#include "sched/board/board_memory.h"

namespace cupola {
namespace {

using Durations = std::map<uint32_t, std::vector<double>>;  // by claim word; 0: plain
using ByShape = std::map<std::string, Durations>;           // by ShapeOf

constexpr uint64_t kBriefDrainNs = 320'000;          // most launches stop within this time
// The longest wait; also for a program without launches yet.
constexpr uint64_t kLongestDrainNs = 1'000'000'000;

double LengthOf(const TimedLaunch& launch) {
  return static_cast<double>(launch.end_ns - launch.start_ns);
}

ByShape DurationsOf(const std::vector<TimedLaunch>& launches) {
  ByShape shapes;
  for (const TimedLaunch& launch : launches) {
    if (launch.end_ns <= launch.start_ns) continue;
    shapes[ShapeOf(launch)][launch.batch].push_back(LengthOf(launch));
  }
  return shapes;
}

std::string KernelOfShape(const std::string& shape) { return shape.substr(0, shape.find(' ')); }

/// Asks the one client of a board to yield from time to time, as an arbiter would. Has a thread of
/// its own.
class Interrupter {
 public:
  Interrupter(sched::BoardView board, const FormOfRun& form) : board_(board), form_(form) {}

  void Start() {
    thread_ = std::thread([this] { Loop(); });
  }

  std::vector<Interruption> Stop() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_one();
    if (thread_.joinable()) thread_.join();
    return std::move(made_);
  }

 private:
  bool Sleep(uint64_t ns) {
    std::unique_lock lock(mutex_);
    return !wake_.wait_for(lock, std::chrono::nanoseconds(ns), [this] { return stop_; });
  }

  /// Waits until the client has stopped, and returns when that was seen; 0 if it did not stop
  /// within kLongestDrainNs, or the thread must end.
  uint64_t WaitUntilStopped() {
    const uint64_t begin = sched::BoardClockNs();
    while (board_.slot(0).stopped == 0) {
      const uint64_t waited = sched::BoardClockNs() - begin;
      if (waited > kLongestDrainNs) return 0;
      // The delay until the stop is seen counts as overhead, so it polls without sleeping at first.
      // After a long wait a short delay matters less.
      if (waited < kBriefDrainNs) {
        std::this_thread::yield();
      } else if (!Sleep(kBriefDrainNs / 16)) {
        return 0;
      }
    }
    return sched::BoardClockNs();
  }

  void Loop() {
    while (Sleep(form_.interrupt_every_ns)) {
      Interruption one{};
      one.begin_ns = sched::BoardClockNs();
      sched::SetRequest(board_, 0, sched::kDaemonBit, runtime::kAllSms);
      sched::WakeAgent(board_.slot(0));
      one.stopped_ns = WaitUntilStopped();
      const bool goes_on = Sleep(form_.interrupt_for_ns);
      one.end_ns = sched::BoardClockNs();
      sched::ClearRequest(board_, 0, sched::kDaemonBit);
      sched::WakeAgent(board_.slot(0));
      made_.push_back(one);
      if (!goes_on) break;
    }
  }

  sched::BoardView board_;
  const FormOfRun form_;
  std::vector<Interruption> made_;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
};

/// Writes a plan under which kernels go out as preemptible launches with given claim words.
Status WritePlanOfVariants(const FormOfRun& form, const std::string& path) {
  models::PlanBuilder plan("tune", {});
  for (const auto& [kernel, batch] : form.batches) {
    models::PlanKernel entry{};
    entry.mode = models::PlanMode::kVariant;
    entry.batch = batch;
    entry.flags = models::kTuned;
    plan.AddKernel(kernel, entry, {});
  }
  return profiles::WriteFileWhole(path, plan.Bytes());
}

/// How often a launch was stopped, and for how long in total.
struct Stops {
  uint32_t count = 0;
  uint64_t held_ns = 0;
};

/// The stops of a launch; none where it is not known how long the launch was stopped.
Stops StopsOf(const TimedLaunch& launch, const std::vector<Interruption>& interruptions) {
  Stops stops;
  for (const Interruption& one : interruptions) {
    // A request that ends after the launch did not stop it, because its last blocks were running
    // already.
    if (one.end_ns <= launch.start_ns || one.end_ns > launch.end_ns) continue;
    // The launch began while it was asked to yield, so no workers had to leave; or the request
    // ended while they left.
    if (one.begin_ns < launch.start_ns || one.stopped_ns == 0) return {};
    stops.held_ns += one.end_ns - one.stopped_ns;
    ++stops.count;
  }
  return stops;
}

std::vector<std::string> ClaimTexts(const std::vector<uint32_t>& words) {
  std::vector<std::string> texts;
  for (const uint32_t word : words) texts.push_back(ClaimText(word));
  return texts;
}

}  // namespace

std::string ShapeOf(const TimedLaunch& launch) {
  return fmt::format("{} {}x{}x{} {}x{}x{} {}", launch.kernel, launch.grid[0], launch.grid[1],
                     launch.grid[2], launch.block[0], launch.block[1], launch.block[2],
                     launch.shared_bytes);
}

std::vector<TimedLaunch> WithoutCold(std::vector<TimedLaunch> launches) {
  const auto kind = [](const TimedLaunch& launch) {
    return std::tuple(launch.process, launch.batch != 0, ShapeOf(launch));
  };
  std::map<decltype(kind(launches[0])), size_t> count;
  for (const TimedLaunch& launch : launches) ++count[kind(launch)];
  std::sort(launches.begin(), launches.end(), [](const TimedLaunch& a, const TimedLaunch& b) {
    return a.start_ns < b.start_ns;
  });
  std::erase_if(launches, [&, begun = decltype(count)()](const TimedLaunch& launch) mutable {
    const auto of = kind(launch);
    return begun[of]++ == 0 && count[of] > 1;
  });
  return launches;
}

double ShareWithAllTurns(const std::vector<TimedLaunch>& launches,
                         const std::vector<uint32_t>& turns, size_t times) {
  struct Seen {
    double ns = 0;
    size_t launches = 0;
    std::map<uint32_t, size_t> turns;
  };
  std::map<std::string, Seen> shapes;
  std::map<std::pair<uint32_t, std::string>, Seen> in_process;
  std::set<std::string> kernels;
  for (const TimedLaunch& launch : launches) {
    const std::string shape = ShapeOf(launch);
    for (Seen* const seen : {&shapes[shape], &in_process[{launch.process, shape}]}) {
      seen->ns += LengthOf(launch);
      ++seen->launches;
      ++seen->turns[launch.batch];
    }
    if (launch.batch != 0) kernels.insert(launch.kernel);
  }
  // Two whole cycles of turns in one process show which turns a shape takes.
  std::map<std::string, std::set<uint32_t>> takes;
  for (const auto& [of, seen] : in_process) {
    if (seen.launches < 2 * turns.size()) continue;
    for (const auto& [turn, count] : seen.turns) takes[of.second].insert(turn);
  }
  const auto had_turn = [&](const std::string& shape, const Seen& seen, uint32_t turn) {
    const auto known = takes.find(shape);
    if (known != takes.end() && !known->second.contains(turn)) return true;
    const auto found = seen.turns.find(turn);
    return found != seen.turns.end() && found->second >= times;
  };
  double all_ns = 0, ns = 0;
  for (const auto& [shape, seen] : shapes) {
    if (!kernels.contains(KernelOfShape(shape))) continue;
    all_ns += seen.ns;
    const bool had_all = std::all_of(turns.begin(), turns.end(), [&](uint32_t turn) {
      return had_turn(shape, seen, turn);
    });
    if (had_all) ns += seen.ns;
  }
  return all_ns > 0 ? ns / all_ns : 0;
}

std::map<std::string, Overheads> CompareForms(
    const std::vector<TimedLaunch>& launches, size_t times) {
  std::map<std::string, std::map<uint32_t, std::vector<double>>> found;
  for (const auto& [shape, durations] : DurationsOf(launches)) {
    const auto plain = durations.find(0);
    if (plain == durations.end() || plain->second.size() < times) continue;
    const double usual = models::Median(plain->second);
    for (const auto& [batch, lengths] : durations) {
      if (batch == 0 || lengths.size() < times) continue;
      found[KernelOfShape(shape)][batch].push_back(100 * (models::Median(lengths) / usual - 1));
    }
  }
  std::map<std::string, Overheads> costs;
  for (const auto& [kernel, batches] : found) {
    for (const auto& [batch, shapes] : batches) {
      costs[kernel][batch] = std::accumulate(shapes.begin(), shapes.end(), 0.0) /
                             static_cast<double>(shapes.size());
    }
  }
  return costs;
}

std::map<std::string, std::vector<profiles::PreemptionSample>> InterruptionCosts(
    const std::vector<TimedLaunch>& interrupted, const std::vector<Interruption>& interruptions,
    const std::vector<TimedLaunch>& usual) {
  const ByShape without = DurationsOf(usual);
  std::map<std::string, std::vector<profiles::PreemptionSample>> costs;
  for (const TimedLaunch& launch : interrupted) {
    const auto shape = without.find(ShapeOf(launch));
    if (launch.batch == 0 || shape == without.end()) continue;
    const auto found = shape->second.find(launch.batch);
    if (found == shape->second.end()) continue;
    const Stops stops = StopsOf(launch, interruptions);
    if (stops.count == 0) continue;
    const double extra =
        LengthOf(launch) - models::Median(found->second) - static_cast<double>(stops.held_ns);
    costs[launch.kernel].push_back({.ns = std::llround(extra / stops.count), .count = stops.count});
  }
  return costs;
}

Result<MeasuredRun> RunForm(const PreparedRun& run, const FormOfRun& form,
                            std::vector<Interruption>* interruptions) {
  std::optional<PrivateFolder> folder;  // of the plan
  std::string plan;
  if (form.turns.empty()) {
    auto made = PrivateFolder::Make(PrivateFolder::First::kMemory);
    if (!made) return made.error();
    folder = *std::move(made);
    plan = folder->path() + "/tune.plan";
    if (const Status written = WritePlanOfVariants(form, plan); !written) return written.error();
  }
  const sched::BoardMemory board = sched::BoardMemory::Create("TUNE");
  if (!board) {
    return MakeError(ErrorCode::kIo,
                     fmt::format("cannot make a board in memory: {}", std::strerror(errno)));
  }
  Interrupter interrupter(board.view(), form);
  // The thread starts before the program does. It does not exist in the child, but between fork and
  // exec the child needs no thread.
  if (form.interrupt_every_ns != 0) interrupter.Start();
  auto measured = MeasureRun(run, MeasureWith::kEvents,
                             {{settings::Name("CUPOLA_PREEMPT"), plan.empty() ? "turns" : "auto"},
                              {settings::Name("CUPOLA_TURNS"),
                               fmt::format("{}", fmt::join(ClaimTexts(form.turns), ","))},
                              {settings::Name("CUPOLA_PLAN"), plan},
                              {settings::Name("CUPOLA_BATCH"), ""},
                              {settings::Name("CUPOLA_BOARD"), fmt::format("/proc/{}/fd/{}", getpid(), board.fd())},
                              {settings::Name("CUPOLA_BOARD_SLOT"), "0"}});
  std::vector<Interruption> made = interrupter.Stop();
  if (interruptions != nullptr) *interruptions = std::move(made);
  return measured;
}

Overheads::const_iterator ChooseBatch(const Overheads& tried, double bound_percent) {
  for (const double most : {bound_percent / 2, bound_percent}) {
    const auto within = std::find_if(tried.begin(), tried.end(),
                                     [&](const auto& one) { return one.second <= most; });
    if (within != tried.end()) return within;
  }
  return std::min_element(tried.begin(), tried.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; });
}

}  // namespace cupola
