#include "models/predict.h"

#include <algorithm>
#include <cstring>

namespace cupola::models {
namespace {

constexpr double kMostNs = 1e15;   // eleven days; a larger prediction comes from a broken model
// A variable may lie outside of the range seen in training by this part of that range before the
// prediction counts as extrapolated.
constexpr double kOutside = 0.1;

// Whether a variable of the term lies further outside of that range.
bool IsOutside(const PlanModel& model, const PlanTerm& term,
               const double (&variables)[kVariables]) {
  for (const uint8_t variable : term.variable) {
    const double margin = kOutside * (model.high[variable] - model.low[variable]);
    if (variables[variable] < model.low[variable] - margin ||
        variables[variable] > model.high[variable] + margin) {
      return true;
    }
  }
  return false;
}

}  // namespace

Prediction PredictRidge(const PlanView& plan, const PlanModel& model, const KernelNeeds& needs,
                        const LaunchFeatures& launch) noexcept {
  double variables[kVariables];
  MakeVariables(plan.header().machine, needs, launch, variables);
  double ns = model.intercept_ns;
  bool outside = false;
  for (const PlanTerm& term : plan.Terms(model)) {
    double product = variables[term.variable[0]] * variables[term.variable[1]] *
                     variables[term.variable[2]] * variables[term.variable[3]];
    if (term.is_hinge != 0) product = std::max(0.0, product - term.knot);
    ns += term.coefficient * product;
    outside |= IsOutside(model, term, variables);
  }
  // A NaN fails the comparison and becomes the floor.
  ns = ns > model.floor_ns ? std::min(ns, kMostNs) : model.floor_ns;
  return {static_cast<uint64_t>(ns), static_cast<uint64_t>(ns * std::min(model.spread, 10.0)),
          outside};
}

Prediction Predict(const PlanView& plan, const PlanKernel& kernel,
                   const LaunchFeatures& launch) noexcept {
  if ((kernel.flags & kUsesHistory) != 0) {
    const auto known = plan.Configurations(kernel);
    const uint64_t number = ConfigurationOf(launch, kernel.arguments);
    const auto found = std::lower_bound(
        known.begin(), known.end(), number,
        [](const PlanConfiguration& one, uint64_t wanted) { return one.number < wanted; });
    if (found != known.end() && found->number == number) {
      return {static_cast<uint64_t>(found->ns), static_cast<uint64_t>(found->ns * found->spread),
              false};
    }
  }
  // PlanKernel has 1 + the index of a model; 0: none.
  const uint32_t model =
      launch.has_input_bytes && kernel.model_input != 0 ? kernel.model_input : kernel.model;
  if (model == 0) return {};
  return PredictRidge(plan, plan.Model(model - 1), kernel.needs, launch);
}

void ReadIntegers(const PlanKernel& kernel, void* const* params, uint32_t param_count, const void* packed,
                  uint64_t packed_bytes, LaunchFeatures* launch) noexcept {
  for (uint32_t i = 0; i < kernel.arguments; ++i) {
    const PlanArgument& argument = kernel.argument[i];
    const void* from = nullptr;
    if (params != nullptr) {
      if (argument.index < param_count) from = params[argument.index];
    } else if (packed != nullptr && packed_bytes >= argument.bytes &&
               argument.offset <= packed_bytes - argument.bytes) {
      from = static_cast<const char*>(packed) + argument.offset;
    }
    uint64_t value = 0;
    // At most 8 bytes; PlanView::Open has checked.
    if (from != nullptr) memcpy(&value, from, argument.bytes);
    const uint32_t unused = 64 - 8 * argument.bytes;
    launch->integers[i] = argument.is_signed != 0
                              ? static_cast<int64_t>(value << unused) >> unused
                              : static_cast<int64_t>(value);
  }
}

const char* PlanPredictor::name() const noexcept {
  return (kernel_.flags & kUsesHistory) != 0 ? "history" : "ridge";
}

Prediction PlanPredictor::Predict(const LaunchFeatures& launch) const noexcept {
  const Prediction prediction = models::Predict(plan_, kernel_, launch);
  return prediction.ns != 0 || fallback_ == nullptr ? prediction : fallback_->Predict(launch);
}

void PlanPredictor::Observe(const LaunchFeatures& launch, uint64_t ns) noexcept {
  if (fallback_ != nullptr) fallback_->Observe(launch, ns);
}

}  // namespace cupola::models
