// Plans what happens in a soak, from its seed: which clients come when and what they do, and what configurations say.
// Plain values and pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/prng.h"
#include "sched/arbiter.h"
#include "simulated_machine.h"

namespace cupola::sched {

struct SoakOptions {
  uint64_t seed = 1;
  uint32_t clients = 10'000;  ///< clients that come in all
  uint64_t seconds = 86'400;  ///< length of the soak, in simulated time
  double at_once = 30;        ///< mean number of clients that are there
  uint64_t most_violations = 20;  ///< the soak ends after so many violations,
  std::string until_rule;         ///< or when this rule was broken; "" = any
};

/// A client that is to come.
struct SoakNewcomer {
  uint64_t at_ns = 0;
  uint64_t stays_ns = 0;
  bool is_killed = false;  ///< it is killed at its end; else it leaves
  bool is_hog = false;     ///< always has work
  std::string label;       ///< by which rules know it
  ProcessPlan plan;
};

/// The clients of the whole soak, in the order of time. At night few are there; at some times more want to come than a
/// board has slots.
std::vector<SoakNewcomer> MakeNewcomers(const SoakOptions& options, Prng& random);

/// What a configuration file says.
struct SoakConfig {
  static constexpr size_t kLabels = 8;       ///< "l0" to "l7"
  static constexpr uint64_t kQuantumNs = 50'000'000;
  static constexpr uint32_t kMostWeight = 4;

  std::string policy = "hpf";
  std::array<uint32_t, kLabels> weights{};
  std::array<int32_t, kLabels> priorities{};
  uint32_t least_share = 5;  ///< least_share_percent of the rule for the label "share"
  bool is_good = true;       ///< false: with a mistake in it

  /// What the rules say of a process of this label.
  ClientSettings SettingsFor(const std::string& label) const;
  std::string ToText() const;
};

SoakConfig MakeConfig(Prng& random, const std::string& policy);

/// The policies that are in force one after the other, and for how long: ffs and hpf long enough for an hour's shares
/// to mean something.
struct PolicyPart {
  const char* name;
  double seconds;
};
inline constexpr PolicyPart kPolicyParts[] = {{"hpf", 700}, {"ffs", 900},    {"fifo", 60}, {"hpf", 500},
                                              {"ffs", 700}, {"reorder", 60}, {"corun", 60}};

bool Chance(Prng& random, double probability);
/// A time in ns, exponentially distributed with this mean.
uint64_t After(Prng& random, double mean_s);

inline constexpr uint64_t kSecondNs = 1'000'000'000;
inline constexpr uint64_t kHourNs = 3600 * kSecondNs;

}  // namespace cupola::sched
