// Makes a plan from a profile: trains every kernel, compares ridge regression with the history of
// exact configurations, and reports how well each predicts. Pure; the same profile gives the same
// bytes.
#pragma once

#include <string>
#include <vector>

#include "models/train/plan_builder.h"
#include "models/train/select.h"
#include "profiles/profile.h"

namespace cupola::models {

/// The mean cost of a preemption is taken over this many of the latest ones (FLEP section 4.2).
inline constexpr uint64_t kPreemptionsOfMean = 50;

/// What training found of one kernel.
struct KernelReport {
  std::string name;
  std::string image;
  size_t launches = 0;
  size_t configurations = 0;
  std::string model;             ///< "constant", "linear", "terms" or "history"
  double mean_error = 0;         ///< mean relative error of the chosen model, each launch held out
  double worst_error = 0;        ///< largest relative error of these
  double ridge_error = 0;        ///< mean relative error of ridge regression without input bytes
  double input_error = 0;        ///< the same with input bytes; < 0 where they are not known
  /// The same of the history, with ridge regression for configurations seen once.
  double history_error = 0;
  std::vector<std::string> terms;  ///< terms of the chosen regression, for people
  std::vector<PlanArgument> arguments;
  uint64_t block_ns = 0;  ///< approximate time of one block; 0 = not known
  uint32_t batch = 1;  ///< L and the order of claims (profiles/claim_word.h)
  bool tuned = false;
  uint64_t preemption_ns = 0;  ///< mean cost of a preemption; 0 = not known
  uint64_t preemptions = 0;    ///< number of preemptions in that mean
};

struct TrainedPlan {
  std::string bytes;
  std::vector<KernelReport> kernels;
};

/// `gpu` is a name as GpuFileName makes it.
TrainedPlan TrainProfile(const profiles::Profile& profile, const std::string& gpu,
                         const TrainOptions& options);

/// The machine of which a profile tells.
Machine MachineOf(const profiles::GpuFacts& gpu);

/// A launch of a profile as the launch path would see it, input bytes included.
LaunchFeatures FeaturesOf(const profiles::LaunchSample& sample,
                          const std::vector<PlanArgument>& arguments);

}  // namespace cupola::models
