#include "cli/report/figures.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace cupola::report {
namespace {

bool Ran(const ReportLaunch& launch) { return launch.way != Way::kCaptured && launch.way != Way::kFailed; }

/// At `at_ns` a process's number of running or waiting launches changes by `step`.
struct LaunchEdge {
  int64_t at_ns;
  uint32_t process;
  int8_t running;
  int8_t pending;
};

std::vector<LaunchEdge> EdgesOf(const Report& report) {
  std::vector<LaunchEdge> edges;
  edges.reserve(report.launches.size() * 3);
  for (const ReportLaunch& launch : report.launches) {
    const uint32_t process = report.rows[launch.row].process;
    if (!launch.timed || !Ran(launch) || report.processes[process].in_arbiter) continue;
    const int64_t call_ns = std::min(launch.call_ns, launch.start_ns);
    edges.push_back({call_ns, process, 0, 1});
    edges.push_back({launch.start_ns, process, 1, -1});
    edges.push_back({launch.end_ns, process, -1, 0});
  }
  std::sort(edges.begin(), edges.end(), [](const LaunchEdge& a, const LaunchEdge& b) { return a.at_ns < b.at_ns; });
  return edges;
}

/// What one process does in a sweep through time, and since when.
struct SweepState {
  int64_t running = 0, pending = 0;
  bool has_phase = false;
  Phase phase = Phase::kRuns;
  int64_t since_ns = 0;
};

}  // namespace

void AddPhasesOfLaunches(Report* report) {
  const std::vector<LaunchEdge> edges = EdgesOf(*report);
  std::vector<SweepState> states(report->processes.size());
  size_t running_processes = 0;
  const auto settle = [&](uint32_t process, int64_t now_ns) {
    SweepState& state = states[process];
    const bool runs = state.running > 0;
    const bool waits = !runs && state.pending > 0 && running_processes > 0;
    const Phase phase = runs ? Phase::kRuns : Phase::kWaits;
    if (state.has_phase == (runs || waits) && (!state.has_phase || state.phase == phase)) return;
    if (state.has_phase && now_ns > state.since_ns) {
      report->phases.push_back(
          {.start_ns = state.since_ns, .end_ns = now_ns, .process = process, .gpu = 0, .phase = state.phase});
    }
    state.has_phase = runs || waits;
    state.phase = phase;
    state.since_ns = now_ns;
  };
  for (size_t i = 0; i < edges.size();) {
    const int64_t now_ns = edges[i].at_ns;
    const size_t running_before = running_processes;
    size_t first = i;
    for (; i < edges.size() && edges[i].at_ns == now_ns; ++i) {
      SweepState& state = states[edges[i].process];
      const bool ran = state.running > 0;
      state.running += edges[i].running;
      state.pending += edges[i].pending;
      running_processes += static_cast<size_t>(state.running > 0) - static_cast<size_t>(ran);
    }
    // Whether a process waits depends on the others only by whether any runs.
    if ((running_before == 0) != (running_processes == 0)) {
      for (uint32_t process = 0; process < states.size(); ++process) settle(process, now_ns);
    } else {
      for (; first < i; ++first) settle(edges[first].process, now_ns);
    }
  }
  std::stable_sort(report->phases.begin(), report->phases.end(),
                   [](const ReportPhase& a, const ReportPhase& b) { return a.start_ns < b.start_ns; });
}

namespace {

/// Goes through the phases of one GPU in the order of time and adds up shares and waits.
class GpuSweep {
 public:
  GpuSweep(const Report& report, uint32_t gpu, size_t bins) : report_(report), counts_(report.processes.size()) {
    shares_.gpu = gpu;
    const int64_t span = report.end_ns - report.begin_ns;
    shares_.bin_ns = (span + static_cast<int64_t>(bins) - 1) / static_cast<int64_t>(bins);
    shares_.parts.assign(bins, std::vector<double>(report.processes.size(), 0.0));
  }

  void Run() {
    const std::vector<Edge> edges = Edges();
    for (size_t i = 0; i < edges.size();) {
      const int64_t now_ns = edges[i].at_ns;
      for (; i < edges.size() && edges[i].at_ns == now_ns; ++i) {
        counts_[edges[i].process][edges[i].what] += edges[i].step;
      }
      if (i < edges.size()) Account(now_ns, edges[i].at_ns);
    }
  }

