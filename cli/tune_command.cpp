#include "cli/tune_command.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <sys/wait.h>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/prepare_run.h"
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
  uint32_t rounds = 3;
  size_t preemptions = 50;
  uint32_t most_runs = 20;
  double interrupt_every_ms = 3;
  double interrupt_for_ms = 0.3;
};

constexpr char kFooter[] =
    "\nCMD is run many times: plain and with its kernels as preemptible variants, in turn, with L\n"
    "from small to large until every kernel keeps within the bound; then interrupted from\n"
    "outside, until each kernel was preempted often enough. Give it a command of some seconds,\n"
    "with kernels at the sizes that matter. First: cupola build ./app. The results go into the\n"
    "profile; then: cupola train.\n"
    "\nExamples:\n"
    "  cupola tune -- ./app --size 100000\n"
    "  cupola tune --bound 1 --batches 1,4,16 --rounds 5 -- ./app\n"
    "\nExit codes: 0 done; 1 no kernel has a variant, or CMD failed; 2 wrong usage, 125 cupola\n"
    "itself failed, 126 CMD cannot be executed, 127 CMD was not found.\n";

[[noreturn]] void Fail(const Error& error, int code) {
  PrintError(error);
  throw CLI::RuntimeError(code);
}

void Say(const std::string& text) { std::fputs(("cupola: " + text + "\n").c_str(), stderr); }

class Tuning {
 public:
  Tuning(const TuneOptions& options, const PreparedRun& run) : options_(options), run_(run) {}

  void FindBatches() {
    for (const uint32_t batch : options_.batches) {
      std::vector<TimedLaunch> variant;
      std::vector<TimedLaunch> plain;
      for (uint32_t round = 0; round < options_.rounds; ++round) {
        RunBothForms(batch, round, &plain, &variant);
      }
      const auto costs = CompareForms(plain, variant);
      if (costs.empty()) {
        Fail(MakeError(ErrorCode::kNotFound,
                       "no launch went out as a preemptible variant: is there one in the variant "
                       "store? (cupola build; CUPOLA_LOG=info says more)"),
             kExitBadInput);
      }
      Note(batch, costs);
      last_variant_ = std::move(variant);
      if (open_.empty()) break;
    }
    for (const std::string& kernel : open_) SettleForTheBest(kernel);
  }

  void MeasurePreemptions() {
    for (uint32_t runs = 0; runs < options_.most_runs && !HasEnough(); ++runs) {
      std::vector<TimedLaunch> interrupted;
      std::vector<Interruption> interruptions;
      const FormOfRun form{.variant = true, .batch = MostBatch(),
                           .interrupt_every_ns = Ns(options_.interrupt_every_ms),
                           .interrupt_for_ns = Ns(options_.interrupt_for_ms)};
      Run(form, &interrupted, &interruptions);
      for (auto& [kernel, costs] :
           InterruptionCosts(interrupted, interruptions, last_variant_)) {
        for (const uint64_t ns : costs) {
          preemptions_[kernel].push_back({UnixNs() + preemptions_[kernel].size(), ns});
        }
      }
    }
  }

