#include "models/train/ridge.h"

#include <cmath>
#include <numeric>

#include <Eigen/LU>
#include <gtest/gtest.h>

#include "base/prng.h"

namespace cupola::models {
namespace {

constexpr uint64_t kRidgeSeed = 20261121;

double Normal(Prng& random) {
  double sum = 0;
  for (int i = 0; i < 12; ++i) sum += random.Uniform(0, 1);
  return sum - 6;
}

RidgeProblem Sample(int n, double noise, Prng& random) {
  RidgeProblem problem;
  problem.columns = Eigen::MatrixXd(n, 3);
  problem.target = Eigen::VectorXd(n);
  problem.weights = Eigen::VectorXd(n);
  for (int i = 0; i < n; ++i) {
    problem.columns.row(i) << random.Uniform(0, 1000), random.Uniform(5, 6), random.Uniform(-1, 1);
    problem.target(i) = 7 + 0.5 * problem.columns(i, 0) - 20 * problem.columns(i, 1) +
                        3 * problem.columns(i, 2) + noise * Normal(random);
    problem.weights(i) = random.Uniform(0.5, 2);
  }
  return problem;
}

TEST(Ridge, RecoversKnownCoefficients) {
  Prng random(kRidgeSeed);
  const RidgeFit exact = FitRidge(Sample(60, 0, random), 0);
  EXPECT_NEAR(exact.intercept, 7, 1e-6);
  EXPECT_NEAR(exact.coefficients(0), 0.5, 1e-9);
  EXPECT_NEAR(exact.coefficients(1), -20, 1e-6);
  EXPECT_NEAR(exact.coefficients(2), 3, 1e-9);
  const RidgeFit noisy = FitRidge(Sample(4000, 1, random), 1e-9);
  EXPECT_NEAR(noisy.coefficients(0), 0.5, 1e-3);
  EXPECT_NEAR(noisy.coefficients(1), -20, 0.3);
}

// The closed form of weighted ridge regression on standardised columns, solved another way: by an
// inverse of the whole, intercept and all.
TEST(Ridge, IsTheClosedForm) {
  Prng random(kRidgeSeed);
  for (const double lambda : {1e-6, 0.01, 1.0, 30.0}) {
    const RidgeProblem problem = Sample(40, 5, random);
    const Eigen::VectorXd w = problem.weights / problem.weights.sum();
    const Eigen::RowVectorXd mean = w.transpose() * problem.columns;
    Eigen::MatrixXd z = problem.columns.rowwise() - mean;
    const Eigen::RowVectorXd scale = (w.transpose() * z.cwiseAbs2()).cwiseSqrt();
    for (int i = 0; i < 3; ++i) z.col(i) /= scale(i);
    const double y_mean = w.dot(problem.target);
    const Eigen::MatrixXd penalised =
        z.transpose() * w.asDiagonal() * z + lambda * Eigen::MatrixXd::Identity(3, 3);
    const Eigen::VectorXd beta =
        penalised.inverse() *
        (z.transpose() * w.asDiagonal() * (problem.target.array() - y_mean).matrix());
    const RidgeFit fit = FitRidge(problem, lambda);
    double intercept = y_mean;
    for (int i = 0; i < 3; ++i) {
      EXPECT_NEAR(fit.coefficients(i), beta(i) / scale(i), 1e-8) << "lambda " << lambda;
      intercept -= beta(i) / scale(i) * mean(i);
    }
    EXPECT_NEAR(fit.intercept, intercept, 1e-6);
  }
}

TEST(Ridge, AConstantColumnCountsForNothing) {
  Prng random(kRidgeSeed);
  RidgeProblem problem = Sample(20, 0, random);
  problem.columns.col(1).setConstant(5e8);
  const RidgeFit fit = FitRidge(problem, 1e-9);
  EXPECT_EQ(fit.coefficients(1), 0);
  EXPECT_NEAR(fit.coefficients(0), 0.5, 0.05);
}

TEST(Ridge, CrossPredictionLeavesTheFoldOut) {
  Prng random(kRidgeSeed);
  const RidgeProblem problem = Sample(30, 2, random);
  std::vector<int> fold(30);
  for (int i = 0; i < 30; ++i) fold[static_cast<size_t>(i)] = i % 5;
  const Eigen::VectorXd predicted = CrossPredict(problem, 0, fold, 5);
  // Without a penalty standardisation changes nothing, so leaving rows out by hand is the same.
  RidgeProblem rest;
  rest.columns = Eigen::MatrixXd(24, 3);
  rest.target = Eigen::VectorXd(24);
  rest.weights = Eigen::VectorXd(24);
  for (int i = 0, at = 0; i < 30; ++i) {
    if (i % 5 == 2) continue;
    rest.columns.row(at) = problem.columns.row(i);
    rest.target(at) = problem.target(i);
    rest.weights(at++) = problem.weights(i);
  }
  const RidgeFit fit = FitRidge(rest, 0);
  for (int i = 2; i < 30; i += 5) {
    EXPECT_NEAR(predicted(i), fit.intercept + problem.columns.row(i) * fit.coefficients, 1e-6);
  }
}

// Few samples, many columns of noise: without a penalty the fit follows the noise.
TEST(Ridge, CrossValidationChoosesThePenaltyThatPays) {
  Prng random(kRidgeSeed);
  const auto make = [&](int n, int columns) {
    RidgeProblem problem;
    problem.columns = Eigen::MatrixXd(n, columns);
    problem.target = Eigen::VectorXd(n);
    problem.weights = Eigen::VectorXd::Ones(n);
    for (int i = 0; i < n; ++i) {
      for (int j = 0; j < columns; ++j) problem.columns(i, j) = Normal(random);
      problem.target(i) = 100 + problem.columns(i, 0) + 3 * Normal(random);
    }
    return problem;
  };
  const std::vector<double> lambdas = {1e-8, 1e-4, 1e-2, 0.1, 1, 10};
  std::vector<int> fold(40);
  for (size_t i = 0; i < fold.size(); ++i) fold[i] = static_cast<int>(i % 10);
  double error = 0;
  EXPECT_GE(ChooseLambda(make(40, 30), lambdas, fold, 10, 1, &error), 0.1);
  // A clean line wants none.
  RidgeProblem line = make(40, 1);
  line.target = (1000 + 100 * line.columns.col(0).array()).matrix();
  EXPECT_LE(ChooseLambda(line, lambdas, fold, 10, 1, &error), 1e-4);
  EXPECT_LT(error, 1e-4);
}

}  // namespace
}  // namespace cupola::models
