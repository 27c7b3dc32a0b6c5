#include "models/train/ridge.h"

#include <algorithm>
#include <cmath>

#include <Eigen/Cholesky>

namespace cupola::models {
namespace {

using Eigen::ArrayXd;
using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

/// The standardised columns behind a column of ones, and what is needed to go back to the columns
/// as given.
struct Standard {
  MatrixXd rows;   // [samples][1 + columns]
  VectorXd mean;
  VectorXd scale;  // standard deviation of each column; 0 where it does not vary
  VectorXd weights;  // their sum is 1
};

Standard Standardise(const RidgeProblem& problem) {
  const Index n = problem.columns.rows();
  const Index k = problem.columns.cols();
  Standard out;
  out.weights = problem.weights / problem.weights.sum();
  out.mean = problem.columns.transpose() * out.weights;
  out.scale = VectorXd::Zero(k);
  out.rows = MatrixXd::Ones(n, k + 1);
  for (Index i = 0; i < k; ++i) {
    const ArrayXd centred = problem.columns.col(i).array() - out.mean(i);
    const double deviation = std::sqrt((out.weights.array() * centred.square()).sum());
    const bool varies = deviation > 1e-12 * std::fabs(out.mean(i)) && deviation > 0;
    out.scale(i) = varies ? deviation : 0;
    out.rows.col(i + 1) = varies ? VectorXd(centred / deviation) : VectorXd::Zero(n);
  }
  return out;
}

// Solves for the coefficients of the standardised rows, given their moments.
VectorXd Solve(MatrixXd moments, const VectorXd& right, double weight, double lambda) {
  const Index k = moments.rows();
  for (Index i = 1; i < k; ++i) moments(i, i) += weight * lambda;
  // A column of zeros would make the matrix singular. Its coefficient is 0 whatever its diagonal
  // element is.
  for (Index i = 0; i < k; ++i) {
    if (moments(i, i) <= 0) moments(i, i) = 1;
  }
  return moments.ldlt().solve(right);
}

}  // namespace

RidgeFit FitRidge(const RidgeProblem& problem, double lambda) {
  const Standard standard = Standardise(problem);
  const MatrixXd weighted = standard.weights.asDiagonal() * standard.rows;
  const VectorXd beta = Solve(standard.rows.transpose() * weighted,
                              weighted.transpose() * problem.target, 1, lambda);
  RidgeFit fit;
  fit.intercept = beta(0);
  fit.coefficients = VectorXd::Zero(problem.columns.cols());
  for (Index i = 0; i < problem.columns.cols(); ++i) {
    if (standard.scale(i) == 0) continue;
    fit.coefficients(i) = beta(i + 1) / standard.scale(i);
    fit.intercept -= fit.coefficients(i) * standard.mean(i);
  }
  return fit;
}

VectorXd CrossPredict(const RidgeProblem& problem, double lambda, const std::vector<int>& fold,
                      int folds) {
  const Standard standard = Standardise(problem);
  const Index n = standard.rows.rows();
  const Index k = standard.rows.cols();
  std::vector<MatrixXd> moments(static_cast<size_t>(folds), MatrixXd::Zero(k, k));
  std::vector<VectorXd> right(static_cast<size_t>(folds), VectorXd::Zero(k));
  std::vector<double> weight(static_cast<size_t>(folds), 0);
  MatrixXd all_moments = MatrixXd::Zero(k, k);
  VectorXd all_right = VectorXd::Zero(k);
  for (Index i = 0; i < n; ++i) {
    const auto f = static_cast<size_t>(fold[static_cast<size_t>(i)]);
    const double w = standard.weights(i);
    moments[f].noalias() += w * standard.rows.row(i).transpose() * standard.rows.row(i);
    right[f] += w * problem.target(i) * standard.rows.row(i).transpose();
    weight[f] += w;
  }
  for (size_t f = 0; f < moments.size(); ++f) {
    all_moments += moments[f];
    all_right += right[f];
  }
  VectorXd prediction(n);
  for (size_t f = 0; f < moments.size(); ++f) {
    const VectorXd beta = Solve(all_moments - moments[f], all_right - right[f], 1 - weight[f],
                                lambda);
    for (Index i = 0; i < n; ++i) {
      if (static_cast<size_t>(fold[static_cast<size_t>(i)]) == f) {
        prediction(i) = standard.rows.row(i) * beta;
      }
    }
  }
  return prediction;
}

VectorXd RelativeErrors(const VectorXd& prediction, const VectorXd& target, double floor) {
  return (prediction.array().max(floor) - target.array()).abs() / target.array();
}

double MeanRelativeError(const VectorXd& prediction, const VectorXd& target, double floor) {
  return RelativeErrors(prediction, target, floor).mean();
}

double ChooseLambda(const RidgeProblem& problem, const std::vector<double>& lambdas,
                    const std::vector<int>& fold, int folds, double floor, double* error) {
  std::vector<double> errors;
  for (const double lambda : lambdas) {
    errors.push_back(
        MeanRelativeError(CrossPredict(problem, lambda, fold, folds), problem.target, floor));
  }
  const double least = *std::min_element(errors.begin(), errors.end());
  size_t chosen = 0;
  for (size_t i = 0; i < lambdas.size(); ++i) {
    if (errors[i] <= least * 1.01) chosen = i;
  }
  *error = errors[chosen];
  return lambdas[chosen];
}

}  // namespace cupola::models
