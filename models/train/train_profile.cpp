#include "models/train/train_profile.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "models/train/arguments.h"

namespace cupola::models {
namespace {

// The error with input bytes, as a part of the error without them, must be below this.
constexpr double kWorthTheInput = 0.95;
constexpr double kWorthTheHistory = 0.95;

/// The launches of a kernel, grouped by what the models can tell apart.
struct Grouped {
  std::vector<TrainingSample> samples;
  bool has_input_bytes = true;
};

Grouped GroupOf(const profiles::KernelProfile& kernel,
                const std::vector<PlanArgument>& arguments, bool by_input_bytes) {
  std::map<std::pair<uint64_t, uint64_t>, TrainingSample> groups;
  Grouped grouped;
  for (const auto& sample : kernel.launches) {
    if (sample.ns == 0) continue;
    const LaunchFeatures launch = FeaturesOf(sample, arguments);
    grouped.has_input_bytes &= launch.has_input_bytes;
    const uint64_t number = ConfigurationOf(launch, static_cast<uint32_t>(arguments.size()));
    TrainingSample& group = groups[{number, by_input_bytes ? launch.input_bytes : 0}];
    group.launch = launch;
    group.ns.push_back(static_cast<double>(sample.ns));
  }
  for (auto& [key, group] : groups) grouped.samples.push_back(std::move(group));
  return grouped;
}

/// The errors of predicting each launch by the other launches of its configuration, or by ridge
/// regression where there are none.
struct HistoryErrors {
  double mean = 0, worst = 0;
  bool repeats = false;
};

HistoryErrors JudgeHistory(const std::vector<TrainingSample>& samples,
                           const TrainedModel& fallback) {
  HistoryErrors errors;
  size_t count = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto& ns = samples[i].ns;
    errors.repeats |= ns.size() > 1;
    for (size_t j = 0; j < ns.size(); ++j) {
      std::vector<double> others(ns);
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(j));
      const double prediction = others.empty() ? fallback.held_out[i] : Median(others);
      const double error = std::fabs(prediction - ns[j]) / ns[j];
      errors.mean += error;
      errors.worst = std::max(errors.worst, error);
      ++count;
    }
  }
  errors.mean /= static_cast<double>(std::max<size_t>(count, 1));
  return errors;
}

std::vector<PlanConfiguration> ConfigurationsOf(const std::vector<TrainingSample>& samples,
                                                uint32_t arguments) {
  std::vector<PlanConfiguration> configurations;
  for (const TrainingSample& sample : samples) {
    const double median = Median(sample.ns);
    std::vector<double> deviations;
    for (const double ns : sample.ns) deviations.push_back(std::fabs(ns - median));
    // The factor from median absolute deviation to standard deviation for a normal distribution.
    const double spread = std::min(1.4826 * Median(deviations) / median, 100.0);
    configurations.push_back({ConfigurationOf(sample.launch, arguments),
                              static_cast<float>(median), static_cast<float>(spread)});
  }
  return configurations;
}

uint64_t BlockNs(const std::vector<TrainingSample>& samples, const Machine& machine,
                 const KernelNeeds& needs) {
  std::vector<double> block_ns;
  for (const TrainingSample& sample : samples) {
    double variables[kVariables];
    MakeVariables(machine, needs, sample.launch, variables);
    block_ns.push_back(Median(sample.ns) / std::max(variables[kWaves], 1.0));
  }
  return block_ns.empty() ? 0 : static_cast<uint64_t>(Median(block_ns));
}

/// Trains one kernel and adds it to the plan.
class KernelTrainer {
 public:
  KernelTrainer(const Machine& machine, const TrainOptions& options, PlanBuilder* plan)
      : machine_(machine), options_(options), plan_(plan) {}

  KernelReport Train(const profiles::KernelKey& key, const profiles::KernelProfile& kernel) {
    KernelReport report{.name = key.first, .image = key.second};
    report.arguments = ChooseIntegers(key.first, kernel);
    entry_ = PlanKernel{};
    entry_.image = key.second.empty() ? 0 : HashBytes(key.second.data(), key.second.size());
    entry_.needs = {kernel.registers, kernel.static_shared};
    entry_.arguments = static_cast<uint32_t>(report.arguments.size());
    std::copy(report.arguments.begin(), report.arguments.end(), entry_.argument);
    const Grouped plain = GroupOf(kernel, report.arguments, false);
    report.configurations = plain.samples.size();
    for (const TrainingSample& sample : plain.samples) report.launches += sample.ns.size();
    std::vector<PlanConfiguration> configurations;
    if (!plain.samples.empty()) {
      TrainModels(kernel, plain, &report);
      if ((entry_.flags & kUsesHistory) != 0) {
        configurations = ConfigurationsOf(plain.samples, entry_.arguments);
      }
    }
    report.block_ns = BlockNs(plain.samples, machine_, entry_.needs);
    FillTuned(kernel, &report);
    plan_->AddKernel(key.first, entry_, std::move(configurations));
    return report;
  }

