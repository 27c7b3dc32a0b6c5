#include "cli/tune_command.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <sys/wait.h>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/prepare_run.h"
#include "cli/profile_print.h"
#include "cli/profile_run.h"
#include "cli/tune_measure.h"
#include "profiles/kernel_name.h"
#include "profiles/profile_file.h"

namespace cupola {
namespace {

struct TuneOptions {
  std::string device = "auto";
  std::string out;
  double bound_percent = 0.5;
  std::vector<uint32_t> batches = {1, 2, 4, 8, 16, 32, 64};
  std::vector<uint32_t> eighths;
  uint32_t rounds = 3;
  size_t preemptions = 50;
  uint32_t most_runs = 20;
  double interrupt_every_ms = 3;
  double interrupt_for_ms = 0.3;
};

/// When kernels with this share of the time are measured, the program is not run again for the rest.
constexpr double kEnough = 0.9;
/// Runs without any preemptible launch before the command gives up. Some runs of a program may have none, if its
/// threads launch only while others are in waiting calls.
constexpr size_t kRunsToSeeVariants = 3;

constexpr char kTuneFooter[] =
    "\nCMD is run with its launches taking turns, plain and as preemptible variants with each L, the\n"
    "blocks of a claim interleaved with others' and (g) next to each other in the grid, with one\n"
    "worker less on each SM (w) or so many eighths of them (x4; --workers; in both orders): once,\n"
    "or more often where it launches too rarely; then interrupted from outside, until each kernel was\n"
    "preempted often enough. Kept is what stops soonest within the bound: the smallest L, then the\n"
    "fewest workers. Give it a command of some seconds, with a hundred launches of its kernels at\n"
    "the sizes that matter. First: cupola build ./app. The results go into the profile; then:\n"
    "cupola train.\n"
    "\nExamples:\n"
    "  cupola tune -- ./app --size 100000\n"
    "  cupola tune --bound 1 --batches 1,4,16 --workers 4,6 --rounds 5 -- ./app\n"
    "\nExit codes: 0 done; 1 no kernel has a variant, or CMD failed; 2 wrong usage, 125 cupola\n"
    "itself failed, 126 CMD cannot be executed, 127 CMD was not found.\n";

class Tuning {
 public:
  Tuning(const TuneOptions& options, const PreparedRun& run) : options_(options), run_(run) {}

  /// Measures all turns. One run is enough if the program launches its important kernels often enough; else there are
  /// as many runs as that takes, each of which begins with another turn.
  void FindBatches() {
    std::vector<uint32_t> turns = options_.batches;
    for (const uint32_t batch : options_.batches) {
      if (batch > 1) turns.push_back(batch | profiles::kClaimsInGridOrder);
      for (const uint32_t some : options_.eighths) {
        turns.push_back(batch | profiles::WorkerEighths(some));
        if (batch == 1) continue;
        turns.push_back(batch | profiles::WorkerEighths(some) | profiles::kClaimsInGridOrder);
      }
    }
    turns.push_back(options_.batches.front() | profiles::kOneWorkerLess);
    turns.push_back(0);
    const size_t most_runs = options_.rounds * turns.size();
    for (size_t runs = 0; runs < most_runs; ++runs) {
      std::vector<TimedLaunch> launches;
      Run({.turns = turns}, &launches);
      launches = WithoutCold(std::move(launches));
      launches_.insert(launches_.end(), launches.begin(), launches.end());
      if (runs + 1 >= kRunsToSeeVariants) RequireVariants();
      if (ShareWithAllTurns(launches_, turns, options_.rounds) >= kEnough) break;
      std::rotate(turns.begin(), turns.begin() + 1, turns.end());
    }
    RequireVariants();
    for (const auto& [kernel, tried] : CompareForms(launches_, options_.rounds)) {
      Choose(kernel, tried);
    }
    if (tuned_.empty()) {
      Fail(MakeError(ErrorCode::kNotFound,
                     "no kernel was launched often enough at one shape, plain and as a variant"),
           kExitBadInput);
    }
  }

