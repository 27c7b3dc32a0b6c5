// From a profile to a plan: trains every kernel, compares ridge regression with the history of
// exact configurations, and says how well each does. Pure; the same profile gives the same bytes.
#pragma once

#include <string>
#include <vector>

#include "models/train/plan_builder.h"
#include "models/train/select.h"
#include "profiles/profile.h"

namespace cupola::models {

/// Preemptions that the mean is taken of, the latest (FLEP section 4.2).
inline constexpr uint64_t kPreemptionsOfMean = 50;

/// What training found of one kernel.
struct KernelReport {
  std::string name, image;
  size_t launches = 0;
  size_t configurations = 0;
  std::string model;             ///< "constant", "linear", "terms" or "history"
  double mean_error = 0;         ///< relative, of the chosen model, each launch held out
  double worst_error = 0;
  double ridge_error = 0;        ///< mean, of ridge regression without input bytes
  double input_error = 0;        ///< with; < 0 where input bytes are not known
  double history_error = 0;      ///< with ridge for what was seen once
  std::vector<std::string> terms;  ///< of the chosen regression, for people
  std::vector<PlanArgument> arguments;
  uint64_t block_ns = 0;
  uint32_t batch = 1;  ///< profiles/claim_word.h
  bool tuned = false;
  uint64_t preemption_ns = 0;  ///< 0 = not known
  uint64_t preemptions = 0;    ///< that it is the mean of
};

struct TrainedPlan {
  std::string bytes;
  std::vector<KernelReport> kernels;
};

/// `gpu` as of GpuFileName.
TrainedPlan TrainProfile(const profiles::Profile& profile, const std::string& gpu,
                         const TrainOptions& options);

/// The machine of a profile.
Machine MachineOf(const profiles::GpuFacts& gpu);

/// A launch of a profile as the launch path would see it, with its input bytes.
LaunchFeatures FeaturesOf(const profiles::LaunchSample& sample,
                          const std::vector<PlanArgument>& arguments);

}  // namespace cupola::models