 private:
  void TrainModels(const profiles::KernelProfile& kernel, const Grouped& plain,
                   KernelReport* report) {
    const TrainedModel ridge =
        models::Train(plain.samples, {machine_, entry_.needs, false}, options_);
    entry_.model = plan_->AddModel(ridge);
    report->ridge_error = ridge.mean_error;
    Describe(ridge, report);
    report->input_error = -1;
    if (plain.has_input_bytes) {
      const Grouped with = GroupOf(kernel, report->arguments, true);
      const TrainedModel input =
          models::Train(with.samples, {machine_, entry_.needs, true}, options_);
      report->input_error = input.mean_error;
      if (input.mean_error < kWorthTheInput * ridge.mean_error) {
        entry_.model_input = plan_->AddModel(input);
        Describe(input, report);
      }
    }
    const HistoryErrors history = JudgeHistory(plain.samples, ridge);
    report->history_error = history.mean;
    if (history.repeats && history.mean < kWorthTheHistory * report->mean_error) {
      entry_.flags |= kUsesHistory;
      report->model = "history";
      report->mean_error = history.mean;
      report->worst_error = history.worst;
    }
  }

  static void Describe(const TrainedModel& trained, KernelReport* report) {
    report->model = trained.form;
    report->mean_error = trained.mean_error;
    report->worst_error = trained.worst_error;
    report->terms.clear();
    for (const PlanTerm& term : trained.terms) report->terms.push_back(TermText(term));
  }

  void FillTuned(const profiles::KernelProfile& kernel, KernelReport* report) {
    const auto preemption = profiles::MeanOfLatest(kernel.preemptions, kPreemptionsOfMean);
    report->preemptions = preemption.count;
    // Where there are samples the mean counts as a microsecond at least, because 0 means that it is
    // not known.
    constexpr double kLeastNs = 1'000;
    if (preemption.count != 0) {
      report->preemption_ns = static_cast<uint64_t>(std::max(preemption.ns, kLeastNs));
    }
    report->tuned = kernel.tuned.has_value();
    if (kernel.tuned) {
      if (kernel.tuned->block_ns != 0) report->block_ns = kernel.tuned->block_ns;
      report->batch = kernel.tuned->batch;
      entry_.flags |= kTuned;
      entry_.overhead_percent = static_cast<float>(kernel.tuned->overhead_percent);
    } else {
      report->batch = BatchFor(report->block_ns);
    }
    entry_.batch = std::max(report->batch, 1u);
    entry_.block_ns = report->block_ns;
    entry_.preemption_ns = report->preemption_ns;
  }

  const Machine machine_;
  const TrainOptions& options_;
  PlanBuilder* plan_;
  PlanKernel entry_{};
};

}  // namespace

Machine MachineOf(const profiles::GpuFacts& gpu) {
  return {gpu.sms, gpu.threads_per_sm, gpu.blocks_per_sm, gpu.registers_per_sm, gpu.shared_per_sm,
          0};
}

LaunchFeatures FeaturesOf(const profiles::LaunchSample& sample,
                          const std::vector<PlanArgument>& arguments) {
  LaunchFeatures launch;
  std::copy(sample.grid, sample.grid + 3, launch.grid);
  std::copy(sample.block, sample.block + 3, launch.block);
  launch.dynamic_shared = sample.dynamic_shared;
  launch.has_input_bytes = sample.input_bytes.has_value();
  launch.input_bytes = sample.input_bytes.value_or(0);
  for (size_t i = 0; i < arguments.size() && i < kMostIntegers; ++i) {
    const size_t index = arguments[i].index;
    if (index >= sample.arguments.size() || !sample.arguments[index]) continue;
    launch.integers[i] = IntegerValue(arguments[i], *sample.arguments[index]);
  }
  return launch;
}

TrainedPlan TrainProfile(const profiles::Profile& profile, const std::string& gpu,
                         const TrainOptions& options) {
  const Machine machine = MachineOf(profile.gpu);
  PlanBuilder plan(gpu, machine);
  TrainedPlan result;
  KernelTrainer trainer(machine, options, &plan);
  for (const auto& [key, kernel] : profile.kernels) {
    result.kernels.push_back(trainer.Train(key, kernel));
  }
  result.bytes = plan.Bytes();
  return result;
}

}  // namespace cupola::models
