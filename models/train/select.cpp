#include "models/train/select.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "base/prng.h"
#include "models/train/ridge.h"

namespace cupola::models {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// The lambda with which candidate terms are compared (Stepwise).
constexpr double kSelectionLambda = 1e-6;
// The error with a new term, as a part of the error without it, must be below this.
constexpr double kWorthATerm = 0.97;
// A new term or a richer form must also lower the mean error by this many standard errors of the
// difference, because the best of hundreds of candidates looks good by chance.
constexpr double kSure = 3;
constexpr double kGoodEnough = 2e-4;  // relative error below which no further term is looked for
// No prediction is below this part of the least duration seen.
constexpr double kFloorOfLeast = 0.25;
constexpr size_t kMostInTriples = 6;  // the first so many varying variables form products of three
// The folds of HeldOut, each of which is left out of a whole training. (Within a training,
// TrainOptions::folds are for the choice of terms and lambda.)
constexpr int kOuterFolds = 5;

using Row = std::array<double, kVariables>;  // the variables of one sample (models/features.h)

/// The samples as rows of variables, and their durations.
struct Data {
  std::vector<Row> rows;
  VectorXd target;   // the median duration of each sample, ns
  double floor = 1;  // no prediction is below this, ns (kFloorOfLeast)

  /// The rows for which `left_out` is false.
  Data Without(const std::vector<bool>& left_out) const {
    Data rest;
    std::vector<double> kept;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (left_out[i]) continue;
      rest.rows.push_back(rows[i]);
      kept.push_back(target(static_cast<Index>(i)));
    }
    rest.target = Eigen::Map<VectorXd>(kept.data(), static_cast<Index>(kept.size()));
    rest.floor = std::max(1.0, kFloorOfLeast * rest.target.minCoeff());
    return rest;
  }
};

/// The value of a term without its coefficient.
double Value(const PlanTerm& term, const Row& row) {
  double product = 1;
  for (const uint8_t variable : term.variable) product *= row[variable];
  return term.is_hinge != 0 ? std::max(0.0, product - term.knot) : product;
}

VectorXd ColumnOf(const PlanTerm& term, const Data& data) {
  VectorXd column(static_cast<Index>(data.rows.size()));
  for (size_t i = 0; i < data.rows.size(); ++i) {
    column(static_cast<Index>(i)) = Value(term, data.rows[i]);
  }
  return column;
}

/// The regression with a column for each term. The weights 1 / duration^2 make errors relative.
RidgeProblem ProblemOf(const std::vector<PlanTerm>& terms, const Data& data) {
  RidgeProblem problem;
  problem.columns.resize(static_cast<Index>(data.rows.size()), static_cast<Index>(terms.size()));
  for (size_t i = 0; i < terms.size(); ++i) {
    problem.columns.col(static_cast<Index>(i)) = ColumnOf(terms[i], data);
  }
  problem.target = data.target;
  problem.weights = data.target.array().square().inverse();
  return problem;
}

std::vector<uint8_t> VaryingVariables(const Data& data) {
  std::vector<uint8_t> varying;
  for (uint8_t v = 1; v < kVariables; ++v) {
    const double first = data.rows.front()[v];
    if (std::any_of(data.rows.begin(), data.rows.end(),
                    [&](const Row& row) { return row[v] != first; })) {
      varying.push_back(v);
    }
  }
  return varying;
}

PlanTerm Product(uint8_t a, uint8_t b = kOne, uint8_t c = kOne) {
  return PlanTerm{.variable = {a, b, c, kOne}, .is_hinge = 0, .coefficient = 0, .knot = 0};
}