  /// What was found, as a profile to be merged.
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
      const auto found = preemptions_.find(kernel);
      uint64_t sum = 0;
      const size_t count = found == preemptions_.end() ? 0 : found->second.size();
      for (size_t i = 0; i < count; ++i) sum += found->second[i].ns;
      text += fmt::format("{:<44} {:>4} {:>7.2f} %{} {:>10} {:>10}\n",
                          KernelDisplayName(kernel).substr(0, 44), tuned.batch,
                          tuned.overhead_percent, tuned.met ? " " : "!", count,
                          count == 0 ? "-" : fmt::format("{:.1f} us", static_cast<double>(sum) /
                                                                     static_cast<double>(count) /
                                                                     1e3));
    }
    std::fputs(text.c_str(), stdout);
  }

 private:
  /// Launch by launch in turn where the kernels are launched often enough in one run; else run by
  /// run, each form first every other time: what drifts, drifts against both.
  void RunBothForms(uint32_t batch, uint32_t round, std::vector<TimedLaunch>* plain,
                    std::vector<TimedLaunch>* variant) {
    if (kernels_.empty()) FindKernels();
    if (by_launches_) {
      std::vector<TimedLaunch> both;
      Run({.alternate = kernels_, .batch = batch}, &both);
      by_launches_ = BothFormsSeen(both);
      if (by_launches_) {
        plain->insert(plain->end(), both.begin(), both.end());
        variant->insert(variant->end(), both.begin(), both.end());
        return;
      }
    }
    const bool variant_first = round % 2 == 1;
    if (!variant_first) Run({}, plain);
    Run({.variant = true, .batch = batch}, variant);
    if (variant_first) Run({}, plain);
  }

  /// The first run: which kernels there are. Its launches are cold and not compared.
  void FindKernels() {
    std::vector<TimedLaunch> launches;
    Run({}, &launches);
    std::set<std::string> names;
    for (const TimedLaunch& launch : launches) names.insert(launch.kernel);
    if (names.empty()) {
      Fail(MakeError(ErrorCode::kNotFound, "no kernel launch was measured"), kExitBadInput);
    }
    kernels_.assign(names.begin(), names.end());
  }

  static uint64_t Ns(double ms) { return static_cast<uint64_t>(ms * 1e6); }

  void Run(const FormOfRun& form, std::vector<TimedLaunch>* launches,
           std::vector<Interruption>* interruptions = nullptr) {
    auto measured = RunForm(run_, form, interruptions);
    if (!measured) Fail(measured.error(), ExecFailureCode(measured.error()));
    if (!WIFEXITED(measured->status) || WEXITSTATUS(measured->status) != 0) {
      Fail(MakeError(ErrorCode::kInternal,
                     form.variant ? "the program failed with preemptible kernels"
                                  : "the program failed"),
           kExitBadInput);
    }
    launches->insert(launches->end(), measured->timeline.begin(), measured->timeline.end());
    profile_.gpu = std::max(profile_.gpu, measured->profile.gpu);
    // Plain launches are samples for the duration models where there are no better ones.
    if (!form.variant && form.alternate.empty()) {
      if (Status merged = profiles::Merge(measured->profile, &profile_); !merged) {
        Fail(merged.error(), kExitCupolaFailed);
      }
    }
  }

  void Note(uint32_t batch, const std::map<std::string, VariantCost>& costs) {
    for (const auto& [kernel, cost] : costs) {
      const bool is_new = tuned_.find(kernel) == tuned_.end();
      if (is_new) open_.insert(kernel);
      if (!open_.contains(kernel)) continue;
      profiles::TunedBatch& tuned = tuned_[kernel];
      tuned.when = UnixNs();
      tuned.bound_percent = options_.bound_percent;
      tuned.tried[batch] = cost.overhead_percent;
      tuned.batch = batch;
      tuned.overhead_percent = cost.overhead_percent;
      if (cost.overhead_percent <= options_.bound_percent) open_.erase(kernel);
    }
  }

  void SettleForTheBest(const std::string& kernel) {
    profiles::TunedBatch& tuned = tuned_[kernel];
    const auto best = std::min_element(
        tuned.tried.begin(), tuned.tried.end(),
        [](const auto& a, const auto& b) { return a.second < b.second; });
    tuned.batch = best->first;
    tuned.overhead_percent = best->second;
    tuned.met = false;
  }

  bool HasEnough() const {
    return std::all_of(tuned_.begin(), tuned_.end(), [&](const auto& one) {
      const auto found = preemptions_.find(one.first);
      return found != preemptions_.end() && found->second.size() >= options_.preemptions;
    });
  }

  uint32_t MostBatch() const {
    uint32_t most = 1;
    for (const auto& [kernel, tuned] : tuned_) most = std::max(most, tuned.batch);
    return most;
  }

  const TuneOptions& options_;
  const PreparedRun& run_;
  profiles::Profile profile_;
  std::vector<std::string> kernels_;
  bool by_launches_ = true;  ///< until a run shows that it does not serve
  std::vector<TimedLaunch> last_variant_;
  std::map<std::string, profiles::TunedBatch> tuned_;
  std::set<std::string> open_;  ///< above the bound so far
  std::map<std::string, std::vector<profiles::PreemptionSample>> preemptions_;
};

/// Durations by events are a little longer than CUPTI's: a kernel that the profile has launches of
/// keeps those alone.
void DropKnownLaunches(const std::string& path, profiles::Profile* result) {
  const auto there = profiles::ReadProfile(path);
  if (!there) return;  // none yet; a damaged one is the error of the merge
  for (auto& [key, kernel] : result->kernels) {
    const auto known = there->kernels.find(key);
    if (known != there->kernels.end() && !known->second.launches.empty()) kernel.launches.clear();
  }
}

void Tune(const TuneOptions& options) {
  const PreparedRun run =
      PrepareRun(RunProgram() != nullptr ? *RunProgram() : nullptr, options.device, "tune");
  if (run.environment.preload.empty()) throw CLI::RuntimeError(kExitCupolaFailed);
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
  Say(fmt::format("added to {}; now: cupola train", *path));
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
  tune->add_option("--batches", options->batches, "Values of L to try, ascending")
      ->delimiter(',')
      ->check(CLI::Range(1u, 65536u));
  tune->add_option("--rounds", options->rounds, "Runs of each form for each L")
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
  tune->footer(kFooter);
  tune->callback([options] { Tune(*options); });
}

}  // namespace cupola