  void MeasurePreemptions() {
    FormOfRun form{.interrupt_every_ns = Ns(options_.interrupt_every_ms),
                   .interrupt_for_ns = Ns(options_.interrupt_for_ms)};
    for (const auto& [kernel, tuned] : tuned_) form.batches[kernel] = tuned.batch;
    for (uint32_t runs = 0; runs < options_.most_runs && !HasEnough(); ++runs) {
      std::vector<TimedLaunch> interrupted;
      std::vector<Interruption> interruptions;
      Run(form, &interrupted, &interruptions);
      interrupted = WithoutCold(std::move(interrupted));
      for (auto& [kernel, costs] : InterruptionCosts(interrupted, interruptions, launches_)) {
        for (profiles::PreemptionSample cost : costs) {
          cost.when = UnixNs() + preemptions_[kernel].size();
          preemptions_[kernel].push_back(cost);
        }
      }
    }
  }

  uint32_t runs() const { return runs_; }

  /// The results, as a profile to be merged.
  profiles::Profile Result() const {
    profiles::Profile result = profile_;
    for (const auto& [kernel, tuned] : tuned_) result.kernels[{kernel, ""}].tuned = tuned;
    for (const auto& [kernel, samples] : preemptions_) {
      result.kernels[{kernel, ""}].preemptions = samples;
    }
    return result;
  }

  void Print() const {
    std::string text = fmt::format("{:<44} {:>4} {:>9} {:>11} {:>10}\n", "kernel", "L",
                                   "overhead", "preemptions", "mean");
    for (const auto& [kernel, tuned] : tuned_) {
      const profiles::MeanPreemption mean = MeanOf(kernel);
      text += fmt::format("{:<44} {:>4} {:>7.2f} %{} {:>10} {:>10}\n",
                          KernelDisplayName(kernel).substr(0, 44), ClaimText(tuned.batch),
                          tuned.overhead_percent, tuned.met ? " " : "!", mean.count,
                          mean.count == 0 ? "-" : fmt::format("{:.1f} us", mean.ns / 1e3));
    }
    std::fputs(Printable(text).c_str(), stdout);
  }

 private:
  static uint64_t Ns(double ms) { return static_cast<uint64_t>(ms * 1e6); }

  void Run(const FormOfRun& form, std::vector<TimedLaunch>* launches,
           std::vector<Interruption>* interruptions = nullptr) {
    auto measured = RunForm(run_, form, interruptions);
    if (!measured) Fail(measured.error(), ExecFailureCode(measured.error()));
    ++runs_;
    if (!WIFEXITED(measured->status) || WEXITSTATUS(measured->status) != 0) {
      Fail(MakeError(ErrorCode::kInternal, "the program failed, or fails with preemptible kernels"),
           kExitBadInput);
    }
    *launches = std::move(measured->timeline);
    profile_.gpu = std::max(profile_.gpu, measured->profile.gpu);
    // Plain launches become samples for the duration models, for use where there are no better ones.
    if (form.interrupt_every_ns == 0) {
      if (Status merged = profiles::Merge(measured->profile, &profile_); !merged) {
        Fail(merged.error(), kExitCupolaFailed);
      }
    }
  }

  void RequireVariants() const {
    if (launches_.empty()) {
      Fail(MakeError(ErrorCode::kNotFound, "no kernel launch was measured"), kExitBadInput);
    }
    const bool any = std::any_of(launches_.begin(), launches_.end(),
                                 [](const TimedLaunch& launch) { return launch.batch != 0; });
    if (any) return;
    Fail(MakeError(ErrorCode::kNotFound,
                   "no launch went out as a preemptible variant: is there one in the variant "
                   "store? (cupola build; CUPOLA_LOG=info says more)"),
         kExitBadInput);
  }

  void Choose(const std::string& kernel, const Overheads& tried) {
    const auto chosen = ChooseBatch(tried, options_.bound_percent);
    profiles::TunedBatch& tuned = tuned_[kernel];
    tuned.when = UnixNs();
    tuned.bound_percent = options_.bound_percent;
    tuned.tried = tried;
    tuned.batch = chosen->first;
    tuned.overhead_percent = chosen->second;
    tuned.met = chosen->second <= options_.bound_percent;
  }

  /// The mean over all preemptions of a kernel that were measured.
  profiles::MeanPreemption MeanOf(const std::string& kernel) const {
    const auto found = preemptions_.find(kernel);
    return found == preemptions_.end() ? profiles::MeanPreemption{}
                                       : profiles::MeanOfLatest(found->second, SIZE_MAX);
  }

