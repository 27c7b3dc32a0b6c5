// Ridge regression: least squares with a penalty on the squared size of the coefficients (L2 norm,
// FLEP section 4.2; Hoerl and Kennard, 1970), of standardised columns, weighted, the intercept not
// penalised. Pure functions.
#pragma once

#include <vector>

#include <Eigen/Core>

namespace cupola::models {

struct RidgeFit {
  double intercept = 0;
  Eigen::VectorXd coefficients;  ///< in the units of the columns as given
};

/// Columns and what they are to explain. Rows are samples.
struct RidgeProblem {
  Eigen::MatrixXd columns;
  Eigen::VectorXd target;
  Eigen::VectorXd weights;  ///< >= 0; only their ratios count
};

/// Minimises  sum w (y - a - x b)^2 / sum w + lambda |s b|^2, where s is the weighted standard
/// deviation of each column. A column without variation gets the coefficient 0.
RidgeFit FitRidge(const RidgeProblem& problem, double lambda);

/// The prediction for each row where that row's fold was left out of the fit. `fold[i]` in
/// [0, folds). Standardised once, over all rows.
Eigen::VectorXd CrossPredict(const RidgeProblem& problem, double lambda,
                             const std::vector<int>& fold, int folds);

/// |prediction - target| / target of each row, the prediction not below `floor`.
Eigen::VectorXd RelativeErrors(const Eigen::VectorXd& prediction, const Eigen::VectorXd& target,
                               double floor);

/// Mean of |prediction - target| / target, the former not below `floor`.
double MeanRelativeError(const Eigen::VectorXd& prediction, const Eigen::VectorXd& target,
                         double floor);

/// The lambda of `lambdas` (ascending) with the least cross-validated MeanRelativeError; of those
/// within a hundredth of that, the largest: the simplest that does as well. `error` gets its error.
double ChooseLambda(const RidgeProblem& problem, const std::vector<double>& lambdas,
                    const std::vector<int>& fold, int folds, double floor, double* error);

}  // namespace cupola::models
