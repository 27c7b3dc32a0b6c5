// Runs a scenario many times and looks for a run that fails: by seeds, or through all interleavings
// of a small scenario. Tests write scenarios and call the searches. Runs of a scenario may differ
// only in what the chooser decides, so `start` must do the same in each. Everything happens in the
// calling thread; each run makes a device of its own, which ends with the run.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "device/sim/stepped/stepped_device.h"

namespace cupola::sim {

struct Scenario {
  SteppedConfig config;
  /// Called first: loads modules, allocates, submits grids, adds host threads.
  std::function<void(SteppedDevice&)> start;
  /// Called after a run that came to its end: says what is wrong, "" if nothing is.
  std::function<std::string(SteppedDevice&)> check;
  /// Called after every step: says what is wrong, "" if nothing is. May be empty.
  std::function<std::string(SteppedDevice&)> watch;
  /// Gives the result of a run, for SearchResult::outcomes. May be empty.
  std::function<std::string(SteppedDevice&)> outcome;
  bool races_are_failures = true;              ///< a data race ends the search
  bool same_value_races_are_failures = false;  ///< so does one of two writes of one value
};

enum class Strategy : uint8_t {
  kRandom,  ///< RandomChooser
  kPct,     ///< PctChooser, of depths 1 to 4 in turn
};

struct Failure {
  std::string what;               ///< race, fault, deadlock, or what the scenario said
  uint64_t seed = 0;              ///< of the run, from SearchSeeds; else 0
  std::vector<uint32_t> choices;  ///< the run's answers, for ReplayChooser
  std::vector<std::string> last_steps;  ///< descriptions of the run's last 24 steps
  std::string ToString() const;         ///< all of that, for a test's message
};

struct SearchResult {
  uint64_t runs = 0;
  uint64_t steps = 0;              ///< of all runs together
  std::set<uint64_t> traces;       ///< SteppedDevice::trace_hash of the runs; equal runs count once
  std::set<std::string> outcomes;  ///< Scenario::outcome of the runs that did not fail
  std::optional<Failure> failure;  ///< the first failure; the search stops there
  bool complete = false;           ///< of SearchAll: whether no interleaving was left out
};

/// Makes `count` runs with the seeds first_seed, first_seed + 1... A run's seed is all that is
/// needed to reproduce it.
SearchResult SearchSeeds(const Scenario& scenario, uint64_t first_seed, uint64_t count,
                         Strategy strategy = Strategy::kRandom);

struct ExhaustiveOptions {
  uint64_t max_runs = 1u << 20;
  /// Leaves out interleavings that differ only in the order of independent steps: dynamic
  /// partial-order reduction with source and sleep sets [Abdulla et al., POPL 2014]. The outcomes
  /// stay the same.
  bool reduce = true;
};

/// Searches all interleavings and all values that reads may return. It does not vary time: each
/// step takes SteppedConfig::step_ns, so a kernel that reads a clock runs at one speed only. A
/// thread that spins counts as waiting until something that it read has changed.
SearchResult SearchAll(const Scenario& scenario, const ExhaustiveOptions& options = {});

/// Makes one run with the given chooser; *hash becomes the hash of its trace.
std::optional<Failure> RunOnce(const Scenario& scenario, Chooser* chooser,
                               uint64_t* hash = nullptr);

}  // namespace cupola::sim