  /// Whether the kernels that were preempted often enough make up the share kEnough of the time of all.
  bool HasEnough() const {
    double all_ns = 0, ns = 0;
    for (const TimedLaunch& launch : launches_) {
      if (!tuned_.contains(launch.kernel)) continue;
      const auto took = static_cast<double>(launch.end_ns - launch.start_ns);
      all_ns += took;
      if (MeanOf(launch.kernel).count >= options_.preemptions) ns += took;
    }
    return ns >= kEnough * all_ns;
  }

  const TuneOptions& options_;
  const PreparedRun& run_;
  uint32_t runs_ = 0;  ///< runs of the program so far
  profiles::Profile profile_;
  std::vector<TimedLaunch> launches_;  ///< of the runs with turns
  std::map<std::string, profiles::TunedBatch> tuned_;
  std::map<std::string, std::vector<profiles::PreemptionSample>> preemptions_;
};

/// Drops our launches of kernels for which the existing profile has launches: durations by events are a little longer
/// than those by CUPTI, which the profile may have.
void DropKnownLaunches(const std::string& path, profiles::Profile* result) {
  const auto there = profiles::ReadProfile(path);
  if (!there) return;  // there is none yet; for a damaged one the merge reports the error
  for (auto& [key, kernel] : result->kernels) {
    const auto known = there->kernels.find(key);
    if (known != there->kernels.end() && !known->second.launches.empty()) kernel.launches.clear();
  }
}

void Tune(const TuneOptions& options) {
  const PreparedRun run =
      PrepareRun(RunProgram() != nullptr ? *RunProgram() : nullptr, options.device, "tune");
  if (run.environment.preload.empty()) throw CLI::RuntimeError(kExitCupolaFailed);
  RequireWritable(options.out);
  Tuning tuning(options, run);
  tuning.FindBatches();
  if (options.preemptions != 0) tuning.MeasurePreemptions();
  profiles::Profile result = tuning.Result();
  const auto path = ProfilePath(options.out, result);
  if (!path) Fail(path.error(), kExitCupolaFailed);
  DropKnownLaunches(*path, &result);
  const auto all = profiles::MergeIntoFile(result, *path);
  if (!all) Fail(all.error(), kExitCupolaFailed);
  tuning.Print();
  Say(fmt::format("{} runs; added to {}; now: cupola train", tuning.runs(), *path));
}

}  // namespace

void AddTuneCommand(CLI::App& app) {
  auto options = std::make_shared<TuneOptions>();
  CLI::App* tune = app.add_subcommand("tune",
                                      "Find how often a program's kernels may look for a "
                                      "preemption:\n  cupola tune [OPTIONS] -- CMD [ARG...]");
  tune->add_option("--device", options->device, "Where kernels run: auto, gpu or sim")
      ->check(CLI::IsMember({"auto", "gpu", "sim"}))
      ->capture_default_str();
  tune->add_option("-o,--out", options->out, "The profile to add to (default: the GPU's)");
  tune->add_option("--bound", options->bound_percent, "Overhead of a variant, at most, in percent")
      ->capture_default_str();
  tune->add_option("--batches", options->batches, "Values of L to try")
      ->delimiter(',')
      ->expected(1, 15)
      ->check(CLI::Range(1u, 65536u));
  tune->add_option("--workers", options->eighths,
                   "Parts of the workers to try besides all, in eighths")
      ->delimiter(',')
      ->expected(1, 3)
      ->check(CLI::Range(1u, profiles::kAllEighths - 1));
  tune->add_option("--rounds", options->rounds,
                   "Times to measure each shape plain and with each L, at least")
      ->check(CLI::Range(1u, 1000u))
      ->capture_default_str();
  tune->add_option("--preemptions", options->preemptions,
                   "Preemptions to measure of each kernel; 0 = none")
      ->capture_default_str();
  tune->add_option("--most-runs", options->most_runs, "Runs for that, at most")
      ->capture_default_str();
  tune->add_option("--interrupt-every", options->interrupt_every_ms, "Milliseconds between two")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  tune->add_option("--interrupt-for", options->interrupt_for_ms, "Milliseconds that one lasts")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  tune->footer(kTuneFooter);
  tune->callback([options] { Tune(*options); });
}

}  // namespace cupola
