// From launches and their durations to a ridge regression: which terms, which lambda. Terms are
// variables (models/features.h), products of up to three of them, and hinges of products that are
// in already. The sets that compete are a constant, the variables as they are (FLEP section 4.2),
// and a stepwise choice of terms; cross-validation decides. Errors count relative to the duration,
// so samples weigh 1 / duration^2. Pure functions; the same seed gives the same model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/plan.h"

namespace cupola::models {

/// One configuration with the durations that it was seen to take.
struct TrainingSample {
  LaunchFeatures launch;
  std::vector<double> ns;  ///< > 0, at least one
};

struct TrainOptions {
  int folds = 10;
  uint32_t most_terms = 8;
  uint64_t seed = 1;  ///< of the folds
  std::vector<double> lambdas = {1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1};
};

/// What the variables are made with.
struct TrainContext {
  Machine machine;
  KernelNeeds needs;
  bool use_input_bytes = false;
};

struct TrainedModel {
  std::string form;           ///< "constant", "linear" or "terms"
  PlanModel model{};          ///< but for first_term
  std::vector<PlanTerm> terms;
  double lambda = 0;
  /// For each sample the prediction of a model that was trained, selection of terms and all,
  /// without it; ns.
  std::vector<double> held_out;
  double mean_error = 0;      ///< relative, of held_out against every duration
  double worst_error = 0;
};

/// `samples` must not be empty. With fewer than three it is the constant.
TrainedModel Train(const std::vector<TrainingSample>& samples, const TrainContext& context,
                   const TrainOptions& options);

/// "blocks", "integer 2", ...
std::string VariableName(uint8_t variable);

/// "coefficient * blocks * integer 0", hinges as "max(0, ... - knot)".
std::string TermText(const PlanTerm& term);

/// The middle of a list that is not empty; sorts it.
double Median(std::vector<double> values);

}  // namespace cupola::models