  Shares TakeShares() { return std::move(shares_); }
  const std::map<std::pair<uint32_t, uint32_t>, Wait>& waits() const { return waits_; }

 private:
  static constexpr size_t kWaits = static_cast<size_t>(Phase::kWaits), kRuns = static_cast<size_t>(Phase::kRuns),
                          kLeaves = static_cast<size_t>(Phase::kLeaves), kKernels = 3;

  /// At `at_ns` the number of a process's phases of a kind, or of its running kernels, changes by `step`.
  struct Edge {
    int64_t at_ns;
    uint32_t process;
    uint8_t what;  ///< index into counts_[process]
    int8_t step;
  };

  std::vector<Edge> Edges() const {
    std::vector<Edge> edges;
    const auto add = [&edges](int64_t start_ns, int64_t end_ns, uint32_t process, size_t what) {
      if (end_ns <= start_ns) return;
      edges.push_back({start_ns, process, static_cast<uint8_t>(what), 1});
      edges.push_back({end_ns, process, static_cast<uint8_t>(what), -1});
    };
    for (const ReportPhase& phase : report_.phases) {
      if (phase.gpu == shares_.gpu) add(phase.start_ns, phase.end_ns, phase.process, static_cast<size_t>(phase.phase));
    }
    for (const ReportLaunch& launch : report_.launches) {
      const uint32_t process = report_.rows[launch.row].process;
      const bool counts = report_.processes[process].in_arbiter && launch.timed && Ran(launch);
      if (counts) add(launch.start_ns, launch.end_ns, process, kKernels);
    }
    std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) { return a.at_ns < b.at_ns; });
    return edges;
  }

  void Account(int64_t from_ns, int64_t to_ns) {
    holders_.clear();
    waiters_.clear();
    bool any_leaves = false;
    for (const auto& count : counts_) any_leaves = any_leaves || count[kLeaves] > 0;
    for (uint32_t process = 0; process < counts_.size(); ++process) {
      const auto& count = counts_[process];
      const bool runs = count[kRuns] > 0;
      const bool has_gpu = count[kLeaves] > 0 || (runs && (!any_leaves || count[kKernels] > 0));
      if (has_gpu) holders_.push_back(process);
      if (!has_gpu && (runs || count[kWaits] > 0)) waiters_.push_back(process);
    }
    const double part = holders_.empty() ? 0 : 1.0 / static_cast<double>(holders_.size());
    for (const uint32_t holder : holders_) AddShare(holder, from_ns, to_ns, part);
    for (const uint32_t waiter : waiters_) {
      for (const uint32_t holder : holders_) AddWait(waiter, holder, from_ns, to_ns, part);
      if (holders_.empty()) AddWait(waiter, kNobody, from_ns, to_ns, 1);
    }
  }

  void AddShare(uint32_t process, int64_t from_ns, int64_t to_ns, double part) {
    while (from_ns < to_ns) {
      const int64_t bin = std::min((from_ns - report_.begin_ns) / shares_.bin_ns,
                                   static_cast<int64_t>(shares_.parts.size()) - 1);
      const int64_t bin_end = report_.begin_ns + (bin + 1) * shares_.bin_ns;
      const int64_t end = std::min(to_ns, bin_end);
      const double width = static_cast<double>(shares_.bin_ns);
      shares_.parts[static_cast<size_t>(bin)][process] += part * static_cast<double>(end - from_ns) / width;
      from_ns = end;
    }
  }

  void AddWait(uint32_t waiter, uint32_t holder, int64_t from_ns, int64_t to_ns, double part) {
    Wait& wait = waits_[{waiter, holder}];
    Streak& streak = streaks_[{waiter, holder}];
    wait.waiter = waiter;
    wait.holder = holder;
    if (wait.times == 0 || streak.end_ns != from_ns) {
      ++wait.times;
      streak.start_ns = from_ns;
    }
    streak.end_ns = to_ns;
    wait.total_ns += static_cast<uint64_t>(static_cast<double>(to_ns - from_ns) * part);
    wait.longest_ns = std::max(wait.longest_ns, static_cast<uint64_t>(to_ns - streak.start_ns));
  }

  struct Streak {
    int64_t start_ns = 0, end_ns = 0;
  };

  const Report& report_;
  std::vector<std::array<int32_t, 4>> counts_;  ///< by process: phases of each kind that last now, and running kernels
  Shares shares_;
  std::map<std::pair<uint32_t, uint32_t>, Wait> waits_;
  std::map<std::pair<uint32_t, uint32_t>, Streak> streaks_;  ///< the wait that was added last
  std::vector<uint32_t> holders_, waiters_;
};

