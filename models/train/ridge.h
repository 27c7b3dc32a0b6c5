// Ridge regression: weighted least squares of standardised columns, with a penalty on the squared
// size of the coefficients (L2 norm, FLEP section 4.2; Hoerl and Kennard, 1970). The intercept is
// not penalised. Pure functions.
#pragma once

#include <vector>

#include <Eigen/Core>

namespace cupola::models {

struct RidgeFit {
  double intercept = 0;
  Eigen::VectorXd coefficients;  ///< in the units of the columns as given
};

/// The columns and the target that they are to explain. Rows are samples.
struct RidgeProblem {
  Eigen::MatrixXd columns;
  Eigen::VectorXd target;
  Eigen::VectorXd weights;  ///< >= 0; only their ratios count
};

/// Minimises  sum w (y - a - x b)^2 / sum w + lambda |s b|^2, where s is the weighted standard
/// deviation of each column. A column without variation gets the coefficient 0.
RidgeFit FitRidge(const RidgeProblem& problem, double lambda);

/// Predicts each row by a fit from which the row's fold was left out. `fold[i]` is in [0, folds).
/// The columns are standardised once, over all rows.
Eigen::VectorXd CrossPredict(const RidgeProblem& problem, double lambda,
                             const std::vector<int>& fold, int folds);

/// |prediction - target| / target of each row, where a prediction below `floor` counts as `floor`.
Eigen::VectorXd RelativeErrors(const Eigen::VectorXd& prediction, const Eigen::VectorXd& target,
                               double floor);

/// The mean of |prediction - target| / target, where a prediction below `floor` counts as `floor`.
double MeanRelativeError(const Eigen::VectorXd& prediction, const Eigen::VectorXd& target,
                         double floor);

/// Among those of `lambdas` (ascending) whose cross-validated MeanRelativeError is within a
/// hundredth of the least one, the largest: the simplest model that does as well. `error` receives
/// its error.
double ChooseLambda(const RidgeProblem& problem, const std::vector<double>& lambdas,
                    const std::vector<int>& fold, int folds, double floor, double* error);

}  // namespace cupola::models