/// The products of one, two and three of the variables that vary. Of products whose columns differ
/// only by a factor, one is kept.
std::vector<PlanTerm> Products(const Data& data) {
  const std::vector<uint8_t> varying = VaryingVariables(data);
  std::vector<PlanTerm> all;
  for (const uint8_t a : varying) all.push_back(Product(a));
  for (size_t i = 0; i < varying.size(); ++i) {
    for (size_t j = i; j < varying.size(); ++j) all.push_back(Product(varying[i], varying[j]));
  }
  const size_t most = std::min(varying.size(), kMostInTriples);
  for (size_t i = 0; i < most; ++i) {
    for (size_t j = i; j < most; ++j) {
      for (size_t k = j; k < most; ++k) {
        all.push_back(Product(varying[i], varying[j], varying[k]));
      }
    }
  }
  std::vector<PlanTerm> different;
  std::vector<VectorXd> columns;
  for (const PlanTerm& term : all) {
    VectorXd column = ColumnOf(term, data);
    const double size = column.cwiseAbs().maxCoeff();
    if (!(size > 0) || !std::isfinite(size)) continue;
    column /= size;
    const bool known = std::any_of(columns.begin(), columns.end(), [&](const VectorXd& other) {
      return (other - column).cwiseAbs().maxCoeff() < 1e-9;
    });
    if (known) continue;
    columns.push_back(std::move(column));
    different.push_back(term);
  }
  return different;
}

/// Hinges of a product at some of its quantiles. They fit kernels that are faster while their data
/// fits into a cache, or while they do not fill the GPU.
std::vector<PlanTerm> Hinges(const PlanTerm& product, const Data& data) {
  const VectorXd column = ColumnOf(product, data);
  std::vector<double> sorted(column.begin(), column.end());
  std::sort(sorted.begin(), sorted.end());
  std::vector<PlanTerm> hinges;
  for (const double quantile : {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9}) {
    PlanTerm hinge = product;
    hinge.is_hinge = 1;
    hinge.knot = sorted[static_cast<size_t>(quantile * static_cast<double>(sorted.size() - 1))];
    const bool is_new = hinges.empty() || hinges.back().knot < hinge.knot;
    const bool bends = hinge.knot > sorted.front() && hinge.knot < sorted.back();
    if (is_new && bends) hinges.push_back(hinge);
  }
  return hinges;
}

/// A set of terms with its lambda and its cross-validated error.
struct Choice {
  std::string form;  // TrainedModel::form
  std::vector<PlanTerm> terms;
  double lambda = 0;
  VectorXd errors;  // relative error of each row
};

/// Whether the errors `with` something are lower than those `without` it by as much as is asked for
/// (kWorthATerm), and by more than chance explains (kSure).
bool IsBetter(const VectorXd& with, const VectorXd& without) {
  const VectorXd gain = without - with;
  const double mean = gain.mean();
  const auto n = static_cast<double>(gain.size());
  const double variance = (gain.array() - mean).square().sum() / std::max(n - 1, 1.0);
  return with.mean() < kWorthATerm * without.mean() && mean > kSure * std::sqrt(variance / n);
}

