// Trains a ridge regression on launches and their durations: chooses the terms and lambda. A term
// is a variable (models/features.h), a product of up to three variables, or a hinge of a product
// that has been chosen already. Three sets of terms compete, and cross-validation decides: a
// constant, the variables as they are (FLEP section 4.2), and a stepwise choice of terms. Errors
// count relative to the duration, so samples have the weight 1 / duration^2. Pure functions; the
// same seed gives the same model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/plan.h"

namespace cupola::models {

/// One configuration with the durations that were measured for it.
struct TrainingSample {
  LaunchFeatures launch;
  std::vector<double> ns;  ///< each > 0; at least one
};

struct TrainOptions {
  int folds = 10;
  uint32_t most_terms = 8;
  uint64_t seed = 1;  ///< for the choice of the folds
  std::vector<double> lambdas = {1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1};
};

/// The facts from which the variables are made.
struct TrainContext {
  Machine machine;
  KernelNeeds needs;
  bool use_input_bytes = false;
};

struct TrainedModel {
  std::string form;           ///< "constant", "linear" or "terms"
  PlanModel model{};          ///< complete but for first_term
  std::vector<PlanTerm> terms;
  double lambda = 0;
  /// For each sample the prediction, in ns, of a model that was trained without that sample,
  /// selection of terms included.
  std::vector<double> held_out;
  double mean_error = 0;      ///< mean relative error of held_out against every duration
  double worst_error = 0;     ///< largest relative error of these
};

/// `samples` must not be empty. With fewer than three samples the model is the constant.
TrainedModel Train(const std::vector<TrainingSample>& samples, const TrainContext& context,
                   const TrainOptions& options);

/// "blocks", "integer 2", ...
std::string VariableName(uint8_t variable);

/// "coefficient * blocks * integer 0"; hinges as "max(0, ... - knot)".
std::string TermText(const PlanTerm& term);

/// The median of a list that is not empty.
double Median(std::vector<double> values);

}  // namespace cupola::models
