#include "cli/tune_measure.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include <unistd.h>

#include <fmt/format.h>

#include "models/train/plan_builder.h"
#include "models/train/select.h"
#include "profiles/profile_file.h"
#include "sched/board/board_memory.h"

namespace cupola {
namespace {

namespace fs = std::filesystem;

using Durations = std::map<std::string, std::vector<double>>;  // by ShapeOf

double LengthOf(const TimedLaunch& launch) {
  return static_cast<double>(launch.end_ns - launch.start_ns);
}

Durations DurationsOf(const std::vector<TimedLaunch>& launches, bool variants) {
  Durations durations;
  for (const TimedLaunch& launch : launches) {
    if (launch.preemptible != variants) continue;
    if (launch.end_ns > launch.start_ns) durations[ShapeOf(launch)].push_back(LengthOf(launch));
  }
  return durations;
}

std::string KernelOfShape(const std::string& shape) { return shape.substr(0, shape.find(' ')); }

/// Asks the one process of a board to yield, now and then, as an arbiter would.
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

  void Loop() {
    while (Sleep(form_.interrupt_every_ns)) {
      const uint64_t begin = sched::BoardClockNs();
      sched::SetRequest(board_, 0, sched::kDaemonBit, runtime::kAllSms);
      sched::WakeAgent(board_.slot(0));
      const bool goes_on = Sleep(form_.interrupt_for_ns);
      sched::ClearRequest(board_, 0, sched::kDaemonBit);
      sched::WakeAgent(board_.slot(0));
      made_.push_back({begin, sched::BoardClockNs()});
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

/// A plan under which each kernel's launches take turns, in a file that goes with it.
class PlanOfTurns {
 public:
  explicit PlanOfTurns(const FormOfRun& form)
      : path_(fmt::format("{}/cupola-tune-{}.plan", fs::temp_directory_path().string(), getpid())) {
    models::PlanBuilder plan("tune", {});
    for (const std::string& kernel : form.alternate) {
      models::PlanKernel entry{};
      entry.mode = models::PlanMode::kAlternate;
      entry.batch = form.batch;
      entry.flags = models::kTuned;
      plan.AddKernel(kernel, entry, {});
    }
    written_ = profiles::WriteFileWhole(path_, plan.Bytes());
  }
  ~PlanOfTurns() { unlink(path_.c_str()); }
  PlanOfTurns(const PlanOfTurns&) = delete;
  PlanOfTurns& operator=(const PlanOfTurns&) = delete;
  const Status& written() const { return written_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  Status written_;
};

}  // namespace

std::string ShapeOf(const TimedLaunch& launch) {
  return fmt::format("{} {}x{}x{} {}x{}x{} {}", launch.kernel, launch.grid[0], launch.grid[1],
                     launch.grid[2], launch.block[0], launch.block[1], launch.block[2],
                     launch.shared_bytes);
}

bool BothFormsSeen(const std::vector<TimedLaunch>& launches) {
  const Durations plain = DurationsOf(launches, false);
  const Durations variant = DurationsOf(launches, true);
  const auto enough = [](const Durations& of, const std::string& shape) {
    const auto found = of.find(shape);
    return found != of.end() && found->second.size() >= 2;
  };
  std::set<std::string> kernels;
  for (const auto& [shape, durations] : variant) kernels.insert(KernelOfShape(shape));
  const auto is_fair = [&](const auto& one) {
    return !kernels.contains(KernelOfShape(one.first)) ||
           (enough(plain, one.first) && enough(variant, one.first));
  };
  return !variant.empty() && std::all_of(variant.begin(), variant.end(), is_fair) &&
         std::all_of(plain.begin(), plain.end(), is_fair);
}

std::map<std::string, VariantCost> CompareForms(const std::vector<TimedLaunch>& plain,
                                                const std::vector<TimedLaunch>& variant) {
  const Durations before = DurationsOf(plain, false);
  std::map<std::string, VariantCost> costs;
  for (const auto& [shape, durations] : DurationsOf(variant, true)) {
    const auto found = before.find(shape);
    if (found == before.end()) continue;
    VariantCost& cost = costs[KernelOfShape(shape)];
    cost.overhead_percent +=
        100 * (models::Median(durations) / models::Median(found->second) - 1);
    ++cost.shapes;
  }
  for (auto& [kernel, cost] : costs) cost.overhead_percent /= static_cast<double>(cost.shapes);
  return costs;
}

std::map<std::string, std::vector<uint64_t>> InterruptionCosts(
    const std::vector<TimedLaunch>& interrupted, const std::vector<Interruption>& interruptions,
    const std::vector<TimedLaunch>& usual) {
  const Durations without = DurationsOf(usual, true);
  std::map<std::string, std::vector<uint64_t>> costs;
  for (const TimedLaunch& launch : interrupted) {
    const auto found = without.find(ShapeOf(launch));
    if (!launch.preemptible || found == without.end()) continue;
    uint64_t held = 0;
    uint64_t count = 0;
    for (const Interruption& one : interruptions) {
      // One that outlives the launch did not stop it: its last blocks were running already.
      if (one.end_ns <= launch.start_ns || one.end_ns > launch.end_ns) continue;
      held += one.end_ns - std::max(one.begin_ns, launch.start_ns);
      ++count;
    }
    if (count == 0) continue;
    const double extra =
        LengthOf(launch) - models::Median(found->second) - static_cast<double>(held);
    if (extra > 0) {
      costs[launch.kernel].push_back(static_cast<uint64_t>(extra) / count);
    }
  }
  return costs;
}

Result<MeasuredRun> RunForm(const PreparedRun& run, const FormOfRun& form,
                            std::vector<Interruption>* interruptions) {
  const bool alternates = !form.alternate.empty();
  if (!form.variant && !alternates) {
    return MeasureRun(run, MeasureWith::kEvents, {{"CUPOLA_PREEMPT", "off"}});
  }
  std::unique_ptr<PlanOfTurns> plan;
  if (alternates) {
    plan = std::make_unique<PlanOfTurns>(form);
    if (!plan->written().ok()) return plan->written().error();
  }
  const sched::BoardMemory board = sched::BoardMemory::Create("TUNE");
  if (!board) {
    return MakeError(ErrorCode::kIo,
                     fmt::format("cannot make a board in memory: {}", std::strerror(errno)));
  }
  Interrupter interrupter(board.view(), form);
  // Before the program is started: a thread would not exist in the child, but for its short time
  // between fork and exec it needs none.
  if (form.interrupt_every_ns != 0) interrupter.Start();
  auto measured = MeasureRun(run, MeasureWith::kEvents,
                             {{"CUPOLA_PREEMPT", alternates ? "auto" : "always"},
                              {"CUPOLA_PLAN", alternates ? plan->path() : "/nonexistent"},
                              {"CUPOLA_BATCH", fmt::format("{}", form.batch)},
                              {"CUPOLA_BOARD", fmt::format("/proc/{}/fd/{}", getpid(), board.fd())},
                              {"CUPOLA_BOARD_SLOT", "0"}});
  std::vector<Interruption> made = interrupter.Stop();
  if (interruptions != nullptr) *interruptions = std::move(made);
  return measured;
}

}  // namespace cupola
