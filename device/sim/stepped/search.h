// Runs a scenario many times and looks for one that goes wrong: by seeds, or all interleavings of a
// small one. A scenario is the same each time but for what the chooser decides. One thread.
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
  /// Loads, allocates, submits grids, adds host threads.
  std::function<void(SteppedDevice&)> start;
  /// What is wrong after a run that came to its end, "" if nothing is.
  std::function<std::string(SteppedDevice&)> check;
  /// After every step: what is wrong, "" if nothing is. May be empty.
  std::function<std::string(SteppedDevice&)> watch;
  /// What the run came to, for SearchResult::outcomes. May be empty.
  std::function<std::string(SteppedDevice&)> outcome;
  bool races_are_failures = true;
  bool same_value_races_are_failures = false;
};

enum class Strategy : uint8_t {
  kRandom,  ///< RandomChooser
  kPct,     ///< PctChooser, of depth 1 to 4 by turns
};

struct Failure {
  std::string what;               ///< race, fault, deadlock, or what the scenario said
  uint64_t seed = 0;              ///< of SearchSeeds
  std::vector<uint32_t> choices;  ///< for ReplayChooser
  std::vector<std::string> last_steps;
  std::string ToString() const;
};

struct SearchResult {
  uint64_t runs = 0;
  uint64_t steps = 0;
  std::set<uint64_t> traces;       ///< hashes of the runs that differ
  std::set<std::string> outcomes;  ///< of the runs that came to their end
  std::optional<Failure> failure;  ///< the first one; the search stops there
  bool complete = false;           ///< of SearchAll: no interleaving was left out
};

/// Seeds first_seed, first_seed + 1... Each run is reproduced by its seed alone.
SearchResult SearchSeeds(const Scenario& scenario, uint64_t first_seed, uint64_t count,
                         Strategy strategy = Strategy::kRandom);

struct ExhaustiveOptions {
  uint64_t max_runs = 1u << 20;
  /// Leave out interleavings that differ only in the order of steps that have nothing to do with
  /// each other: dynamic partial-order reduction with source and sleep sets [Abdulla et al., POPL
  /// 2014]. The outcomes are the same.
  bool reduce = true;
};

/// All interleavings and all values of weak reads. Time is not searched: a kernel that looks at a
/// clock is seen with one of its speeds. Threads that spin are taken to wait.
SearchResult SearchAll(const Scenario& scenario, const ExhaustiveOptions& options = {});

/// One run with a given chooser; the trace's hash goes to *hash.
std::optional<Failure> RunOnce(const Scenario& scenario, Chooser* chooser,
                               uint64_t* hash = nullptr);

}  // namespace cupola::sim