/// Chooses the terms and lambda for the data. It deals the rows to folds at random, by the seed.
class Selection {
 public:
  Selection(const Data& data, const TrainOptions& options) : data_(data), options_(options) {
    const size_t n = data.rows.size();
    folds_ = static_cast<int>(std::min<size_t>(static_cast<size_t>(options.folds), n));
    fold_.resize(n);
    std::vector<size_t> order(n);
    std::iota(order.begin(), order.end(), size_t{0});
    Prng random(options.seed);
    for (size_t i = n; i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
    for (size_t i = 0; i < n; ++i) {
      fold_[order[i]] = static_cast<int>(i % static_cast<size_t>(folds_));
    }
  }

  /// The best of the three forms: a richer form must be better than the one before (IsBetter).
  Choice Best() const {
    Choice best = Judge("constant", {});
    if (data_.rows.size() < 3) return best;
    std::vector<PlanTerm> linear;
    for (const uint8_t variable : VaryingVariables(data_)) linear.push_back(Product(variable));
    // With hardly more samples than columns any columns could explain the durations.
    if (linear.size() * 4 <= data_.rows.size()) Prefer(Judge("linear", linear), &best);
    Prefer(Judge("terms", Stepwise()), &best);
    return best;
  }

 private:
  static void Prefer(Choice candidate, Choice* best) {
    if (IsBetter(candidate.errors, best->errors)) *best = std::move(candidate);
  }

  /// Chooses lambda for a set of terms, and finds the set's cross-validated errors.
  Choice Judge(const char* form, const std::vector<PlanTerm>& terms) const {
    Choice choice{form, terms, 0, VectorXd::Zero(data_.target.size())};
    if (data_.rows.size() < 2) return choice;
    const RidgeProblem problem = ProblemOf(terms, data_);
    double error = 0;
    choice.lambda =
        ChooseLambda(problem, options_.lambdas, fold_, folds_, data_.floor, &error);
    choice.errors = Errors(problem, choice.lambda);
    return choice;
  }

  VectorXd Errors(const RidgeProblem& problem, double lambda) const {
    return RelativeErrors(CrossPredict(problem, lambda, fold_, folds_), problem.target,
                          data_.floor);
  }

  /// Chooses terms one after the other: each time the term that lowers the error most, as long as
  /// that is worth it (IsBetter). A product that was chosen adds its hinges to the candidates.
  std::vector<PlanTerm> Stepwise() const {
    std::vector<PlanTerm> chosen;
    std::vector<PlanTerm> pool = Products(data_);
    std::vector<VectorXd> columns;
    for (const PlanTerm& term : pool) columns.push_back(ColumnOf(term, data_));
    VectorXd errors = Errors(ProblemOf({}, data_), kSelectionLambda);
    const size_t most = std::min<size_t>(options_.most_terms, data_.rows.size() / 3);
    while (chosen.size() < most && errors.mean() > kGoodEnough) {
      RidgeProblem problem = ProblemOf(chosen, data_);
      problem.columns.conservativeResize(Eigen::NoChange, problem.columns.cols() + 1);
      size_t best = pool.size();
      VectorXd least;
      for (size_t i = 0; i < pool.size(); ++i) {
        problem.columns.col(problem.columns.cols() - 1) = columns[i];
        VectorXd with = Errors(problem, kSelectionLambda);
        if (best != pool.size() && !(with.mean() < least.mean())) continue;
        least = std::move(with);
        best = i;
      }
      if (best == pool.size() || !IsBetter(least, errors)) break;
      errors = std::move(least);
      chosen.push_back(pool[best]);
      if (pool[best].is_hinge == 0) {
        for (const PlanTerm& hinge : Hinges(pool[best], data_)) {
          columns.push_back(ColumnOf(hinge, data_));
          pool.push_back(hinge);
        }
      }
      pool.erase(pool.begin() + static_cast<std::ptrdiff_t>(best));
      columns.erase(columns.begin() + static_cast<std::ptrdiff_t>(best));
    }
    return chosen;
  }

  const Data& data_;
  const TrainOptions& options_;
  std::vector<int> fold_;  // the fold of each row, from 0 to folds_ - 1
  int folds_ = 1;
};

Data DataOf(const std::vector<TrainingSample>& samples, const TrainContext& context) {
  Data data;
  data.target.resize(static_cast<Index>(samples.size()));
  for (size_t i = 0; i < samples.size(); ++i) {
    double variables[kVariables];
    MakeVariables(context.machine, context.needs, samples[i].launch, variables);
    if (!context.use_input_bytes) variables[kInputBytes] = 0;
    data.rows.push_back(std::to_array(variables));
    data.target(static_cast<Index>(i)) = Median(samples[i].ns);
  }
  data.floor = std::max(1.0, kFloorOfLeast * data.target.minCoeff());
  return data;
}

/// Fits the chosen terms to all rows and fills `out`, except for what is said of errors.
void FitChoice(const Choice& choice, const Data& data, TrainedModel* out) {
  const RidgeFit fit = FitRidge(ProblemOf(choice.terms, data), choice.lambda);
  out->form = choice.form;
  out->lambda = choice.lambda;
  out->terms = choice.terms;
  for (size_t i = 0; i < out->terms.size(); ++i) {
    out->terms[i].coefficient = fit.coefficients(static_cast<Index>(i));
  }
  out->model.terms = static_cast<uint32_t>(out->terms.size());
  out->model.intercept_ns = fit.intercept;
  out->model.floor_ns = data.floor;
  for (uint32_t v = 0; v < kVariables; ++v) {
    const auto [low, high] = std::minmax_element(
        data.rows.begin(), data.rows.end(),
        [v](const Row& a, const Row& b) { return a[v] < b[v]; });
    out->model.low[v] = (*low)[v];
    out->model.high[v] = (*high)[v];
  }
}

/// The prediction for a row, ns.
double Apply(const TrainedModel& trained, const Row& row) {
  double ns = trained.model.intercept_ns;
  for (const PlanTerm& term : trained.terms) ns += term.coefficient * Value(term, row);
  return std::max(ns, trained.model.floor_ns);
}

/// Predicts each sample by a model that was trained without it, choice of terms included.
std::vector<double> HeldOut(const Data& data, const TrainOptions& options) {
  const size_t n = data.rows.size();
  std::vector<double> predictions(n, data.target(0));
  const size_t folds = n < 2 ? 0 : std::min<size_t>(n, kOuterFolds);
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  Prng random(options.seed + 1);
  for (size_t i = n; i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
  for (size_t f = 0; f < folds; ++f) {
    std::vector<bool> left_out(n, false);
    for (size_t i = f; i < n; i += folds) left_out[order[i]] = true;
    const Data rest = data.Without(left_out);
    TrainedModel trained;
    FitChoice(Selection(rest, options).Best(), rest, &trained);
    for (size_t i = 0; i < n; ++i) {
      if (left_out[i]) predictions[i] = Apply(trained, data.rows[i]);
    }
  }
  return predictions;
}

}  // namespace

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

TrainedModel Train(const std::vector<TrainingSample>& samples, const TrainContext& context,
                   const TrainOptions& options) {
  const Data data = DataOf(samples, context);
  TrainedModel trained;
  FitChoice(Selection(data, options).Best(), data, &trained);
  trained.held_out = HeldOut(data, options);
  double sum = 0;
  double squares = 0;
  size_t count = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    for (const double ns : samples[i].ns) {
      const double error = std::fabs(trained.held_out[i] - ns) / ns;
      sum += error;
      squares += error * error;
      trained.worst_error = std::max(trained.worst_error, error);
      ++count;
    }
  }
  trained.mean_error = sum / static_cast<double>(count);
  trained.model.spread = std::sqrt(squares / static_cast<double>(count));
  return trained;
}

std::string VariableName(uint8_t variable) {
  switch (variable) {
    case kOne: return "1";
    case kBlocks: return "blocks";
    case kBlockThreads: return "block threads";
    case kThreads: return "threads";
    case kWaves: return "waves";
    case kShared: return "shared";
    case kInputBytes: return "input bytes";
    default: return fmt::format("integer {}", variable - kInteger0);
  }
}

std::string TermText(const PlanTerm& term) {
  std::string product;
  for (const uint8_t variable : term.variable) {
    if (variable == kOne) continue;
    product += (product.empty() ? "" : " * ") + VariableName(variable);
  }
  if (product.empty()) product = "1";
  if (term.is_hinge == 0) return fmt::format("{:.4g} * {}", term.coefficient, product);
  return fmt::format("{:.4g} * max(0, {} - {:.4g})", term.coefficient, product, term.knot);
}

}  // namespace cupola::models