/// When a process waited: for each wait its beginning, its end, and the time waited before it.
class WaitingTimes {
 public:
  void Add(int64_t start_ns, int64_t end_ns) {
    if (!ends_.empty()) start_ns = std::max(start_ns, ends_.back());
    if (end_ns <= start_ns) return;
    before_.push_back(total_);
    starts_.push_back(start_ns);
    ends_.push_back(end_ns);
    total_ += end_ns - start_ns;
  }
  /// Time waited between the two.
  int64_t Within(int64_t from_ns, int64_t to_ns) const { return Until(to_ns) - Until(from_ns); }

 private:
  int64_t Until(int64_t at_ns) const {
    const auto next = std::upper_bound(starts_.begin(), starts_.end(), at_ns);
    if (next == starts_.begin()) return 0;
    const auto i = static_cast<size_t>(next - starts_.begin() - 1);
    return before_[i] + std::min(at_ns, ends_[i]) - starts_[i];
  }
  std::vector<int64_t> starts_, ends_, before_;
  int64_t total_ = 0;
};

void AddUpLaunches(const Report& report, Figures* figures) {
  std::vector<WaitingTimes> waiting(report.processes.size());
  for (const ReportPhase& phase : report.phases) {
    if (phase.phase == Phase::kWaits) waiting[phase.process].Add(phase.start_ns, phase.end_ns);
  }
  std::map<uint32_t, Coverage> coverage;
  std::map<std::pair<uint32_t, Way>, KernelTotal> kernels;
  for (const ReportLaunch& launch : report.launches) {
    const uint32_t process = report.rows[launch.row].process;
    Coverage& covered = coverage[process];
    covered.process = process;
    KernelTotal& kernel = kernels[{launch.name, launch.way}];
    kernel.name = launch.name;
    kernel.way = launch.way;
    ++covered.launches[static_cast<size_t>(launch.way)];
    ++kernel.launches;
    if (!launch.timed || !Ran(launch)) continue;
    const int64_t took_ns = launch.end_ns - launch.start_ns;
    const int64_t waited_ns = waiting[process].Within(launch.start_ns, launch.end_ns);
    covered.gpu_ns[static_cast<size_t>(launch.way)] += static_cast<uint64_t>(took_ns - waited_ns);
    ++kernel.timed;
    kernel.total_ns += static_cast<uint64_t>(took_ns);
    kernel.longest_ns = std::max(kernel.longest_ns, static_cast<uint64_t>(took_ns));
  }
  for (auto& [process, covered] : coverage) figures->coverage.push_back(covered);
  for (auto& [key, kernel] : kernels) figures->kernels.push_back(kernel);
  std::stable_sort(figures->kernels.begin(), figures->kernels.end(), [](const KernelTotal& a, const KernelTotal& b) {
    return std::tie(a.total_ns, a.launches) > std::tie(b.total_ns, b.launches);
  });
}

}  // namespace

Figures MakeFigures(const Report& report, size_t bins) {
  Figures figures;
  std::map<std::pair<uint32_t, uint32_t>, Wait> waits;
  for (uint32_t gpu = 0; gpu < report.gpus.size(); ++gpu) {
    GpuSweep sweep(report, gpu, bins);
    sweep.Run();
    for (const auto& [pair, wait] : sweep.waits()) {
      Wait& all = waits[pair];
      all = {wait.waiter, wait.holder, all.total_ns + wait.total_ns, std::max(all.longest_ns, wait.longest_ns),
             all.times + wait.times};
    }
    figures.shares.push_back(sweep.TakeShares());
  }
  for (const auto& [pair, wait] : waits) {
    if (wait.total_ns != 0) figures.waits.push_back(wait);
  }
  std::stable_sort(figures.waits.begin(), figures.waits.end(),
                   [](const Wait& a, const Wait& b) { return a.total_ns > b.total_ns; });
  AddUpLaunches(report, &figures);
  return figures;
}

}  // namespace cupola::report
